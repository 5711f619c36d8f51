//! The moving mean and variance of batch normalisation, which no gradient changes, in jobs with servers: those of trainer
//! 0, in every file, however often the job is interrupted. `matrix.rs` kills processes of the same job.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;

use common::run::{Run, signal, wait_until};
use common::{Folder, images, said, succeeded};

/// The moving mean.
const MEAN: &str = "___batch_norm_0__.w1";

fn split(nodes: u32) -> Folder {
    let folder = images::job();
    succeeded(&folder.canoe(&["data", "split", "job", &format!("--shards={nodes}")]));
    folder
}

#[test]
fn they_are_those_of_one_process_that_plays_the_nodes() {
    for (nodes, servers) in [(2, 1), (3, 3)] {
        let folder = split(nodes);
        let often = ["--saving_period_by_batches=3", "--test_period=2"];
        let played = [&often[..], &["--num_passes=2"]].concat();
        succeeded(&folder.played(nodes, images::CONFIG, "played", &played));
        let servers = format!("--servers={servers}");
        let run = [&["--passes=2", &servers, "--"], &often[..]].concat();
        succeeded(&folder.nodes(nodes, images::CONFIG, &run));
        for pass in ["pass-00000-001", "pass-00000", "pass-00001"] {
            let expected = folder.parameters(&format!("played/{pass}"));
            assert!(expected.iter().any(|(name, _)| name == MEAN));
            let got = folder.parameters(&format!("job/output/{pass}"));
            assert_eq!(got, expected, "{pass} on {nodes} nodes");
        }
    }
}

#[test]
fn a_run_that_was_interrupted_inside_a_pass_resumes_with_them() {
    let folder = split(2);
    let job = ["--nodes=2", "--config", images::CONFIG, "--passes=3"];
    let job = [&job[..], &["--snapshot-period=2", "--watch=off"]].concat();
    let run = |folder: &Folder| folder.canoe(&[&["run", "job"][..], &job].concat());
    succeeded(&run(&folder));
    let models = |folder: &Folder| {
        let passes = ["pass-00000", "pass-00001", "pass-00002"];
        passes.map(|pass| folder.parameters(&format!("job/output/{pass}")))
    };
    let expected = models(&folder);
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    // Six tables learn: this is a batch in the middle of the second pass.
    fs::write(points.join("trainer-0.pushing"), "62").unwrap();
    let variable = points.display().to_string();
    let mut first = Run::start(&folder, &job, &[("CANOE_FAIL_POINTS", &variable)]);
    let reached = points.join("trainer-0.pushing.reached");
    wait_until(&mut first, &folder, "the batch", || reached.exists());
    assert!(folder.path("job/output/pass-00000/done").exists());
    assert!(!folder.path("job/output/pass-00001").exists());
    signal(first.0.id() as i32, libc::SIGKILL);
    first.0.wait().unwrap();
    let resumed = run(&folder);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(text.contains("resuming the run"), "{text}");
    assert!(models(&folder) == expected, "{text}");
}
