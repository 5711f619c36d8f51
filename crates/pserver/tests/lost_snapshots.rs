//! Servers that have lost the snapshots that they should have: the job does not begin again without a word, and nothing
//! that is there is deleted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{Cluster, Job, Model, Trainer, same};
use wire::Error;

fn job() -> Job {
    Job {
        snapshot_every: 3,
        passes: 2,
        ..Job::new(&[9, 9])
    }
}

fn directory(root: &Path, server: usize) -> PathBuf {
    root.join(format!("private-{server}"))
}

/// A life that ends, killed, when all servers know that they have a common snapshot.
fn first_life(root: &Path) {
    let job = job();
    let cluster = job.start(Some(root));
    for trainer in 0..2 {
        let mut trainer = Trainer::new(job.clone(), job.client_config(trainer, &cluster.bases));
        trainer.after_batch = Box::new(|_, batch| {
            if batch == 7 {
                loop {
                    std::thread::park();
                }
            }
        });
        std::thread::spawn(move || trainer.train());
    }
    let confirmed = |server: usize| {
        let note = format!("step-000000000006/server-{server:04}.confirmed");
        directory(root, server).join(note).exists()
    };
    while !(0..2).all(confirmed) {
        std::thread::sleep(Duration::from_millis(2));
    }
    cluster.servers.iter().flatten().for_each(|s| s.shutdown());
}

/// The next life, to its end.
fn next_life(root: &Path, fresh: bool) -> (Result<Model, Error>, Cluster) {
    let job = job();
    let cluster = job.start(Some(root));
    let threads: Vec<_> = (0..2)
        .map(|trainer| {
            let config = wire::SessionConfig {
                fresh,
                ..job.client_config(trainer, &cluster.bases)
            };
            let mut trainer = Trainer::new(job.clone(), config);
            std::thread::spawn(move || trainer.train())
        })
        .collect();
    let mut results: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    (results.remove(0), cluster)
}

/// Names of all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

#[track_caller]
fn refused(root: &Path, words: &[&str]) {
    let (result, _cluster) = next_life(root, false);
    let text = match result {
        Err(error @ Error::JobFailed(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for words in words.iter().chain(&["--fresh", "--start_pass"]) {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_server_whose_folder_is_gone_is_named_and_the_others_keep_theirs() {
    let root = tempfile::tempdir().unwrap();
    first_life(root.path());
    std::fs::remove_dir_all(directory(root.path(), 1)).unwrap();
    let kept = files(&directory(root.path(), 0));
    let folder = directory(root.path(), 1).display().to_string();
    refused(
        root.path(),
        &["has no snapshot of this run", &folder, "step 6"],
    );
    assert_eq!(files(&directory(root.path(), 0)), kept);

    // With the user's word it begins again, and keeps what was there.
    let (result, cluster) = next_life(root.path(), true);
    same(&result.unwrap(), &job().local());
    drop(cluster);
    let aside = files(&directory(root.path(), 0).join("aside-0001"));
    assert_eq!(aside.len(), kept.len(), "{aside:?}");
}

#[test]
fn a_folder_that_cannot_be_read_is_not_an_empty_one() {
    let root = tempfile::tempdir().unwrap();
    first_life(root.path());
    let folder = directory(root.path(), 1);
    std::fs::rename(&folder, root.path().join("moved")).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    refused(root.path(), &["list ", &folder.display().to_string()]);
    // Once it is back, the job continues.
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(root.path().join("moved"), &folder).unwrap();
    let (result, cluster) = next_life(root.path(), false);
    same(&result.unwrap(), &job().local());
    let report = cluster.servers[0].as_ref().unwrap().report();
    assert!(!report.snapshots.is_empty(), "{report:?}");
}

#[test]
fn a_server_whose_snapshots_are_all_damaged_is_named() {
    let root = tempfile::tempdir().unwrap();
    first_life(root.path());
    for path in files(&directory(root.path(), 1)) {
        if path.extension().is_some_and(|end| end == "part") {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            // Other snapshots may have the same file under another name.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let folder = directory(root.path(), 1).display().to_string();
    refused(root.path(), &["damaged", &folder]);
}

/// The same while the job runs: the server is replaced, its folder is new.
#[test]
fn a_replaced_server_with_an_empty_folder_ends_the_job_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 3,
        passes: 1,
        ..Job::new(&[100_000, 100_000])
    };
    let mut cluster = job.start(Some(root.path()));
    let threads: Vec<_> = (0..2)
        .map(|trainer| {
            let config = job.client_config(trainer, &cluster.bases);
            let mut trainer = Trainer::new(job.clone(), config);
            std::thread::spawn(move || trainer.train())
        })
        .collect();
    while cluster.servers[0].as_ref().unwrap().stable().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    cluster.servers[1] = None;
    std::fs::remove_dir_all(directory(root.path(), 1)).unwrap();
    let config = job.server_config(cluster.bases[1], Some(directory(root.path(), 1)));
    let _replaced = loop {
        if let Ok(server) = pserver::Server::start(config.clone(), support::quiet()) {
            break server;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for thread in threads {
        let error = thread.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("has no snapshot of this run"), "{error}");
    }
    assert!(!files(&directory(root.path(), 0)).is_empty());
}
