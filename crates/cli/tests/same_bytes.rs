//! The promise of the same model bit for bit: repeated, resumed, killed, threaded, and on several nodes.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{CANOE, Folder, succeeded};

const LR: &str = "trainer_config.lr.py";
const EMB: &str = "trainer_config.emb.py";

#[test]
fn two_runs_and_other_numbers_of_threads_are_equal() {
    let folder = Folder::with_demo(600);
    for (save, threads) in [("a", "1"), ("b", "1"), ("c", "3")] {
        let threads = format!("--trainer_count={threads}");
        succeeded(&folder.train(EMB, save, &["--num_passes=1", &threads]));
    }
    let once = folder.parameters("a/pass-00000");
    assert_eq!(once, folder.parameters("b/pass-00000"), "repeated");
    assert_eq!(once, folder.parameters("c/pass-00000"), "three threads");
}

#[test]
fn a_run_that_goes_on_equals_one_that_was_never_stopped() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.train(LR, "whole", &["--num_passes=4"]));
    succeeded(&folder.train(LR, "parts", &["--num_passes=2"]));
    succeeded(&folder.train(LR, "parts", &["--num_passes=2", "--start_pass=2"]));
    assert_eq!(
        folder.parameters("whole/pass-00003"),
        folder.parameters("parts/pass-00003")
    );
}

#[test]
fn a_killed_run_goes_on_from_its_last_pass() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.train(LR, "whole", &["--num_passes=4"]));
    let save = format!("--save_dir={}", folder.path("parts").display());
    let mut child = Command::new(CANOE)
        .args(["train", "--config=quick_start/trainer_config.lr.py", &save])
        .args(["--num_passes=1000", "--dot_period=0"])
        .current_dir(folder.path("job"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !folder.path("parts/pass-00001/done").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no second pass");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeded(&folder.train(LR, "parts", &["--num_passes=2", "--start_pass=2"]));
    assert_eq!(
        folder.parameters("whole/pass-00003"),
        folder.parameters("parts/pass-00003")
    );
}

#[test]
fn nodes_equal_one_process_that_plays_them() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=3"]));
    let save = format!("--save_dir={}", folder.path("played").display());
    let config = format!("--config={LR}");
    let played = ["train", "--simulate_nodes=3", &config, &save];
    let played = [&played[..], &["--num_passes=2", "--dot_period=0"]].concat();
    succeeded(&folder.canoe_in("job", &played));
    let expected = folder.parameters("played/pass-00001");
    for (ports, threads) in [("1", "1"), ("3", "2")] {
        let ports = format!("--ports={ports}");
        let threads = format!("--trainer_count={threads}");
        let nodes = ["run", "job", "--nodes=3", "--config", LR, "--passes=2"];
        let more = [ports.as_str(), "--", threads.as_str()];
        succeeded(&folder.canoe(&[&nodes[..], &more].concat()));
        assert_eq!(
            folder.parameters("job/output/pass-00001"),
            expected,
            "{ports} {threads}"
        );
    }
}
