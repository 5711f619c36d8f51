//! The second run in a folder: an interrupted one is resumed exactly, a second owner is refused by name, and nothing that
//! was there is lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::run::{Run, log, signal, wait_until};
use common::{CANOE, Folder, failed, said, succeeded};

const JOB: [&str; 7] = [
    "--nodes=2",
    "--config",
    "trainer_config.emb.py",
    "--passes=4",
    "--keep=all",
    "--snapshot-period=3",
    "--watch=off",
];

fn folder() -> Folder {
    let folder = Folder::with_demo(600);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    folder
}

fn canoe_run(folder: &Folder, args: &[&str]) -> std::process::Output {
    folder.canoe(&[&["run", "job"][..], args].concat())
}

/// Every file of every pass directory.
fn passes(output: &Path) -> Vec<(String, Vec<u8>)> {
    fn visit(folder: &Path, under: &str, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let (path, name) = {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (entry.path(), format!("{under}/{name}"))
            };
            if path.is_dir() {
                visit(&path, &name, found);
            } else {
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    for pass in 0..4 {
        let name = format!("pass-{pass:05}");
        visit(&output.join(&name), &name, &mut found);
    }
    found.sort();
    found
}

#[test]
fn the_same_command_resumes_a_run_of_which_every_process_was_killed() {
    let folder = folder();
    succeeded(&canoe_run(&folder, &JOB));
    let expected = passes(&folder.path("job/output"));
    let mut run = Run::start(&folder, &[&JOB[..], &["--fresh"]].concat(), &[]);
    let (aside, first) = (
        folder.path("job/output-1"),
        folder.path("job/output/pass-00000/done"),
    );
    wait_until(&mut run, &folder, "a pass", || {
        aside.exists() && first.exists()
    });
    // As a power cut does: nobody gets to say anything.
    for (process, _) in run.children() {
        signal(process, libc::SIGKILL);
    }
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    assert!(
        said(&resumed).contains("resuming the run"),
        "{}",
        said(&resumed)
    );
    assert!(
        passes(&folder.path("job/output")) == expected,
        "{}",
        said(&resumed)
    );
    assert!(
        passes(&folder.path("job/output-1")) == expected,
        "what was moved aside is whole"
    );
}

/// Interrupts a run after its first pass with `stop`, and resumes it with the same command.
fn resumes_after(stop: impl Fn(&mut Run)) -> (Folder, String) {
    let folder = folder();
    succeeded(&canoe_run(&folder, &JOB));
    let expected = passes(&folder.path("job/output"));
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let mut run = Run::start(&folder, &JOB, &[]);
    let second = folder.path("job/output/pass-00001/done");
    wait_until(&mut run, &folder, "a pass", || second.exists());
    stop(&mut run);
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(passes(&folder.path("job/output")) == expected, "{text}");
    (folder, text)
}

#[test]
fn the_same_command_resumes_after_an_interrupt() {
    let (_, text) = resumes_after(|run| {
        signal(run.0.id() as i32, libc::SIGINT);
        run.0.wait().unwrap();
    });
    assert!(text.contains("resuming the run"), "{text}");
}

#[test]
fn a_job_whose_configuration_is_not_in_a_folder_of_its_own_resumes() {
    let folder = Folder::empty();
    succeeded(&folder.canoe(&["new", "job"]));
    let job = folder.path("job");
    for file in ["trainer_config.py", "provider.py"] {
        fs::rename(job.join("model").join(file), job.join(file)).unwrap();
    }
    let args = ["--nodes=2", "--passes=100000", "--watch=off"];
    let mut run = Run::start(&folder, &args, &[]);
    let second = folder.path("job/output/pass-00001/done");
    wait_until(&mut run, &folder, "a pass", || second.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    run.0.wait().unwrap();
    fs::write(job.join("notes.txt"), "lr 0.01").unwrap();
    let provider = fs::read_to_string(job.join("provider.py")).unwrap();
    fs::write(job.join("provider.py"), format!("{provider}\n")).unwrap();
    let text = failed(&canoe_run(&folder, &args));
    assert!(text.contains("provider.py has changed"), "{text}");
    fs::write(job.join("provider.py"), provider).unwrap();
    // The notes were there when it was resumed; that makes them no part of the configuration.
    for _ in 0..2 {
        let mut run = Run::start(&folder, &args, &[]);
        let resumes = || log(&folder).contains("resuming the run");
        wait_until(&mut run, &folder, "the resumed run", resumes);
        signal(run.0.id() as i32, libc::SIGINT);
        run.0.wait().unwrap();
        fs::write(job.join("notes.txt"), "lr 0.02").unwrap();
    }
}

#[test]
fn output_that_is_redirected_into_the_job_folder_is_not_its_configuration() {
    let folder = Folder::empty();
    succeeded(&folder.canoe(&["new", "job"]));
    let job = folder.path("job");
    for file in ["trainer_config.py", "provider.py"] {
        fs::rename(job.join("model").join(file), job.join(file)).unwrap();
    }
    let run = |passes: &str| {
        let out = fs::File::create(job.join("train.out")).unwrap();
        let done = Command::new(CANOE)
            .args(["run", "job", "--nodes=2", "--watch=off", passes])
            .current_dir(folder.path("."))
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap();
        let text = fs::read_to_string(job.join("train.out")).unwrap();
        assert!(done.success(), "{text}");
        text
    };
    run("--passes=1");
    fs::write(job.join("notes.md"), "good").unwrap();
    let more = run("--passes=2");
    assert!(more.contains("after its pass"), "{more}");
    fs::write(job.join("words.txt"), "new").unwrap();
    let config = fs::read_to_string(job.join("trainer_config.py")).unwrap();
    fs::write(job.join("trainer_config.py"), config + "\n").unwrap();
    let other = run("--passes=3");
    assert!(
        other.contains("because trainer_config.py has changed"),
        "{other}"
    );
    assert!(folder.path("job/output-1/pass-00001/done").exists());
}

#[test]
fn the_same_command_resumes_after_its_parent_was_killed() {
    let (_, text) = resumes_after(|run| {
        let children = run.children();
        run.0.kill().unwrap();
        run.0.wait().unwrap();
        let alive = |process: i32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        while children.iter().any(|(process, _)| alive(*process)) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    assert!(text.contains("resuming the run"), "{text}");
}

#[test]
fn a_run_that_lost_all_its_snapshots_continues_from_its_newest_pass() {
    let folder = folder();
    let (place, output) = (
        folder.path("job/output"),
        folder.path("job/output/snapshots"),
    );
    succeeded(&canoe_run(&folder, &JOB));
    let expected = passes(&place);
    fs::remove_dir_all(&place).unwrap();
    let mut run = Run::start(&folder, &JOB, &[]);
    let second = place.join("pass-00001/done");
    wait_until(&mut run, &folder, "a pass", || second.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    run.0.wait().unwrap();
    fs::remove_dir_all(&output).unwrap();
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    let log = fs::read_to_string(place.join("node_0/server.log")).unwrap();
    assert!(
        log.contains("from what was saved at the end of pass"),
        "{log}"
    );
    assert!(passes(&place) == expected, "{log}");
}

/// A folder in which a run was killed after its second pass, and what an undisturbed run saves.
fn interrupted() -> (Folder, Vec<(String, Vec<u8>)>) {
    let folder = folder();
    let output = folder.path("job/output");
    succeeded(&canoe_run(&folder, &JOB));
    let expected = passes(&output);
    fs::remove_dir_all(&output).unwrap();
    let mut run = Run::start(&folder, &JOB, &[]);
    let second = output.join("pass-00001/done");
    wait_until(&mut run, &folder, "a pass", || second.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    run.0.wait().unwrap();
    (folder, expected)
}

/// Runs the job again, which must be refused with these words and change nothing.
fn is_refused(folder: &Folder, words: &[&str]) {
    let output = folder.path("job/output");
    let list = |name: &str| {
        let entries = fs::read_dir(output.join(name)).into_iter().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let model = fs::read(output.join("pass-00000/___embedding_0__.w0")).unwrap();
    let before = (list("snapshots"), list("pass-00000"));
    let text = failed(&canoe_run(folder, &JOB));
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!((list("snapshots"), list("pass-00000")), before, "{text}");
    let after = fs::read(output.join("pass-00000/___embedding_0__.w0")).unwrap();
    assert!(model == after, "a saved pass was trained again: {text}");
}

#[test]
fn a_run_whose_note_is_damaged_or_gone_is_named_and_not_begun_again() {
    let (folder, expected) = interrupted();
    let note = folder.path("job/output/run.json");
    let text = fs::read(&note).unwrap();
    for damaged in ["", "garbage"] {
        fs::write(&note, damaged).unwrap();
        is_refused(&folder, &["run.json is damaged", "--fresh"]);
    }
    fs::remove_file(&note).unwrap();
    is_refused(&folder, &["run.json", "is missing", "--fresh"]);
    fs::write(&note, text).unwrap();
    succeeded(&canoe_run(&folder, &JOB));
    assert!(passes(&folder.path("job/output")) == expected);
    fs::write(&note, "garbage").unwrap();
    let fresh = [&JOB[..], &["--fresh"]].concat();
    succeeded(&canoe_run(&folder, &fresh));
    assert!(passes(&folder.path("job/output-1")) == expected);
}

#[test]
fn a_run_without_any_state_to_restore_is_not_begun_again_over_its_models() {
    let (folder, _) = interrupted();
    let output = folder.path("job/output");
    fs::remove_dir_all(output.join("snapshots")).unwrap();
    for pass in ["pass-00000", "pass-00001", "pass-00002"] {
        let _ = fs::remove_dir_all(output.join(pass).join("canoe.servers"));
    }
    is_refused(&folder, &["this run has saved", "--start_pass", "--fresh"]);
    fs::remove_file(output.join("canoe.saved.json")).unwrap();
    is_refused(&folder, &["canoe.saved.json", "is missing", "--fresh"]);
}

#[test]
fn models_of_a_training_without_a_runner_are_moved_aside() {
    let folder = folder();
    let mine = folder.path("job/output/pass-00000");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("my.txt"), "mine").unwrap();
    let told = canoe_run(&folder, &JOB);
    succeeded(&told);
    assert!(said(&told).contains("output-1"), "{}", said(&told));
    let kept = folder.path("job/output-1/pass-00000/my.txt");
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
}

#[test]
fn a_pass_whose_state_is_damaged_is_left_out_for_the_one_before() {
    let (folder, expected) = interrupted();
    let output = folder.path("job/output");
    fs::remove_dir_all(output.join("snapshots")).unwrap();
    let newest = (0..4)
        .rev()
        .map(|pass| output.join(format!("pass-{pass:05}/canoe.servers")))
        .find(|state| state.is_dir())
        .unwrap();
    let step = fs::read_dir(&newest)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let part = fs::read_dir(&step)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "part"))
        .unwrap();
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(text.contains("restored the state of step"), "{text}");
    assert!(passes(&output) == expected, "{text}");
}

#[test]
fn lost_test_results_are_named() {
    let (folder, expected) = interrupted();
    let scores = folder.path("job/output/scores.json");
    let text = fs::read(&scores).unwrap();
    fs::write(&scores, "{").unwrap();
    is_refused(&folder, &["scores.json", "is damaged", "delete it"]);
    fs::write(&scores, text).unwrap();
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    assert!(passes(&folder.path("job/output")) == expected);
}

#[test]
fn damaged_snapshots_are_told_on_the_terminal() {
    let (folder, expected) = interrupted();
    let snapshots = folder.path("job/output/snapshots");
    let mut damaged = 0;
    for step in fs::read_dir(&snapshots).unwrap().flatten() {
        if !step.path().is_dir() {
            continue;
        }
        for file in fs::read_dir(step.path()).unwrap().flatten() {
            if file.path().extension().is_some_and(|end| end == "part") {
                fs::write(file.path(), "garbage").unwrap();
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0);
    let resumed = canoe_run(&folder, &JOB);
    succeeded(&resumed);
    let text = said(&resumed);
    assert!(text.contains("is damaged or of another model"), "{text}");
    assert!(text.contains("restored the state of step"), "{text}");
    assert!(passes(&folder.path("job/output")) == expected, "{text}");
}

#[test]
fn more_passes_continue_after_those_that_are_done() {
    let folder = folder();
    succeeded(&canoe_run(&folder, &JOB));
    let expected = passes(&folder.path("job/output"));
    fs::remove_dir_all(folder.path("job/output")).unwrap();
    let with = |passes: &'static str| {
        let mut job = JOB;
        job[3] = passes;
        job
    };
    succeeded(&canoe_run(&folder, &with("--passes=2")));
    let first = folder.path("job/output/pass-00000/done");
    let before = fs::metadata(&first).unwrap().modified().unwrap();
    let more = canoe_run(&folder, &JOB);
    succeeded(&more);
    let text = said(&more);
    assert!(text.contains("after its 2 passes"), "{text}");
    assert!(passes(&folder.path("job/output")) == expected, "{text}");
    assert_eq!(
        fs::metadata(&first).unwrap().modified().unwrap(),
        before,
        "it is not trained again"
    );
}

#[test]
fn changed_data_are_named_and_nothing_is_lost() {
    let folder = folder();
    let long = ["--passes=100000", "--watch=off"];
    let args = [&JOB[..3], &long].concat();
    let mut run = Run::start(&folder, &args, &[]);
    let first = folder.path("job/output/pass-00000/done");
    wait_until(&mut run, &folder, "a pass", || first.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    run.0.wait().unwrap();
    let shard = folder.path("job/data/1/train.txt");
    let text = fs::read_to_string(&shard).unwrap();
    let shorter = text.lines().skip(1).collect::<Vec<_>>().join("\n");
    fs::write(&shard, shorter).unwrap();
    let told = failed(&canoe_run(&folder, &args));
    assert!(
        told.contains("the data files have changed") && told.contains("--fresh"),
        "{told}"
    );
    assert!(first.exists());
}

#[test]
fn a_second_owner_and_other_settings_are_refused_and_nothing_is_lost() {
    let folder = folder();
    let long = ["--passes=100000", "--watch=off"];
    let args = [&JOB[..3], &long].concat();
    let mut run = Run::start(&folder, &args, &[]);
    let owner = folder.path("job/output/owner.json");
    wait_until(&mut run, &folder, "the claim", || owner.exists());
    let text = failed(&canoe_run(&folder, &args));
    let pid = format!("process {}", run.0.id());
    assert!(
        text.contains("is in use by") && text.contains(&pid),
        "{text}"
    );
    let config = "--config=quick_start/trainer_config.lr.py";
    let text = failed(&folder.canoe_in("job", &["train", config, "--save_dir=output"]));
    assert!(text.contains(&pid), "{text}");
    let first = folder.path("job/output/pass-00000/done");
    wait_until(&mut run, &folder, "a pass", || first.exists());
    signal(run.0.id() as i32, libc::SIGINT);
    assert_eq!(run.0.wait().unwrap().code(), Some(130), "{}", log(&folder));
    let mistyped = [&args[..], &["--fresh", "--", "--num_pases=3"]].concat();
    let text = failed(&canoe_run(&folder, &mistyped));
    assert!(text.contains("--num_passes"), "{text}");
    assert!(first.exists(), "nothing is moved for a wrong command");
    let other = [
        "--nodes=2",
        "--config",
        "trainer_config.lr.py",
        "--watch=off",
    ];
    let text = failed(&canoe_run(&folder, &other));
    assert!(
        text.contains("--config was") && text.contains("--fresh"),
        "{text}"
    );
    assert!(first.exists());
    let fresh = [&other[..], &["--passes=1", "--fresh"]].concat();
    succeeded(&canoe_run(&folder, &fresh));
    assert!(folder.path("job/output-1/pass-00000/done").exists());
}
