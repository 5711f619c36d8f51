//! A server of many trainers has few threads, and the bytes are those of one process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Job, Trainer, same};

/// Threads of this process that serve data connections.
fn serving() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
    names
        .flatten()
        .filter(|name| name.trim() == "lines")
        .count()
}

#[test]
fn forty_trainers_are_served_by_a_few_threads() {
    let job = Job {
        servers: 2,
        ports: 2,
        sparse_ports: 1,
        passes: 1,
        ..Job::new(&[6; 40])
    };
    let cluster = job.start(None);
    let most = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..40)
        .map(|trainer| {
            let (job, config) = (job.clone(), job.client_config(trainer, &cluster.bases));
            let most = most.clone();
            std::thread::spawn(move || {
                let mut trainer = Trainer::new(job, config);
                trainer.after_batch = Box::new(move |_, _| {
                    most.fetch_max(serving(), Ordering::AcqRel);
                });
                trainer.train().unwrap()
            })
        })
        .collect();
    let models: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    same(&models[0], &job.local());
    // There are 240 data connections. A machine that is busy for long makes threads look stuck, and each gets another.
    let most = most.load(Ordering::Acquire);
    assert!((1..120).contains(&most), "{most} threads");
}
