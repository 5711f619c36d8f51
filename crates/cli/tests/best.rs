//! The best model, and the end of training: found, kept and linked, and the same on one process and on several that are
//! killed at any moment.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::run::{Run, log, signal};
use common::{Folder, failed, said, succeeded};

const LR: &str = "trainer_config.lr.py";

/// The pass directories of a folder.
fn models(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("pass-")).collect();
    names.sort();
    names
}

fn best(folder: &Path) -> String {
    let link = fs::read_link(folder.join("best")).unwrap();
    link.to_string_lossy().into_owned()
}

/// The test errors of a trainer's log, in the order of passes.
fn errors(log: &str) -> Vec<f64> {
    let tests = log.lines().filter(|line| line.contains("Test samples="));
    let error = |line: &str| {
        let (_, value) = line.split_once("classification_error_evaluator=").unwrap();
        value.trim().parse().unwrap()
    };
    tests.map(error).collect()
}

#[test]
fn a_demo_ends_by_itself_and_its_best_line_is_the_best_pass_of_the_log() {
    let folder = Folder::with_demo(600);
    let run = folder.nodes(1, LR, &["--watch=off"]);
    succeeded(&run);
    let output = folder.path("job/output");
    let log = fs::read_to_string(output.join("node_0/train.log")).unwrap();
    let errors = errors(&log);
    let least = errors.iter().copied().reduce(f64::min).unwrap();
    let pass = errors.iter().position(|error| *error == least).unwrap();
    let (last, said) = (errors.len() - 1, said(&run));
    assert_eq!(
        last,
        pass + 3,
        "it stopped after three passes without improvement: {errors:?}"
    );
    let sentence = format!(
        "best test error {:.1} % after pass {pass}; stopped after pass {last}: output/best",
        least * 100.0
    );
    assert!(said.contains(&sentence), "{sentence}\n{said}");
    assert_eq!(best(&output), format!("pass-{pass:05}"));
    assert_eq!(models(&output).len(), 4);
    let listed = folder.canoe(&["model", "list", "job"]);
    succeeded(&listed);
    let marked = common::said(&listed);
    let line = marked.lines().find(|line| line.contains("best")).unwrap();
    assert!(line.contains(&format!("pass-{pass:05}")), "{marked}");
}

#[test]
fn a_user_who_names_the_number_of_passes_gets_it_and_every_pass_on_request() {
    let folder = Folder::with_demo(300);
    succeeded(&folder.train(LR, "all", &["--num_passes=6", "--keep=all"]));
    assert_eq!(models(&folder.path("all")).len(), 6);
    succeeded(&folder.train(LR, "two", &["--num_passes=6", "--keep=last:2"]));
    assert_eq!(models(&folder.path("two")), ["pass-00004", "pass-00005"]);
    let refused = failed(&folder.train(LR, "none", &["--keep=worst"]));
    assert!(refused.contains("--keep=worst: best, last:N"), "{refused}");
    let refused = failed(&folder.train(LR, "none", &["--best_by=beauty"]));
    assert!(
        refused.contains("--best_by=beauty") && refused.contains("cost"),
        "{refused}"
    );
}

#[test]
fn what_a_resume_needs_is_kept() {
    let folder = Folder::with_demo(300);
    succeeded(&folder.train(LR, "whole", &["--num_passes=8"]));
    succeeded(&folder.train(LR, "parts", &["--num_passes=2"]));
    let more = ["--num_passes=6", "--start_pass=2", "--keep=last:1"];
    succeeded(&folder.train(LR, "parts", &more));
    let left = models(&folder.path("parts"));
    assert_eq!(left, ["pass-00001", "pass-00007"], "it started from pass 1");
    let last = |save: &str| folder.parameters(&format!("{save}/pass-00007"));
    assert_eq!(last("whole"), last("parts"));
}

#[test]
fn nodes_that_are_killed_stop_after_the_same_pass_with_the_same_bytes() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let patience = ["--patience=2", "--num_passes=40"];
    succeeded(&folder.played(2, LR, "played", &patience));
    let played = folder.path("played");
    let (expected, winner) = (models(&played), best(&played));
    let output = folder.path("job/output");
    for (victim, pause) in [
        ("--trainer_id=0", 900),
        ("server_id=1", 1500),
        ("--trainer_id=1", 2200),
    ] {
        let args = [
            "--nodes=2",
            "--config",
            LR,
            "--passes=40",
            "--patience=2",
            "--keep-going",
            "--snapshot-period=5",
            "--peer-timeout=2",
            "--watch=off",
        ];
        let mut run = Run::start(&folder, &args, &[]);
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(pause));
            if let Some(process) = run.find(victim) {
                signal(process, libc::SIGKILL);
            }
        }
        assert!(run.0.wait().unwrap().success(), "{}", log(&folder));
        assert_eq!(models(&output), expected, "{}", log(&folder));
        assert_eq!(best(&output), winner);
        for model in &expected {
            let path = format!("job/output/{model}");
            assert_eq!(
                folder.parameters(&path),
                common::parameters(&played.join(model))
            );
        }
    }
}

#[test]
fn a_second_training_into_the_same_folder_says_what_it_replaces() {
    let folder = Folder::with_demo(60);
    let first = folder.train(LR, "job/out", &["--num_passes=3"]);
    succeeded(&first);
    assert!(
        !said(&first).contains("earlier training"),
        "{}",
        said(&first)
    );
    let second = folder.train(LR, "job/out", &["--num_passes=1"]);
    succeeded(&second);
    let text = said(&second);
    assert!(text.contains("earlier training up to pass-00002"), "{text}");
    assert_eq!(best(&folder.path("job/out")), "pass-00000");
    let resumed = folder.train(LR, "job/out", &["--start_pass=3", "--num_passes=1"]);
    succeeded(&resumed);
    assert!(
        !said(&resumed).contains("earlier training"),
        "{}",
        said(&resumed)
    );
}
