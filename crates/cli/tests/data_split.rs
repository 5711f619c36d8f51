//! `canoe data split` as a program: exit codes, and what is left after a kill.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const LINES: usize = 200_000;

fn canoe() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_canoe"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn job() -> tempfile::TempDir {
    let job = tempfile::tempdir().unwrap();
    let data = job.path().join("data");
    fs::create_dir(&data).unwrap();
    let text: String = (0..LINES)
        .map(|i| format!("{}\tsample number {i} has a few more words\n", i % 2))
        .collect();
    fs::write(data.join("train.txt"), text).unwrap();
    fs::write(data.join("train.list"), "data/train.txt\n").unwrap();
    job
}

fn split(job: &Path, extra: &[&str]) -> Command {
    let mut command = canoe();
    command
        .args(["data", "split"])
        .arg(job)
        .args(["--shards", "3"])
        .args(extra);
    command
}

/// All lines of the shards, sorted.
fn lines(job: &Path) -> Vec<String> {
    let text = |id: u32| fs::read_to_string(job.join(format!("data/{id}/train.txt"))).unwrap();
    let mut lines: Vec<String> = (0..3)
        .flat_map(|id| text(id).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn killed_at_any_moment_the_next_run_ends_right() {
    let job = job();
    let mut want: Vec<String> = fs::read_to_string(job.path().join("data/train.txt"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    want.sort_unstable();
    for (attempt, delay) in [0, 2, 5, 10, 20, 40].into_iter().enumerate() {
        // Another seed each time, so that every run has work to do and old shards to replace.
        let seed = attempt.to_string();
        let flags = ["--shuffle", "--seed", &seed];
        let mut child = split(job.path(), &flags).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = split(job.path(), &flags).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(lines(job.path()), want, "killed after {delay} ms");
        assert!(!job.path().join("data/.split-stage").exists());
    }
}

#[test]
fn mistakes_are_told_and_the_status_says_so() {
    let job = job();
    let run = |arguments: &[&str]| {
        let output = canoe().args(["data"]).args(arguments).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let missing = job.path().join("missing");
    let (code, text) = run(&["split", missing.to_str().unwrap(), "--shards", "3"]);
    assert!(code == 1 && text.contains("missing"), "{code} {text}");
    let (code, text) = run(&["split", job.path().to_str().unwrap()]);
    assert!(code == 2 && text.contains("--shards"), "{code} {text}");
    let (code, text) = run(&["fetch", missing.to_str().unwrap(), "--sha256", "12"]);
    assert!(
        code == 2 && text.contains("64 hexadecimal digits"),
        "{code} {text}"
    );
}

#[test]
fn a_split_is_shown_and_damage_is_noticed() {
    let job = job();
    assert!(split(job.path(), &[]).output().unwrap().status.success());
    let show = || {
        canoe()
            .args(["data", "show"])
            .arg(job.path())
            .output()
            .unwrap()
    };
    let output = show();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("2/train.txt")
    );
    fs::write(job.path().join("data/2/train.txt"), "0\tlost\n").unwrap();
    let output = show();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("2/train.txt")
    );
}
