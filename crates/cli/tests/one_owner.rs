//! One run owns an output folder, and its data stay as they were: what a run does that was stopped while another took its
//! folder, and what becomes of a split of the data under a run.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::run::{DEADLINE, Run, log, signal, wait_until};
use common::{Folder, failed, said, succeeded};

const JOB: [&str; 6] = [
    "--nodes=2",
    "--config=trainer_config.lr.py",
    "--keep=all",
    "--snapshot-period=3",
    "--passes=6",
    "--watch=off",
];

/// A run whose process is held at a moment.
fn held(folder: &Folder, point: &str, count: &str) -> (Run, PathBuf) {
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    fs::write(points.join(point), count).unwrap();
    let variable = points.display().to_string();
    let mut run = Run::start(folder, &JOB, &[("CANOE_FAIL_POINTS", &variable)]);
    let reached = points.join(format!("{point}.reached"));
    wait_until(&mut run, folder, point, || reached.exists());
    (run, reached)
}

/// The run as a claimant sees it that cannot see its processes, as in another container.
fn hide_owner(folder: &Folder) {
    let path = folder.path("job/output/owner.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut owner: serde_json::Value = serde_json::from_str(&text).unwrap();
    owner["host"] = "another-container".into();
    owner["space"] = "".into();
    fs::write(&path, owner.to_string()).unwrap();
}

/// All files of a folder, with their contents.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink() {
                let to = fs::read_link(entry.path()).unwrap();
                found.push((entry.path(), to.to_string_lossy().into_owned().into_bytes()));
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                found.push((entry.path(), bytes));
            }
        }
    }
    found.sort();
    found
}

/// What a user has of a run.
fn results(output: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_result = |path: &Path| {
        let name = path
            .strip_prefix(output)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        [
            "pass-",
            "aside-",
            "best",
            "scores.json",
            "run.json",
            "canoe.saved.json",
            "snapshots",
            "owner",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    };
    let all = contents(output).into_iter();
    all.filter(|(path, _)| is_result(path)).collect()
}

/// Checks that nothing was written, changed or removed.
fn unchanged(before: &[(PathBuf, Vec<u8>)], output: &Path, told: &str) {
    let after = results(output);
    let lacks = |list: &[(PathBuf, Vec<u8>)], one: &(PathBuf, Vec<u8>)| !list.contains(one);
    let gone = before.iter().filter(|one| lacks(&after, one));
    let new = after.iter().filter(|one| lacks(before, one));
    let names: Vec<&PathBuf> = gone.chain(new).map(|(path, _)| path).collect();
    assert!(names.is_empty(), "{names:?}\n{told}");
}

fn wait_over(run: &mut Run, folder: &Folder) -> Option<i32> {
    let begun = Instant::now();
    while !run.is_over() {
        assert!(begun.elapsed() < DEADLINE, "the run hangs\n{}", log(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
    run.0.wait().unwrap().code()
}

#[test]
fn a_run_that_was_stopped_while_another_one_took_the_folder_and_ended_destroys_nothing() {
    let folder = Folder::with_demo(600);
    let (mut run, reached) = held(&folder, "trainer-0.pushing", "4");
    let all: Vec<i32> = run.children().iter().map(|(id, _)| *id).collect();
    let runner = run.0.id() as i32;
    for process in [runner].iter().chain(&all) {
        signal(*process, libc::SIGSTOP);
    }
    hide_owner(&folder);
    let fresh = [&["run", "job"], &JOB[..], &["--fresh"]].concat();
    succeeded(&folder.canoe(&fresh));
    let output = folder.path("job/output");
    let before = results(&output);
    assert!(!output.join("owner.json").exists());
    fs::remove_file(reached).unwrap();
    for process in all.iter().chain(&[runner]) {
        signal(*process, libc::SIGCONT);
    }
    let code = wait_over(&mut run, &folder);
    let told = log(&folder);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("no longer belongs to this run"), "{told}");
    assert!(told.contains("owner.json is gone"), "{told}");
    unchanged(&before, &output, &told);
}

#[test]
fn trainers_whose_runner_is_stopped_write_nothing_into_a_folder_that_another_run_has_taken() {
    let folder = Folder::with_demo(600);
    let (mut run, reached) = held(&folder, "trainer-0.testing", "2");
    let trainer = run.find("--trainer_id=0").unwrap();
    let runner = run.0.id() as i32;
    signal(runner, libc::SIGSTOP);
    hide_owner(&folder);
    let fresh = [&["run", "job"], &JOB[..], &["--fresh"]].concat();
    succeeded(&folder.canoe(&fresh));
    let output = folder.path("job/output");
    let before = results(&output);
    fs::remove_file(reached).unwrap();
    let stat = || fs::read_to_string(format!("/proc/{trainer}/stat")).unwrap_or_default();
    let begun = Instant::now();
    while !stat().is_empty() && !stat().contains(") Z") {
        assert!(begun.elapsed() < DEADLINE, "the trainer continues");
        std::thread::sleep(Duration::from_millis(20));
    }
    unchanged(&before, &output, &log(&folder));
    let moved = fs::read_to_string(folder.path("job/output-1/node_0/train.log"));
    signal(runner, libc::SIGCONT);
    assert_eq!(wait_over(&mut run, &folder), Some(3), "{}", log(&folder));
    unchanged(&before, &output, &log(&folder));
    let told =
        moved.unwrap() + &fs::read_to_string(folder.path("job/output-1/node_0/train.log")).unwrap();
    assert!(told.contains("no longer belongs to this run"), "{told}");
}

#[test]
fn a_stopped_run_keeps_its_folder_and_is_named() {
    let folder = Folder::with_demo(600);
    let (mut run, _) = held(&folder, "trainer-0.pushing", "4");
    let runner = run.0.id() as i32;
    signal(runner, libc::SIGSTOP);
    let fresh = [&["run", "job"], &JOB[..], &["--fresh"]].concat();
    let told = failed(&folder.canoe(&fresh));
    assert!(told.contains(&format!("kill -CONT {runner}")), "{told}");
    assert!(!folder.path("job/output-1").exists(), "{told}");
    signal(runner, libc::SIGKILL);
    run.0.wait().unwrap();
}

#[test]
fn data_are_not_split_under_a_run() {
    let folder = Folder::with_demo(600);
    let (mut run, reached) = held(&folder, "trainer-0.pushing", "4");
    let split = ["data", "split", "job", "--shards=3"];
    let before = contents(&folder.path("job/data"));
    let told = failed(&folder.canoe(&split));
    assert!(told.contains("is in use by process"), "{told}");
    fs::create_dir(folder.path("other")).unwrap();
    std::os::unix::fs::symlink(folder.path("job/data"), folder.path("other/data")).unwrap();
    let told = failed(&folder.canoe(&["data", "split", "other", "--shards=3"]));
    assert!(told.contains("is in use by process"), "{told}");
    // A second run would split data again that have changed.
    let file = folder.path("job/data/train.txt");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen(' ', "  ", 1)).unwrap();
    let told = failed(&folder.canoe(&[&["run", "job"], &JOB[..]].concat()));
    assert!(told.contains("is in use by process"), "{told}");
    fs::write(&file, text).unwrap();
    assert!(before == contents(&folder.path("job/data")));
    fs::remove_file(reached).unwrap();
    assert_eq!(wait_over(&mut run, &folder), Some(0), "{}", log(&folder));
}

#[test]
fn a_run_does_not_train_on_shards_that_have_replaced_its_own() {
    let folder = Folder::with_demo(600);
    let (mut run, reached) = held(&folder, "trainer-0.testing", "2");
    let shard = folder.path("job/data/0");
    let text = fs::read_to_string(shard.join("train.txt")).unwrap();
    let less: Vec<&str> = text.lines().take(100).collect();
    fs::rename(&shard, folder.path("own")).unwrap();
    fs::create_dir(&shard).unwrap();
    for entry in fs::read_dir(folder.path("own")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), shard.join(entry.file_name())).unwrap();
    }
    fs::write(shard.join("train.txt"), less.join("\n")).unwrap();
    fs::remove_file(reached).unwrap();
    let code = wait_over(&mut run, &folder);
    let told = log(&folder);
    assert_eq!(code, Some(3), "{told}");
    assert!(folder.path("job/output/pass-00000").exists(), "{told}");
    assert!(
        told.contains("data/0/train.txt has changed since the run began"),
        "{told}"
    );
    fs::remove_dir_all(&shard).unwrap();
    fs::rename(folder.path("own"), &shard).unwrap();
    let resumed = folder.canoe(&[&["run", "job"], &JOB[..]].concat());
    succeeded(&resumed);
    assert!(
        said(&resumed).contains("resuming the run"),
        "{}",
        said(&resumed)
    );
    let clean = Folder::with_demo(600);
    succeeded(&clean.canoe(&[&["run", "job"], &JOB[..]].concat()));
    assert_eq!(
        folder.parameters("job/output/pass-00005"),
        clean.parameters("job/output/pass-00005")
    );
}
