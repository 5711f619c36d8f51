//! What a second run in a folder does with what it finds there: models that it starts from, files of the user, files of
//! another run, data that have changed.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::run::{Run, signal, wait_until};
use common::{Folder, failed, parameters, said, succeeded};

const JOB: [&str; 5] = [
    "--nodes=2",
    "--config=trainer_config.lr.py",
    "--keep=all",
    "--snapshot-period=3",
    "--watch=off",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&JOB[..], more].concat()
}

fn canoe_run(folder: &Folder, more: &[&str]) -> Output {
    folder.canoe(&[&["run", "job"][..], &with(more)].concat())
}

/// A folder in which a run of eight passes was interrupted after its second one.
fn interrupted() -> Folder {
    let folder = Folder::with_demo(600);
    interrupt(&folder, &["--passes=8"], "pass-00001");
    folder
}

/// Interrupts a run when it has saved a pass.
fn interrupt(folder: &Folder, more: &[&str], pass: &str) {
    let mut run = Run::start(folder, &with(more), &[]);
    let saved = folder.path("job/output").join(pass).join("done");
    wait_until(&mut run, folder, pass, || saved.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    run.0.wait().unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_that_starts_from_an_earlier_model_moves_it_aside_and_finds_it_there() {
    let folder = Folder::with_demo(600);
    succeeded(&canoe_run(&folder, &["--passes=3"]));
    let first = parameters(&folder.path("job/output/pass-00000"));
    let from = ["--passes=1", "--init-model-path=job/output/best"];
    let second = canoe_run(&folder, &from);
    succeeded(&second);
    let text = said(&second);
    assert!(text.contains("output-1"), "{text}");
    assert_eq!(parameters(&folder.path("job/output-1/pass-00000")), first);
    assert!(folder.path("job/output-1/pass-00002/done").exists());
    assert!(!folder.path("job/output/pass-00001").exists(), "{text}");
    let log = fs::read_to_string(folder.path("job/output/node_0/train.log")).unwrap();
    assert!(
        log.contains("Loading parameters from") && log.contains("output-1/best"),
        "{log}"
    );
}

#[test]
fn a_run_that_starts_from_an_earlier_model_is_resumed_from_its_own_state() {
    let folder = Folder::with_demo(600);
    succeeded(&canoe_run(&folder, &["--passes=1"]));
    let from = ["--passes=8", "--init-model-path=job/output/best"];
    interrupt(&folder, &from, "pass-00001");
    let resumed = canoe_run(&folder, &from);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(text.contains("resuming the run"), "{text}");
    assert!(!text.contains("start afresh"), "{text}");
    assert!(folder.path("job/output/pass-00007/done").exists());
    assert!(!folder.path("job/output-2").exists());
    let gone = ["--passes=1", "--init-model-path=job/output/pass-00077"];
    let told = failed(&canoe_run(&folder, &gone));
    assert!(told.contains("pass-00077 does not exist"), "{told}");
    assert!(
        folder.path("job/output/pass-00007/done").exists(),
        "nothing was moved"
    );
}

#[test]
fn a_model_that_the_run_itself_has_moved_aside_is_found_by_the_same_command() {
    let folder = Folder::with_demo(600);
    succeeded(&canoe_run(&folder, &["--passes=9"]));
    let model = parameters(&folder.path("job/output/pass-00008"));
    let from = ["--passes=8", "--init-model-path=job/output/pass-00008"];
    let interrupt = |more: &[&str], moved: &str| {
        let mut run = Run::start(&folder, &with(more), &[]);
        let (moved, saved) = (
            folder.path(moved),
            folder.path("job/output/pass-00000/done"),
        );
        wait_until(&mut run, &folder, "a pass", || {
            moved.exists() && saved.exists()
        });
        signal(run.0.id() as i32, libc::SIGINT);
        run.0.wait().unwrap();
    };
    interrupt(&from, "job/output-1");
    let moved = ["--passes=8", "--init-model-path=job/output-1/pass-00008"];
    let resumed = canoe_run(&folder, &moved);
    succeeded(&resumed);
    assert!(
        said(&resumed).contains("resuming the run"),
        "{}",
        said(&resumed)
    );
    let trained = parameters(&folder.path("job/output/pass-00007"));
    let fresh = canoe_run(&folder, &[&from[..], &["--fresh"]].concat());
    succeeded(&fresh);
    assert_eq!(parameters(&folder.path("job/output/pass-00007")), trained);
    let note = fs::read_to_string(folder.path("job/output/run.json")).unwrap();
    assert!(note.contains("output-1\""), "{note}");
    assert_eq!(parameters(&folder.path("job/output-1/pass-00008")), model);
    interrupt(&[&from[..], &["--fresh"]].concat(), "job/output-3");
    let resumed = canoe_run(&folder, &from);
    succeeded(&resumed);
    assert!(
        said(&resumed).contains("resuming the run"),
        "{}",
        said(&resumed)
    );
    assert_eq!(parameters(&folder.path("job/output/pass-00007")), trained);
}

#[test]
fn more_passes_repeat_those_whose_model_is_missing() {
    let folder = Folder::with_demo(600);
    let output = folder.path("job/output");
    succeeded(&canoe_run(&folder, &["--passes=3"]));
    let last = parameters(&output.join("pass-00002"));
    let first = fs::metadata(output.join("pass-00000/done")).unwrap();
    fs::remove_dir_all(output.join("pass-00002")).unwrap();
    let more = canoe_run(&folder, &["--passes=4"]);
    succeeded(&more);
    let text = said(&more);
    assert!(
        text.contains("after pass 1: the model of its last pass, 2, is missing"),
        "{text}"
    );
    assert!(!folder.path("job/output-1").exists(), "{text}");
    assert_eq!(parameters(&output.join("pass-00002")), last);
    assert!(output.join("pass-00003/done").exists());
    let same = fs::metadata(output.join("pass-00000/done")).unwrap();
    assert_eq!(first.modified().unwrap(), same.modified().unwrap());
}

#[test]
fn the_newest_pass_is_missed_as_the_older_ones_are() {
    let folder = Folder::with_demo(600);
    let output = folder.path("job/output");
    let points = folder.path("points");
    fs::create_dir(&points).unwrap();
    fs::write(points.join("trainer-0.saving"), "3").unwrap();
    let variable = points.display().to_string();
    let variables = [("CANOE_FAIL_POINTS", variable.as_str())];
    let mut run = Run::start(&folder, &with(&["--passes=8"]), &variables);
    let reached = points.join("trainer-0.saving.reached");
    wait_until(&mut run, &folder, "the third save", || reached.exists());
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    fs::remove_dir_all(output.join("pass-00001")).unwrap();
    let resumed = canoe_run(&folder, &["--passes=8"]);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(
        text.contains("pass-00001, which this run saved, is missing"),
        "{text}"
    );
}

#[test]
fn what_is_to_be_checked_is_found_and_no_other() {
    let folder = interrupted();
    let snapshots = folder.path("job/output/snapshots");
    let step = names(&snapshots)
        .into_iter()
        .rfind(|name| name.starts_with("step-"));
    let step = format!("job/output/snapshots/{}", step.unwrap());
    for place in ["job", "job/output", "job/output/snapshots", &step] {
        let checked = folder.canoe(&["snapshot", "verify", place]);
        let text = said(&checked);
        assert!(text.contains("servers are whole"), "{text}");
        assert!(!text.contains("not part of a snapshot"), "{text}");
    }
    let verify = |pass: &str| folder.canoe(&["model", "verify", pass]);
    let pass = |number: u32| format!("job/output/pass-{number:05}");
    succeeded(&verify(&pass(0)));
    let state = |number: u32| folder.path(&pass(number)).join("canoe.servers");
    fs::rename(state(0), folder.path("first")).unwrap();
    let told = failed(&verify(&pass(0)));
    assert!(told.contains("canoe.servers/step-"), "taken away: {told}");
    fs::rename(state(1), state(0)).unwrap();
    let told = failed(&verify(&pass(0)));
    assert!(
        told.contains("it was not saved with the directory"),
        "another one: {told}"
    );
    let best = fs::canonicalize(folder.path("job/output/best")).unwrap();
    fs::rename(best, folder.path("moved")).unwrap();
    let told = failed(&verify("job"));
    assert!(told.contains("names the best model"), "{told}");
}

#[test]
fn lost_snapshots_passes_and_links_are_named() {
    let folder = interrupted();
    let output = folder.path("job/output");
    fs::remove_dir_all(output.join("snapshots")).unwrap();
    fs::remove_dir_all(output.join("pass-00000")).unwrap();
    fs::remove_file(output.join("best")).unwrap();
    fs::write(output.join("best"), "mine").unwrap();
    let resumed = canoe_run(&folder, &["--passes=8"]);
    succeeded(&resumed);
    let text = said(&resumed);
    for words in [
        "pass-00000, which this run saved, is missing",
        "no newer snapshot is on all servers",
        "output/best is not a link",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fs::read_to_string(output.join("best")).unwrap(), "mine");
}

#[test]
fn a_run_all_of_whose_results_are_gone_is_not_begun_again() {
    let folder = interrupted();
    let output = folder.path("job/output");
    for name in names(&output) {
        if name.starts_with("pass-") || name == "snapshots" {
            fs::remove_dir_all(output.join(name)).unwrap();
        }
    }
    let told = failed(&canoe_run(&folder, &["--passes=8"]));
    assert!(told.contains("this run has saved"), "{told}");
    assert!(told.contains("is missing"), "{told}");
    assert!(told.contains("the same command resumes"), "{told}");
    assert!(!output.join("pass-00000").exists());
}

#[test]
fn a_damaged_note_of_the_saved_passes_is_named_and_nothing_is_trained_again() {
    let folder = interrupted();
    let output = folder.path("job/output");
    fs::remove_dir_all(output.join("snapshots")).unwrap();
    let note = output.join("canoe.saved.json");
    let text = fs::read_to_string(&note).unwrap();
    let before = parameters(&output.join("pass-00000"));
    let other = text.replacen("\"run\":\"", "\"run\":\"x", 1);
    for (wrong, words) in [(&text[..9], "is damaged"), (&other, "is of another run")] {
        fs::write(&note, wrong).unwrap();
        let told = failed(&canoe_run(&folder, &["--passes=8"]));
        assert!(
            told.contains("canoe.saved.json") && told.contains(words),
            "{told}"
        );
    }
    assert_eq!(parameters(&output.join("pass-00000")), before);
    fs::write(&note, text).unwrap();
    let resumed = canoe_run(&folder, &["--passes=8"]);
    succeeded(&resumed);
    assert!(output.join("pass-00007/done").exists());
}

#[test]
fn what_a_run_finds_under_the_name_of_a_pass_is_kept() {
    let folder = interrupted();
    let output = folder.path("job/output");
    fs::create_dir(output.join("pass-00007")).unwrap();
    fs::write(output.join("pass-00007/mine.txt"), "mine").unwrap();
    let resumed = canoe_run(&folder, &["--passes=8"]);
    succeeded(&resumed);
    let text = said(&resumed);
    let kept = fs::read_to_string(output.join("aside-pass-00007/mine.txt"));
    assert_eq!(kept.unwrap(), "mine");
    assert!(text.contains("aside-pass-00007"), "{text}");
    assert!(output.join("pass-00007/done").exists());
    let aside = names(&output)
        .into_iter()
        .filter(|name| name.starts_with("aside-"));
    assert_eq!(aside.count(), 1, "{text}");
}

#[test]
fn data_that_have_changed_since_a_run_split_them_are_noticed() {
    let folder = interrupted();
    let data = folder.path("job/data/train.txt");
    let text = fs::read_to_string(&data).unwrap();
    let shorter: Vec<&str> = text.lines().skip(9).collect();
    fs::write(&data, shorter.join("\n")).unwrap();
    let told = failed(&canoe_run(&folder, &["--passes=8"]));
    assert!(told.contains("the data files have changed"), "{told}");
    fs::write(&data, text).unwrap();
    succeeded(&canoe_run(&folder, &["--passes=8"]));
    let shard = folder.path("job/data/0/train.txt");
    let text = fs::read_to_string(&shard).unwrap();
    fs::write(&shard, text.replacen(' ', "  ", 1)).unwrap();
    let more = canoe_run(&folder, &["--passes=9"]);
    succeeded(&more);
    assert!(
        said(&more).contains("because the data files have changed"),
        "{}",
        said(&more)
    );
}

#[test]
fn the_last_pass_is_saved_whatever_the_saving_period_and_more_passes_continue_after_it() {
    let folder = Folder::with_demo(600);
    let output = folder.path("job/output");
    let run = |passes| canoe_run(&folder, &[passes, "--", "--saving_period=2"]);
    let passes = || {
        let names = names(&output).into_iter();
        names
            .filter(|name| name.starts_with("pass-"))
            .collect::<Vec<_>>()
    };
    succeeded(&run("--passes=2"));
    assert_eq!(passes(), ["pass-00000", "pass-00001"]);
    let more = run("--passes=4");
    succeeded(&more);
    assert!(!said(&more).contains("snapshot"), "{}", said(&more));
    assert!(
        said(&more).contains("after its 2 passes"),
        "{}",
        said(&more)
    );
    let all = ["pass-00000", "pass-00001", "pass-00002", "pass-00003"];
    assert_eq!(passes(), all);
}

#[test]
fn servers_files_of_another_run_are_named_and_not_used() {
    let folder = interrupted();
    let output = folder.path("job/output");
    let passes = |of: &Path| {
        (0..8)
            .map(|pass| parameters(&of.join(format!("pass-{pass:05}"))))
            .collect::<Vec<_>>()
    };
    let other = Folder::with_demo(600);
    succeeded(&canoe_run(&other, &["--passes=8", "--", "--seed=5"]));
    let newest = names(&output)
        .into_iter()
        .rfind(|name| name.starts_with("pass-"))
        .unwrap();
    let state = output.join(&newest).join("canoe.servers");
    fs::rename(&state, folder.path("own")).unwrap();
    fs::rename(
        other.path("job/output").join(&newest).join("canoe.servers"),
        &state,
    )
    .unwrap();
    fs::remove_dir_all(output.join("snapshots")).unwrap();
    let resumed = canoe_run(&folder, &["--passes=8"]);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(
        text.contains(&format!("{newest} is damaged: canoe.servers")),
        "{text}"
    );
    let clean = Folder::with_demo(600);
    succeeded(&canoe_run(&clean, &["--passes=8"]));
    assert!(
        passes(&output) == passes(&clean.path("job/output")),
        "{text}"
    );
}

#[test]
fn a_run_that_continues_after_a_pass_is_resumed_by_the_same_command() {
    let folder = Folder::with_demo(600);
    succeeded(&canoe_run(&folder, &["--passes=2"]));
    let more = ["--start-pass=1", "--passes=8"];
    interrupt(&folder, &more, "pass-00002");
    let aside = folder.path("job/output/aside-pass-00001/done");
    assert!(aside.exists(), "that of the first run is kept");
    let first = folder.path("job/output/pass-00001/done");
    let before = fs::metadata(&first).unwrap().modified().unwrap();
    let resumed = canoe_run(&folder, &more);
    succeeded(&resumed);
    assert!(
        said(&resumed).contains("resuming the run"),
        "{}",
        said(&resumed)
    );
    assert!(folder.path("job/output/pass-00008/done").exists());
    assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), before);
    let told = failed(&canoe_run(&folder, &["--start-pass=1", "--fresh"]));
    assert!(told.contains("leave one of them out"), "{told}");
}
