//! Lives of a job: one that is killed in the middle, and one that continues in the same directory.

use super::{Job, Model, Trainer};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Trains until a batch of pass 0 and vanishes, as if all processes had been killed.
pub(crate) fn train_until(job: &Job, directory: &Path, batch: u64) {
    let started: Vec<_> = (0..job.servers)
        .map(|_| job.start_server(Some(directory.to_owned())))
        .collect();
    let bases: Vec<u16> = started.iter().map(|(_, base)| *base).collect();
    let (stop, stopped) = channel();
    for trainer in 0..job.batches.len() as u32 {
        let (job, config, stop) = (
            job.clone(),
            job.client_config(trainer, &bases),
            stop.clone(),
        );
        std::thread::spawn(move || {
            let mut trainer = Trainer::new(job, config);
            trainer.after_batch = Box::new(move |_, at| {
                std::thread::sleep(Duration::from_millis(15));
                if at == batch {
                    let _ = stop.send(());
                    std::thread::sleep(Duration::from_secs(3600));
                }
            });
            let _ = trainer.train();
        });
    }
    for _ in &job.batches {
        stopped.recv_timeout(Duration::from_secs(240)).unwrap();
    }
    let begun = Instant::now();
    // Servers that hold nothing write none.
    let waits =
        |server: &pserver::Server| server.size().bytes > 0 && server.report().snapshots.len() < 2;
    while started.iter().any(|(server, _)| waits(server)) {
        assert!(
            begun.elapsed() < Duration::from_secs(240),
            "no snapshots were written"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    started.iter().for_each(|(server, _)| server.shutdown());
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Trains to the end with new servers on the same directory; returns the model and what the servers said.
pub(crate) fn train_on(job: &Job, directory: &Path) -> (Model, Vec<String>) {
    let lines: Lines = Arc::default();
    let mut servers = Vec::new();
    let mut bases = Vec::new();
    for _ in 0..job.servers {
        let kept = lines.clone();
        let log: pserver::ServerLog =
            Arc::new(move |_, text| kept.lock().unwrap().push(text.to_owned()));
        let port = super::free_ports(job.ports + job.sparse_ports);
        let config = job.server_config(port, Some(directory.to_owned()));
        servers.push(pserver::Server::start(config, log).unwrap());
        bases.push(port);
    }
    let cluster = super::Cluster {
        servers: servers.into_iter().map(Some).collect(),
        bases,
    };
    let model = job.run(&cluster);
    drop(cluster);
    let said = lines.lock().unwrap().clone();
    (model, said)
}

/// Whether a line has these words.
pub(crate) fn said(lines: &[String], words: &str) -> bool {
    lines.iter().any(|line| line.contains(words))
}
