//! Files of snapshots that are damaged, stale, swapped, missing or foreign: each is named, by the servers and by the
//! checker, and none is believed. The job continues from the snapshot before.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::snapshot::format::{PartWriter, Section, SnapshotPartReader};
use pserver::snapshot::verify::verify;
use serde_json::Value;
use std::path::{Path, PathBuf};
use support::lives::{said, train_on, train_until};
use support::{Job, same};
use wire::spec::Origin;

fn job() -> Job {
    Job {
        snapshot_every: 3,
        passes: 2,
        ..Job::new(&[9, 9])
    }
}

fn file(root: &Path, step: u64, name: &str) -> PathBuf {
    root.join(format!("step-{step:012}")).join(name)
}

fn part(root: &Path, step: u64, server: u32) -> PathBuf {
    file(root, step, &format!("server-{server:04}.port-00.part"))
}

fn manifest(root: &Path, step: u64, server: u32) -> PathBuf {
    file(root, step, &format!("server-{server:04}.json"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn change(path: &Path, with: impl FnOnce(&mut Value)) {
    let mut value = read(path);
    with(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

/// Puts a part in the place of another one, and lets the manifest say its length and fingerprint.
fn put(from: (&Path, &Path), to: (&Path, &Path)) {
    std::fs::copy(from.0, to.0).unwrap();
    let said = read(from.1)["files"][0].clone();
    change(to.1, |manifest| {
        for key in ["bytes", "fingerprint"] {
            manifest["files"][0][key] = said[key].clone();
        }
    });
}

/// A life with snapshots of steps 3 and 6; `harm` does something to the latter.
#[track_caller]
fn check(harm: impl FnOnce(&Path) -> PathBuf, words: &str) {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    let whole = verify(root.path()).unwrap();
    assert_eq!(whole.problems, []);
    assert!(whole.snapshots.iter().all(|found| found.complete()));
    let bad = harm(root.path());
    let findings = verify(root.path()).unwrap();
    let named = |(path, text): &(PathBuf, String)| *path == bad && text.contains(words);
    assert!(findings.problems.iter().any(named), "{findings:?}");
    let (model, lines) = train_on(&job(), root.path());
    assert!(said(&lines, words), "{lines:?}");
    assert!(said(&lines, "from the snapshot of step 3"), "{lines:?}");
    same(&model, &job().local());
}

#[test]
fn an_older_part_is_not_believed() {
    let harm = |root: &Path| {
        let (old, new) = (part(root, 3, 1), part(root, 6, 1));
        put((&old, &manifest(root, 3, 1)), (&new, &manifest(root, 6, 1)));
        new
    };
    check(harm, "to step 3, not to step 6");
}

#[test]
fn parts_of_two_servers_that_are_swapped_are_not_believed() {
    let harm = |root: &Path| {
        let kept = (root.join("part"), root.join("manifest"));
        std::fs::copy(part(root, 6, 0), &kept.0).unwrap();
        std::fs::copy(manifest(root, 6, 0), &kept.1).unwrap();
        put(
            (&part(root, 6, 1), &manifest(root, 6, 1)),
            (&part(root, 6, 0), &manifest(root, 6, 0)),
        );
        put(
            (&kept.0, &kept.1),
            (&part(root, 6, 1), &manifest(root, 6, 1)),
        );
        std::fs::remove_file(kept.0).unwrap();
        std::fs::remove_file(kept.1).unwrap();
        part(root, 6, 0)
    };
    check(harm, "to server 1, not to server 0");
}

#[test]
fn a_part_of_another_run_is_not_believed() {
    let harm = |root: &Path| {
        let other = tempfile::tempdir().unwrap();
        let foreign = Job {
            name: "other".to_owned(),
            ..job()
        };
        train_until(&foreign, other.path(), 7);
        put(
            (&part(other.path(), 6, 0), &manifest(other.path(), 6, 0)),
            (&part(root, 6, 0), &manifest(root, 6, 0)),
        );
        part(root, 6, 0)
    };
    check(harm, "to run 'other'");
}

/// The same step of the same run, with every checksum right, but not what was written with the manifest.
#[test]
fn a_part_with_other_contents_is_not_believed() {
    let harm = |root: &Path| {
        let path = part(root, 6, 0);
        let bytes = std::fs::read(&path).unwrap();
        let mut reader = SnapshotPartReader::new(bytes.as_slice(), bytes.len() as u64).unwrap();
        let mut writer = PartWriter::new(Vec::new(), reader.header()).unwrap();
        while let Some(section) = reader.next_section().unwrap() {
            match section {
                Section::Block {
                    table,
                    index,
                    values,
                    state,
                } => {
                    let values: Vec<f32> = values.iter().map(|value| value + 1.0).collect();
                    let changed = Section::Block {
                        table,
                        index,
                        values: &values,
                        state,
                    };
                    writer.section(&changed).unwrap();
                }
                rows => writer.section(&rows).unwrap(),
            }
        }
        std::fs::write(&path, writer.finish().unwrap().0).unwrap();
        path
    };
    check(harm, "its checksum is not the one");
}

#[test]
fn a_missing_part_is_named() {
    let harm = |root: &Path| {
        let path = part(root, 6, 1);
        std::fs::remove_file(&path).unwrap();
        path
    };
    check(harm, "No such file");
}

fn base(root: &Path, step: u64, server: u32) -> PathBuf {
    file(root, step, &format!("server-{server:04}.port-00.base.part"))
}

/// Puts other bytes in the place of a base; the snapshot that it was linked from stays as it is.
fn replace_base(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_missing_base_is_named() {
    let harm = |root: &Path| {
        std::fs::remove_file(base(root, 6, 1)).unwrap();
        base(root, 6, 1)
    };
    check(harm, "base.part");
}

#[test]
fn a_damaged_base_is_not_believed() {
    let harm = |root: &Path| {
        let path = base(root, 6, 0);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        replace_base(&path, &bytes);
        path
    };
    check(harm, "damaged");
}

#[test]
fn a_base_of_another_server_or_step_is_not_believed() {
    let of_server = |root: &Path| {
        let path = base(root, 6, 1);
        replace_base(&path, &std::fs::read(base(root, 6, 0)).unwrap());
        let said = read(&manifest(root, 6, 0))["files"][0]["base"].clone();
        change(&manifest(root, 6, 1), |own| {
            for key in ["bytes", "fingerprint"] {
                own["files"][0]["base"][key] = said[key].clone();
            }
        });
        path
    };
    check(of_server, "to server 0, not to server 1");
    let of_step = |root: &Path| {
        let path = base(root, 6, 1);
        replace_base(&path, &std::fs::read(part(root, 6, 1)).unwrap());
        change(&manifest(root, 6, 1), |own| {
            for key in ["bytes", "fingerprint"] {
                own["files"][0]["base"][key] = own["files"][0][key].clone();
            }
        });
        path
    };
    check(of_step, "to step 6, not to step 3");
}

#[test]
fn a_manifest_of_an_earlier_format_is_refused_by_name() {
    let harm = |root: &Path| {
        let path = manifest(root, 6, 1);
        change(&path, |manifest| {
            manifest.as_object_mut().unwrap().remove("format");
        });
        path
    };
    check(harm, "format 1 of another version of canoe");
}

#[test]
fn a_manifest_of_another_server_or_step_is_not_believed() {
    let harm = |root: &Path| {
        std::fs::copy(manifest(root, 6, 0), manifest(root, 6, 1)).unwrap();
        manifest(root, 6, 1)
    };
    check(harm, "it belongs to server 0");
    let harm = |root: &Path| {
        std::fs::copy(manifest(root, 3, 1), manifest(root, 6, 1)).unwrap();
        manifest(root, 6, 1)
    };
    check(harm, "it belongs to step 3");
}

#[test]
fn a_manifest_that_names_fewer_parts_is_not_believed() {
    let harm = |root: &Path| {
        let path = manifest(root, 6, 1);
        change(&path, |manifest| {
            manifest["files"] = Value::Array(Vec::new())
        });
        path
    };
    check(harm, "one part for each port");
}

#[test]
fn what_does_not_belong_to_a_snapshot_is_named() {
    let root = tempfile::tempdir().unwrap();
    train_until(&job(), root.path(), 7);
    std::fs::remove_file(manifest(root.path(), 6, 1)).unwrap();
    std::fs::write(file(root.path(), 3, "notes.txt"), "x").unwrap();
    let findings = verify(root.path()).unwrap();
    let wrong: Vec<&PathBuf> = findings.problems.iter().map(|(path, _)| path).collect();
    assert_eq!(
        wrong,
        [
            &file(root.path(), 3, "notes.txt"),
            &base(root.path(), 6, 1),
            &part(root.path(), 6, 1)
        ]
    );
    let complete: Vec<bool> = findings.snapshots.iter().map(|f| f.complete()).collect();
    assert_eq!(complete, [true, false]);
    assert!(verify(&root.path().join("nowhere")).is_err());
}

/// Files that servers saved for a model are of one save, each under its own number.
#[test]
fn saved_rows_of_two_saves_are_not_mixed() {
    let root = tempfile::tempdir().unwrap();
    let (first, second) = (root.path().join("first"), root.path().join("second"));
    let job = Job::new(&[4]);
    let cluster = job.start(None);
    let mut trainer = support::Trainer::new(job.clone(), job.client_config(0, &cluster.bases));
    let (one, two) = (first.clone(), second.clone());
    trainer.before_close = Box::new(move |session| {
        for directory in [&one, &two] {
            std::fs::create_dir_all(directory).unwrap();
            session
                .save_on_servers(directory.to_str().unwrap())
                .unwrap();
        }
    });
    trainer.train().unwrap();
    drop(cluster);
    let kept = first.join("kept");
    std::fs::rename(first.join("pserver.0000"), &kept).unwrap();
    std::fs::copy(first.join("pserver.0001"), first.join("pserver.0000")).unwrap();
    let error = from_rows(&first).refused();
    assert!(error.contains("not service 0"), "{error}");
    std::fs::rename(&kept, first.join("pserver.0000")).unwrap();
    // Equal runs save equal files, whatever their names; one that has come further does not.
    let other = Job::new(&[5]);
    let cluster = other.start(None);
    let mut trainer = support::Trainer::new(other.clone(), other.client_config(0, &cluster.bases));
    let third = root.path().join("third");
    std::fs::create_dir_all(&third).unwrap();
    let directory = third.to_str().unwrap().to_owned();
    trainer.before_close = Box::new(move |session| session.save_on_servers(&directory).unwrap());
    trainer.train().unwrap();
    std::fs::copy(first.join("pserver.0001"), third.join("pserver.0001")).unwrap();
    let error = from_rows(&third).refused();
    assert!(error.contains("was saved at step"), "{error}");
}

/// A job that starts from rows that another one saved.
fn from_rows(directory: &Path) -> Job {
    Job {
        origin: Some(Origin::Rows(directory.to_str().unwrap().to_owned())),
        ..Job::new(&[4])
    }
}
