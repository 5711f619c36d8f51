//! A small model is on few servers; the others take no part in steps. The bytes are the same, whoever is lost and however
//! many servers continue.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::snapshot::verify::verify;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::lives::{said, train_on, train_until};
use support::{Job, Model, Trainer, same, table};

/// Dense tables alone, 94 kB: two of three servers hold them.
fn small() -> Job {
    Job {
        servers: 3,
        snapshot_every: 3,
        tables: vec![
            table("w", 200, 100, false, support::adam()),
            table("bias", 1, 3, false, support::momentum()),
            table("v", 35, 100, false, support::adagrad()),
        ],
        ..Job::new(&[9, 8])
    }
}

#[test]
fn servers_that_hold_nothing_have_no_data_connections_and_the_bytes_are_the_same() {
    for (servers, ports, local_sockets) in [(3, 1, false), (3, 1, true), (5, 2, false)] {
        let job = Job {
            servers,
            ports,
            local_sockets,
            ..small()
        };
        let cluster = job.start(None);
        let model = job.run(&cluster);
        same(&model, &job.local());
        let all = cluster.servers.iter().flatten();
        let holds: Vec<bool> = all.clone().map(|server| server.size().bytes > 0).collect();
        assert!(holds[0] && !holds[servers as usize - 1], "{holds:?}");
        for (server, holds) in all.zip(holds) {
            assert_eq!(server.counts().received_bytes > 0, holds);
        }
    }
}

/// Runs the job, and replaces one server in the middle.
fn lose(job: &Job, lost: usize) -> (Model, Vec<String>) {
    let root = tempfile::tempdir().unwrap();
    let mut cluster = job.start(Some(root.path()));
    let done = Arc::new(AtomicU64::new(0));
    let trainers: Vec<_> = (0..2)
        .map(|trainer| {
            let config = job.client_config(trainer, &cluster.bases);
            let (job, done) = (job.clone(), done.clone());
            std::thread::spawn(move || {
                let mut trainer = Trainer::new(job, config);
                trainer.after_batch = Box::new(move |_, _| {
                    done.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                });
                (trainer.train().unwrap(), trainer.rollbacks)
            })
        })
        .collect();
    let begun = Instant::now();
    while done.load(Ordering::Relaxed) < 10 {
        assert!(begun.elapsed() < Duration::from_secs(240));
        std::thread::sleep(Duration::from_millis(2));
    }
    cluster.servers[lost] = None;
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    let log: pserver::ServerLog =
        Arc::new(move |_, text| kept.lock().unwrap().push(text.to_owned()));
    // As `Job::start` names them: every server has a directory of its own.
    let directory = root.path().join(format!("private-{lost}"));
    let config = job.server_config(cluster.bases[lost], Some(directory));
    cluster.servers[lost] = loop {
        match pserver::Server::start(config.clone(), log.clone()) {
            Ok(server) => break Some(server),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(240), "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut ends = trainers.into_iter().map(|thread| thread.join().unwrap());
    let (model, rollbacks) = ends.next().unwrap();
    ends.for_each(drop);
    assert!(rollbacks >= 1, "the trainers were rolled back");
    drop(cluster);
    let said = lines.lock().unwrap().clone();
    (model, said)
}

#[test]
fn a_server_that_holds_nothing_is_replaced_and_no_batch_is_repeated() {
    let job = small();
    let (model, lines) = lose(&job, 2);
    assert!(said(&lines, "from the current values"), "{lines:?}");
    assert!(said(&lines, "2 of 3 servers hold it"), "{lines:?}");
    same(&model, &job.local());
}

#[test]
fn a_server_that_holds_something_is_restored_from_the_snapshot_of_those_that_do() {
    let job = small();
    let (model, lines) = lose(&job, 1);
    assert!(said(&lines, "from the snapshot of step"), "{lines:?}");
    same(&model, &job.local());
}

#[test]
fn snapshots_are_restored_by_any_number_of_servers_and_holders() {
    for (before, after) in [(3, 1), (3, 2), (3, 4), (1, 3), (2, 3)] {
        let root = tempfile::tempdir().unwrap();
        let with = |servers| Job { servers, ..small() };
        train_until(&with(before), root.path(), 7);
        let findings = verify(root.path()).unwrap();
        assert_eq!(findings.problems, []);
        assert!(findings.snapshots.iter().all(|found| found.complete()));
        let (model, lines) = train_on(&with(after), root.path());
        let what = format!("{before} to {after}: {lines:?}");
        assert!(said(&lines, "from the snapshot of step 6"), "{what}");
        same(&model, &small().local());
    }
}
