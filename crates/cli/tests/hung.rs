//! A process that lives and does nothing is named and replaced, and the result is that of an undisturbed run. Provider
//! processes, also hanging ones, end with their trainer.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::run::{DEADLINE, Run, log, signal, wait_until};
use common::{Folder, succeeded};

const CONFIG: &str = "trainer_config.emb.py";

/// The provider of node 1 hangs once, if a file says so, and notes its process id.
const HANG: (&str, &str) = (
    "    ids = settings.ids\n    with open(file_name",
    "    ids = settings.ids
    import os, time
    if 'node_1' in os.getcwd() and os.path.exists(os.path.join(HERE, 'hang')):
        os.rename(os.path.join(HERE, 'hang'), os.path.join(HERE, 'hangs'))
        assert 'CANOE_JOB_TOKEN' not in os.environ
        with open(os.path.join(HERE, 'pid.part'), 'w') as out:
            out.write(str(os.getpid()))
        os.rename(os.path.join(HERE, 'pid.part'), os.path.join(HERE, 'pid'))
        while True:
            time.sleep(1000)
    with open(file_name",
);

const JOB: [&str; 8] = [
    "--nodes=2",
    "--config",
    CONFIG,
    "--passes=2",
    "--watch=off",
    "--snapshot-period=2",
    "--keep-going",
    "--peer-timeout=1",
];

fn folder() -> Folder {
    let folder = Folder::with_demo(200);
    folder.vary(CONFIG, CONFIG, &[("else 128", "else 16")]);
    let here = format!(
        "HERE = {:?}\nUNKNOWN = 0",
        folder.path(".").display().to_string()
    );
    folder.vary(
        "dataprovider_emb.py",
        "dataprovider_emb.py",
        &[HANG, ("UNKNOWN = 0", here.as_str())],
    );
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    folder
}

fn is_gone(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z")
}

fn wait_gone(process: &str) {
    let begun = Instant::now();
    while !is_gone(process) {
        assert!(begun.elapsed() < DEADLINE, "the provider is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_trainer_whose_provider_hangs_is_replaced() {
    let folder = folder();
    Run::start(&folder, &JOB, &[]).wait(&folder);
    let wanted = folder.parameters("job/output/pass-00001");
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    fs::write(folder.path("hang"), "").unwrap();
    let args = [&JOB[..], &["--stall-timeout=2"]].concat();
    Run::start(&folder, &args, &[]).wait(&folder);
    let told = log(&folder);
    assert!(folder.path("hangs").exists(), "nothing hung\n{told}");
    assert!(
        told.contains("for trainer 1") && told.contains("has waited"),
        "{told}"
    );
    assert_eq!(folder.parameters("job/output/pass-00001"), wanted, "{told}");
    wait_gone(&fs::read_to_string(folder.path("pid")).unwrap());
}

#[test]
fn a_hanging_provider_does_not_outlive_a_killed_trainer() {
    let folder = folder();
    fs::write(folder.path("hang"), "").unwrap();
    let mut run = Run::start(&folder, &JOB[..6], &[]);
    let pid = folder.path("pid");
    wait_until(&mut run, &folder, "the hanging provider", || pid.exists());
    let provider = fs::read_to_string(&pid).unwrap();
    let trainer = run.find("--trainer_id=1").unwrap();
    signal(trainer, libc::SIGKILL);
    wait_gone(&provider);
    let _ = run.0.wait();
}

#[test]
fn a_process_that_is_stopped_for_ever_is_replaced() {
    let folder = folder();
    Run::start(&folder, &JOB, &[]).wait(&folder);
    let wanted = folder.parameters("job/output/pass-00001");
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    fs::write(points.join("trainer-1.pulling"), "3").unwrap();
    let variable = points.display().to_string();
    let mut run = Run::start(&folder, &JOB, &[("CANOE_FAIL_POINTS", &variable)]);
    let reached = points.join("trainer-1.pulling.reached");
    wait_until(&mut run, &folder, "a batch", || reached.exists());
    // Its state must have been read once, so that its silence can be noticed.
    std::thread::sleep(Duration::from_millis(1500));
    signal(run.find("--trainer_id=1").unwrap(), libc::SIGSTOP);
    fs::remove_file(&reached).unwrap();
    run.wait(&folder);
    let told = log(&folder);
    assert!(told.contains("stopped or hangs"), "{told}");
    assert_eq!(folder.parameters("job/output/pass-00001"), wanted, "{told}");
}

/// Runs the job with a process that waits for ever at a fail point, and expects these words and the bytes of an
/// undisturbed run.
fn is_replaced_at(point: &str, count: &str, words: &str) {
    let folder = folder();
    Run::start(&folder, &JOB, &[]).wait(&folder);
    let wanted = folder.parameters("job/output/pass-00001");
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    fs::write(points.join(point), count).unwrap();
    let variable = points.display().to_string();
    let args = [&JOB[..], &["--stall-timeout=2"]].concat();
    Run::start(&folder, &args, &[("CANOE_FAIL_POINTS", &variable)]).wait(&folder);
    let told = log(&folder);
    assert!(told.contains(words), "{told}");
    assert_eq!(folder.parameters("job/output/pass-00001"), wanted, "{told}");
}

#[test]
fn a_trainer_that_hangs_in_its_test_is_replaced() {
    is_replaced_at(
        "trainer-0.testing",
        "1",
        "trainer 0 has made no progress with its test",
    );
}

#[test]
fn a_trainer_that_hangs_in_its_save_is_replaced() {
    is_replaced_at(
        "trainer-0.saving",
        "1",
        "trainer 0 has made no progress with its save",
    );
}

#[test]
fn a_trainer_that_hangs_when_it_leaves_is_replaced() {
    is_replaced_at("trainer-1.finishing", "1", "s for trainer 1");
}

#[test]
fn a_server_that_hangs_in_a_snapshot_is_replaced() {
    is_replaced_at(
        "pserver-1.snapshot",
        "2",
        "pserver 1 has made no progress with the snapshot of step",
    );
}

#[test]
fn a_server_that_hangs_in_an_update_while_its_state_changes_is_replaced() {
    let folder = folder();
    Run::start(&folder, &JOB, &[]).wait(&folder);
    let wanted = folder.parameters("job/output/pass-00001");
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    // Nobody lets it continue.
    fs::write(points.join("pserver-1.applying"), "3").unwrap();
    let variable = points.display().to_string();
    let args = [&JOB[..], &["--stall-timeout=2"]].concat();
    Run::start(&folder, &args, &[("CANOE_FAIL_POINTS", &variable)]).wait(&folder);
    let told = log(&folder);
    assert!(
        told.contains("pserver 1 has worked on the update of step"),
        "{told}"
    );
    assert_eq!(folder.parameters("job/output/pass-00001"), wanted, "{told}");
}
