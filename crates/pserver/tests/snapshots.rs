//! Snapshots that are damaged, foreign or cannot be written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Job, Model, Trainer, same};

/// Trains until a batch of pass 0 and vanishes, as if all processes had been killed.
fn train_until(job: &Job, directory: &Path, batch: u64) {
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
        stopped.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let begun = Instant::now();
    while started
        .iter()
        .any(|(server, _)| server.report().snapshots.len() < 2)
    {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "no snapshots were written"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    started.iter().for_each(|(server, _)| server.shutdown());
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Trains to the end with new servers on the same directory; answers the model and what the servers said.
fn train_on(job: &Job, directory: &Path) -> (Model, Vec<String>) {
    let lines: Lines = Arc::default();
    let mut servers = Vec::new();
    let mut bases = Vec::new();
    for _ in 0..job.servers {
        let kept = lines.clone();
        let log: pserver::Log = Arc::new(move |_, text| kept.lock().unwrap().push(text.to_owned()));
        let port = support::free_ports(job.ports + job.sparse_ports);
        let config = job.server_config(port, Some(directory.to_owned()));
        servers.push(pserver::Server::start(config, log).unwrap());
        bases.push(port);
    }
    let cluster = support::Cluster {
        servers: servers.into_iter().map(Some).collect(),
        bases,
    };
    let model = job.run(&cluster);
    drop(cluster);
    let said = lines.lock().unwrap().clone();
    (model, said)
}

fn parts(directory: &Path, step: u64) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join(format!("step-{step:012}"))).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "part"));
    paths.sort();
    paths
}

fn job() -> Job {
    Job {
        snapshot_every: 3,
        passes: 2,
        ..Job::new(&[9, 9])
    }
}

fn said(lines: &[String], words: &str) -> bool {
    lines.iter().any(|line| line.contains(words))
}

#[test]
fn a_job_goes_on_from_its_newest_snapshot() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let (model, lines) = train_on(&job(), root.path());
    assert!(said(&lines, "from the snapshot of step 6"), "{lines:?}");
    same(&model, &job().local());
}

#[test]
fn a_flipped_bit_is_found_and_the_snapshot_before_is_used() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let path = parts(root.path(), 6).pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let (model, lines) = train_on(&job(), root.path());
    assert!(
        said(&lines, "damaged") || said(&lines, "cannot be used"),
        "{lines:?}"
    );
    assert!(said(&lines, "from the snapshot of step 3"), "{lines:?}");
    same(&model, &job().local());
}

#[test]
fn a_truncated_snapshot_is_not_offered() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let path = parts(root.path(), 6).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let (model, lines) = train_on(&job(), root.path());
    assert!(said(&lines, "snapshot of step 6 is damaged"), "{lines:?}");
    assert!(said(&lines, "from the snapshot of step 3"), "{lines:?}");
    same(&model, &job().local());
}

#[test]
fn a_snapshot_of_another_model_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let mut other = job();
    other.tables[0] = support::table("w", 71, 50, false, support::adam());
    let (model, lines) = train_on(&other, root.path());
    assert!(said(&lines, "of another job or model"), "{lines:?}");
    assert!(said(&lines, "from the start"), "{lines:?}");
    same(&model, &other.local());
}

#[test]
fn a_disk_that_takes_nothing_does_not_end_the_job() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let (model, lines) = train_on(&job(), &file.join("snapshots"));
    assert!(said(&lines, "is not written, the job goes on"), "{lines:?}");
    same(&model, &job().local());
}

#[test]
fn only_the_newest_snapshots_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let long = Job {
        snapshot_every: 2,
        ..Job::new(&[60, 60])
    };
    train_until(&long, root.path(), 50);
    let steps = std::fs::read_dir(root.path()).unwrap().count();
    assert!((2..=6).contains(&steps), "{steps} snapshots are kept");
}

fn on_servers(servers: u32) -> Job {
    Job {
        servers,
        snapshot_every: 3,
        ..Job::new(&[60, 60])
    }
}

/// Names of all files of one server.
fn files_of(directory: &Path, server: u32) -> Vec<PathBuf> {
    let steps = std::fs::read_dir(directory).unwrap();
    let files = steps.flat_map(|step| std::fs::read_dir(step.unwrap().path()).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    let prefix = format!("server-{server:04}.");
    paths.retain(|path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(&prefix)
    });
    paths
}

#[test]
fn files_of_servers_that_are_gone_are_deleted_when_there_are_newer_snapshots() {
    let root = tempfile::tempdir().unwrap();
    train_until(&on_servers(3), root.path(), 7);
    // Left by a life that got further on one server, and by another job.
    let late = root.path().join("step-000000000009");
    std::fs::create_dir_all(&late).unwrap();
    let six = root.path().join("step-000000000006");
    std::fs::copy(
        six.join("server-0002.port-00.part"),
        late.join("server-0002.port-00.part"),
    )
    .unwrap();
    let text = std::fs::read_to_string(six.join("server-0002.json")).unwrap();
    let mut foreign: serde_json::Value = serde_json::from_str(&text).unwrap();
    foreign["job"] = "another".into();
    std::fs::create_dir_all(root.path().join("step-000000000001")).unwrap();
    let foreign_file = root.path().join("step-000000000001/server-0007.json");
    std::fs::write(&foreign_file, foreign.to_string()).unwrap();

    // The present servers are killed before they have a snapshot of their own: the old one is still whole.
    train_until(&on_servers(2), root.path(), 8);
    assert!(six.join("server-0002.json").exists());
    train_until(&on_servers(2), root.path(), 40);
    assert_eq!(files_of(root.path(), 2), Vec::<PathBuf>::new());
    assert!(!six.exists());
    assert!(foreign_file.exists());

    let (model, lines) = train_on(&on_servers(3), root.path());
    assert!(said(&lines, "from the snapshot of step"), "{lines:?}");
    same(&model, &on_servers(3).local());
}

#[test]
fn servers_save_and_load_sparse_tables_of_any_topology() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().to_str().unwrap().to_owned();
    let first = Job {
        servers: 2,
        sparse_ports: 1,
        ..Job::new(&[4])
    };
    let cluster = first.start(None);
    let mut trainer = Trainer::new(first.clone(), first.client_config(0, &cluster.bases));
    let (mut session, _) =
        wire::Session::connect(first.client_config(0, &cluster.bases), first.spec()).unwrap();
    let ids: Vec<u32> = (0..900).step_by(3).collect();
    let mut values = Vec::new();
    let table = wire::TableId(2);
    session
        .pull_rows(&mut [wire::Rows {
            table,
            ids: &ids,
            values: &mut values,
        }])
        .unwrap();
    session.start_batch(1);
    session.push_rows(table, &ids, &values).unwrap();
    session.finish_batch(0.0).unwrap();
    let mut places: Vec<Vec<f32>> = vec![vec![0.0; 3500], vec![0.0; 3]];
    let mut targets: Vec<_> = places
        .iter_mut()
        .enumerate()
        .map(|(at, v)| (wire::TableId(at as u32), v.as_mut_slice()))
        .collect();
    session.wait_values(&mut targets).unwrap();
    let saved = trainer.download(&mut session).unwrap().remove(2);
    session.save_on_servers(&directory).unwrap();
    assert!(root.path().join("pserver.0001").exists());
    drop(session);
    let second = Job {
        servers: 3,
        ..Job::new(&[4])
    };
    let cluster = second.start(None);
    let mut trainer = Trainer::new(second.clone(), second.client_config(0, &cluster.bases));
    let (mut session, _) =
        wire::Session::connect(second.client_config(0, &cluster.bases), second.spec()).unwrap();
    session.load_on_servers(&directory).unwrap();
    let loaded = trainer.download(&mut session).unwrap().remove(2);
    same(&vec![loaded], &vec![saved]);
    let error = session
        .load_on_servers("/nowhere/at/all")
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/at/all"), "{error}");
}
