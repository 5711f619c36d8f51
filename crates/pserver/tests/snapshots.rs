//! Snapshots that are damaged, foreign or cannot be written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::snapshot::manifest::SnapshotManifest;
use pserver::snapshot::verify::verify;
use pserver::snapshot::{Flush, SnapshotStore};
use std::path::{Path, PathBuf};
use support::lives::{said, train_on, train_until};
use support::{Job, Trainer, same};
use wire::Step;
use wire::spec::Origin;

fn parts(directory: &Path, step: u64) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join(format!("step-{step:012}"))).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let own = |path: &PathBuf| path.to_string_lossy().ends_with(".part");
    paths.retain(|path| own(path) && !path.to_string_lossy().ends_with(".base.part"));
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

#[test]
fn a_job_continues_from_its_newest_snapshot() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let (model, lines) = train_on(&job(), root.path());
    assert!(said(&lines, "from the snapshot of step 6"), "{lines:?}");
    same(&model, &job().local());
}

fn manifest(directory: &Path, step: u64, server: u32) -> SnapshotManifest {
    let name = format!("step-{step:012}/server-{server:04}.json");
    serde_json::from_slice(&std::fs::read(directory.join(name)).unwrap()).unwrap()
}

#[test]
fn snapshots_hold_what_changed_since_the_last_one_of_all_rows_and_do_without_its_directory() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    for server in 0..2 {
        let first = manifest(root.path(), 3, server);
        let second = manifest(root.path(), 6, server);
        for (before, after) in first.files.iter().zip(&second.files) {
            assert_eq!(before.base, None);
            let base = after.base.as_ref().unwrap();
            assert_eq!(base.boundary, first.boundary);
            let said = (before.bytes, before.fingerprint);
            assert_eq!((base.bytes, base.fingerprint), said);
        }
    }
    // Both names are of one file, so the first directory is not needed.
    std::fs::remove_dir_all(root.path().join("step-000000000003")).unwrap();
    assert_eq!(verify(root.path()).unwrap().problems, []);
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
    assert!(said(&lines, "another model"), "{lines:?}");
    assert!(said(&lines, "from the start"), "{lines:?}");
    same(&model, &other.local());
}

#[test]
fn a_disk_that_takes_nothing_does_not_end_the_job() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let (model, lines) = train_on(&job(), &file.join("snapshots"));
    assert!(
        said(&lines, "could not be written; the job continues"),
        "{lines:?}"
    );
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
        .pull_rows(&mut [wire::RowRequest {
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
        origin: Some(Origin::Rows(directory)),
        ..Job::new(&[4])
    };
    let cluster = second.start(None);
    let mut trainer = Trainer::new(second.clone(), second.client_config(0, &cluster.bases));
    let (mut session, _) =
        wire::Session::connect(second.client_config(0, &cluster.bases), second.spec()).unwrap();
    let loaded = trainer.download(&mut session).unwrap().remove(2);
    same(&vec![loaded], &vec![saved]);
    let third = Job {
        origin: Some(Origin::Rows("/nowhere/at/all".to_owned())),
        ..second
    };
    let error = third.refused();
    assert!(error.contains("/nowhere/at/all"), "{error}");
}

/// It deleted the snapshot of the same step of the run that had taken the folder.
#[test]
fn a_server_that_has_lost_its_folder_deletes_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let step = folder.path().join("step-000000000003");
    std::fs::create_dir(&step).unwrap();
    for name in ["server-0001.json", "server-0001.port-00.part"] {
        std::fs::write(step.join(name), "of the other run").unwrap();
    }
    let count = || std::fs::read_dir(&step).map_or(0, Iterator::count);
    let lost = || Err(std::io::ErrorKind::NotFound.into());
    let store = SnapshotStore::on(folder.path().to_owned(), Flush::guarded(lost));
    store.remove(Step(3), 1);
    store.confirm(Step(3), 1);
    assert_eq!(count(), 2);
    SnapshotStore::new(folder.path().to_owned()).remove(Step(3), 1);
    assert!(!step.exists());
}
