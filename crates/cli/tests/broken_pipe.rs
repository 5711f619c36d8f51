//! Commands whose reader goes away, as `… | head` does: nothing panics, and a running job continues.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::io::Read;
use std::process::{Command, Stdio};

use common::{CANOE, Folder, succeeded};

/// Runs a command whose standard output nobody reads; returns what it said on standard error.
fn unread(folder: &Folder, args: &[&str]) -> String {
    let mut child = Command::new(CANOE)
        .args(args)
        .current_dir(folder.path("."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn a_table_without_a_reader_ends_quietly() {
    let folder = Folder::with_demo(60);
    succeeded(&folder.train("trainer_config.lr.py", "job/output", &["--num_passes=1"]));
    let config = "job/quick_start/trainer_config.lr.py";
    let yaml =
        "name: river\nimage: registry.example/canoe:1\nnodes: 1\nvolume: {claim: {name: data}}\n";
    std::fs::write(folder.path("job/job.yaml"), yaml).unwrap();
    let commands: [&[&str]; 23] = [
        &["help"],
        &["data", "show", "job"],
        &["model", "show", "job/output/pass-00000"],
        &[
            "model",
            "diff",
            "job/output/pass-00000",
            "job/output/pass-00000",
        ],
        &["model", "verify", "job/output/pass-00000"],
        &["config", "dump", config],
        &["config", "diagram", config],
        &["train", "-h"],
        &["node", "--help"],
        &["model", "list", "job/output"],
        &["config", "check", config],
        &["data", "split", "job", "--shards=2"],
        &["snapshot", "verify", "job/output"],
        &["doctor"],
        &["completions", "bash"],
        &["report", "job/output", "--to", "report.html"],
        &[
            "predict",
            "job/output",
            "--input-format=provider",
            "job/data/test.txt",
        ],
        &["model", "embed", "job/output", "fc_layer_0.weight"],
        &[
            "model",
            "neighbours",
            "job/output",
            "fc_layer_0.weight",
            "7",
        ],
        &["job", "render", "job"],
        &["python", "path"],
        &["demo", "--help"],
        &["pserver", "--help"],
    ];
    for command in commands {
        let whole = folder.canoe(command);
        assert!(
            !whole.stdout.is_empty(),
            "{command:?}: {}",
            common::said(&whole)
        );
        let said = unread(&folder, command);
        assert!(!said.contains("panicked"), "{command:?}: {said}");
        assert!(!said.contains("Broken pipe"), "{command:?}: {said}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::with_demo(60);
    for args in [&["data", "show", "job"][..], &["help"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let done = Command::new(CANOE)
            .args(args)
            .current_dir(folder.path("."))
            .stdout(full.unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("No space left"), "{args:?}: {said}");
    }
}

#[test]
fn a_job_without_a_reader_continues() {
    let folder = Folder::with_demo(60);
    let mut child = Command::new(CANOE)
        .args(["run", "job", "--nodes=1", "--passes=2", "--watch=off"])
        .args(["--config", "trainer_config.lr.py"])
        .current_dir(folder.path("."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    let end = child.wait().unwrap();
    assert!(end.success(), "the job ended well: {end}");
    let owner = folder.path("job/output/owner.json");
    assert!(!owner.exists(), "the folder is given back");
    assert!(folder.path("job/output/pass-00001/done").exists());
}
