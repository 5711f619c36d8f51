//! Trainers that update locally and meet every few batches (`num_batches_per_send_parameter`): however often such a job
//! is interrupted, its pass directories are the same in every byte. What a trainer alone knows is on the servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::run::{Run, signal, wait_until};
use common::{Folder, images, said, succeeded};

const METHODS: [&str; 2] = ["average", "elastic_average"];

/// With Adam, whose moments and steps make a difference at once. A trainer has 7 batches in a pass, so it meets the
/// others after 3, 6 and 7; saves after every third batch meet these moments.
fn job(method: &str) -> Folder {
    let folder = images::job();
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let name = images::CONFIG.strip_prefix("quick_start/").unwrap();
    let adam = ("MomentumOptimizer(0.9)", "AdamOptimizer()");
    let image = "image = data_layer(";
    let terms = format!(
        "from paddle.trainer.config_parser import Settings\nSettings(num_batches_per_send_parameter=3, center_parameter_update_method='{method}')\n{image}"
    );
    folder.vary(name, "meet.py", &[adam, (image, &terms)]);
    folder
}

fn arguments(passes: &'static str) -> Vec<&'static str> {
    let meet = ["--nodes=2", "--config=quick_start/meet.py"];
    let often = ["--snapshot-period=2", "--keep=all", "--watch=off", passes];
    [&meet[..], &often].concat()
}

fn run(folder: &Folder, passes: &'static str) -> String {
    let trainer = ["--", "--saving_period_by_batches=3"];
    let output = folder.canoe(&[&["run", "job"][..], &arguments(passes), &trainer].concat());
    succeeded(&output);
    said(&output)
}

/// Starts the job, and returns when this fail point is reached for the `count`th time.
fn reach(folder: &Folder, point: &str, count: &str, more: &[&'static str]) -> Run {
    let points = folder.path("points");
    // An earlier run may have left its own.
    let _ = fs::remove_dir_all(&points);
    fs::create_dir(&points).unwrap();
    fs::write(points.join(point), count).unwrap();
    let reached = points.join(format!("{point}.reached"));
    let mut args = arguments("--passes=3");
    args.extend(more);
    args.extend(["--", "--saving_period_by_batches=3"]);
    let variable = points.display().to_string();
    let mut run = Run::start(folder, &args, &[("CANOE_FAIL_POINTS", &variable)]);
    wait_until(&mut run, folder, point, || reached.exists());
    run
}

/// Every file of every pass directory.
fn models(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    fn add(root: &Path, inside: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(inside).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    let output = folder.path("job/output");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&output).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with("pass-") {
            add(&output, &path, &mut found);
        }
    }
    let parts = found.keys().filter(|name| name.ends_with(".part"));
    assert!(parts.count() > 0, "servers saved their state");
    found
}

#[track_caller]
fn same(folder: &Folder, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    let got = models(folder);
    let names = |of: &BTreeMap<String, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&got), names(expected), "{what}");
    let differs = |name: &&String| got[*name] != expected[*name];
    let differing: Vec<_> = got.keys().filter(differs).collect();
    assert!(differing.is_empty(), "{what}: {differing:?}");
}

/// Six tables learn: 18 pushes in a pass.
const MOMENTS: [(&str, &str); 3] = [
    ("trainer-0.pushing", "26"),
    ("trainer-0.pushing", "37"),
    ("trainer-0.saving", "5"),
];

#[test]
fn an_interrupted_run_resumes_with_the_same_bytes() {
    for method in METHODS {
        let folder = job(method);
        run(&folder, "--passes=3");
        let expected = models(&folder);
        for (point, count) in MOMENTS {
            fs::remove_dir_all(folder.path("job/output")).unwrap();
            let mut first = reach(&folder, point, count, &[]);
            signal(first.0.id() as i32, libc::SIGKILL);
            first.0.wait().unwrap();
            let text = run(&folder, "--passes=3");
            assert!(text.contains("resuming the run"), "{text}");
            same(&folder, &expected, &format!("{method}, {point} {count}"));
        }
    }
}

#[test]
fn a_trainer_that_is_replaced_changes_no_byte() {
    for method in METHODS {
        let folder = job(method);
        run(&folder, "--passes=3");
        let expected = models(&folder);
        for trainer in [0, 1] {
            fs::remove_dir_all(folder.path("job/output")).unwrap();
            let point = format!("trainer-{trainer}.pushing");
            let run = reach(&folder, &point, "26", &["--keep-going"]);
            let process = run.find(&format!("--trainer_id={trainer}")).unwrap();
            signal(process, libc::SIGKILL);
            run.wait(&folder);
            same(&folder, &expected, &format!("{method}, trainer {trainer}"));
        }
    }
}

#[test]
fn more_passes_continue_exactly_after_finished_ones() {
    for method in METHODS {
        let folder = job(method);
        run(&folder, "--passes=3");
        let expected = models(&folder);
        fs::remove_dir_all(folder.path("job/output")).unwrap();
        run(&folder, "--passes=1");
        run(&folder, "--passes=3");
        same(&folder, &expected, method);
    }
}

#[test]
fn models_without_the_state_of_servers_are_continued_from_their_values_which_is_told() {
    let folder = job("average");
    run(&folder, "--passes=1");
    let pass = folder.path("job/output/pass-00000");
    let state = pass.join("canoe.servers");
    fs::remove_dir_all(&state).unwrap();
    // As it was when trainers kept their state to themselves.
    fs::create_dir(&state).unwrap();
    let sums = fs::read_to_string(pass.join("canoe.sums")).unwrap();
    let old = sums.lines().filter(|line| !line.contains("canoe.servers"));
    let old: String = old.map(|line| format!("{line}\n")).collect();
    fs::write(pass.join("canoe.sums"), old).unwrap();
    let text = run(&folder, "--passes=2");
    assert!(
        text.contains("optimizer state and schedules start afresh"),
        "{text}"
    );
    assert!(folder.path("job/output/pass-00001/done").exists());
}
