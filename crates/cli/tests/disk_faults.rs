//! Every write, fsync, rename and creation of a file in pass directories and snapshots fails once, or is where the process
//! is killed (`e2e/disk/faults.c`): afterwards the old or the new is there, whole; a failure names the file; and what
//! comes next works as if nothing had happened.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::cases::check_all;
use common::{CANOE, Folder, preload_layer, said, succeeded};

const CONFIG: &str = "trainer_config.lr-native.py";

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The files below a folder, by their path in it.
fn files(root: &Path) -> Files {
    fn visit(root: &Path, path: &Path, files: &mut Files) {
        if path.is_file() {
            let name = path.strip_prefix(root).unwrap().to_owned();
            files.insert(name, fs::read(path).unwrap());
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten() {
            visit(root, &entry.unwrap().path(), files);
        }
    }
    let mut files = Files::new();
    visit(root, root, &mut files);
    files
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// A job, and a disk that can fail.
struct Disk {
    folder: Folder,
    layer: PathBuf,
}

/// Which call fails, and how.
#[derive(Clone, Copy)]
struct Fault {
    word: &'static str,
    at: usize,
    how: &'static str,
    more: usize,
}

impl Disk {
    fn new() -> Disk {
        let folder = Folder::with_demo(200);
        let by_row = "act=SoftmaxActivation(), param_attr=ParamAttr(sparse_update=True))";
        let changes = [
            ("batch_size=128", "batch_size=32"),
            ("act=SoftmaxActivation())", by_row),
        ];
        folder.vary(CONFIG, CONFIG, &changes);
        let layer = preload_layer(&folder, "disk/faults.c");
        Disk { folder, layer }
    }

    /// Runs canoe in a folder of its own, with a fault. Returns its output and the calls that were counted.
    fn canoe(&self, place: &Path, args: &[&str], fault: Fault) -> (Output, Vec<String>) {
        let count = place.join("calls");
        let _ = fs::remove_file(&count);
        let output = Command::new(CANOE)
            .args(args)
            .current_dir(place)
            .env("LD_PRELOAD", &self.layer)
            .env("FAULT_PATH", fault.word)
            .env("FAULT_COUNT", &count)
            .env("FAULT_AT", fault.at.to_string())
            .env("FAULT_HOW", fault.how)
            .env("FAULT_MORE", fault.more.to_string())
            .output()
            .unwrap();
        let calls = fs::read_to_string(&count).unwrap_or_default();
        (output, calls.lines().map(str::to_owned).collect())
    }

    /// Does `check` for every case, a few at a time, each in a copy of the folder `from`. A case is the number of a call
    /// and how it fails.
    fn every(
        &self,
        from: &Path,
        cases: Vec<(usize, &'static str)>,
        check: impl Fn(&Path, usize, &'static str) -> Result<(), String> + Sync,
    ) {
        let name = |(at, how): &(usize, &str)| format!("call {at}, {how}");
        check_all(&cases, name, |(at, how)| {
            let place = self.folder.path(&format!("case-{at}-{how}"));
            copy(from, &place);
            let checked = check(&place, *at, how);
            let _ = fs::remove_dir_all(&place);
            checked
        });
    }
}

/// So many calls fail after the first one that does.
const MORE: usize = 3;

/// The ways in which a call fails.
const HOW: [&str; 3] = ["ENOSPC", "EIO", "crash"];

/// The calls by kind: what is done to which kind of file, with the numbers of these calls, from 1.
fn kinds(calls: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut kinds = BTreeMap::<String, Vec<usize>>::new();
    for (at, call) in calls.iter().enumerate() {
        let start = call.find("/job").map_or(0, |at| at + 4);
        let (what, _) = call.split_once(' ').unwrap();
        let file = call[start..].replace(|c: char| c.is_ascii_digit(), "");
        let kind = format!("{what} {file}");
        kinds.entry(kind).or_default().push(at + 1);
    }
    kinds
}

const NONE: Fault = Fault {
    word: "pass-0",
    at: 0,
    how: "",
    more: 0,
};

#[test]
fn a_pass_directory_is_the_old_one_or_the_new_one_whatever_the_disk_does() {
    let disk = Disk::new();
    let config = format!("--config=quick_start/{CONFIG}");
    let train = |place: &Path, seed: &str, fault| {
        let seed = format!("--seed={seed}");
        let args = [
            "train",
            &config,
            &seed,
            "--save_dir=models",
            "--num_passes=1",
        ];
        disk.canoe(place, &args, fault)
    };
    let model = |place: &Path| files(&place.join("models/pass-00000"));
    let old_place = disk.folder.path("old");
    copy(&disk.folder.path("job"), &old_place);
    succeeded(&train(&old_place, "5", NONE).0);
    let old = model(&old_place);
    let new_place = disk.folder.path("new");
    copy(&old_place, &new_place);
    // Replaces a pass directory: every call of a save happens.
    let (output, calls) = train(&new_place, "7", NONE);
    succeeded(&output);
    let new = model(&new_place);
    assert!(old != new && calls.len() > 15, "{calls:#?}");
    let cases = (1..=calls.len()).flat_map(|at| HOW.map(|how| (at, how)));
    disk.every(&old_place, cases.collect(), |place, at, how| {
        let fault = Fault { at, how, ..NONE };
        let (output, calls) = train(place, "7", fault);
        let call = calls.get(at - 1).cloned().unwrap_or_default();
        let hidden = files(&place.join("models/.pass-00000.old"));
        let now = model(place);
        let text = said(&output);
        if now != old && now != new && (!now.is_empty() || hidden != old) {
            return Err(format!(
                "{call}: neither the old nor the new is there\n{text}"
            ));
        }
        if output.status.success() && now != new {
            return Err(format!("{call}: it ends well without the new one\n{text}"));
        }
        let named = text.contains("pass-00000") && text.to_lowercase().contains("error");
        if how != "crash" && !output.status.success() && !named {
            return Err(format!("{call}: the file is not named\n{text}"));
        }
        let (again, _) = train(place, "7", NONE);
        if !again.status.success() || model(place) != new {
            return Err(format!("{call}: the next run fails\n{}", said(&again)));
        }
        let left: Vec<_> = fs::read_dir(place.join("models"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(".pass"))
            .collect();
        if !left.is_empty() {
            return Err(format!("{call}: {left:?} is left over"));
        }
        Ok(())
    });
}

/// A job with a server, whose disk fails.
struct Job {
    disk: Disk,
    place: PathBuf,
    /// The pass directories of an undisturbed run.
    wanted: Files,
    /// Its calls on files of interest.
    calls: Vec<String>,
    word: &'static str,
}

impl Job {
    /// `word` is in the paths of the files of interest.
    fn new(word: &'static str) -> Job {
        let disk = Disk::new();
        succeeded(&disk.folder.canoe(&["data", "split", "job", "--shards=1"]));
        let mut job = Job {
            place: disk.folder.path("job"),
            disk,
            wanted: Files::new(),
            calls: Vec::new(),
            word,
        };
        let first = job.disk.folder.path("undisturbed");
        fs::create_dir(&first).unwrap();
        copy(&job.place, &first.join("job"));
        let (output, calls) = job.run(&first, Fault { word, ..NONE });
        succeeded(&output);
        (job.calls, job.wanted) = (calls, job.saved(&first));
        assert!(!job.wanted.is_empty());
        job
    }

    fn run(&self, place: &Path, fault: Fault) -> (Output, Vec<String>) {
        self.run_with(place, fault, &["--keep-going"])
    }

    /// Without restarts.
    fn run_once(&self, place: &Path, fault: Fault) -> (Output, Vec<String>) {
        self.run_with(place, fault, &[])
    }

    fn run_with(&self, place: &Path, fault: Fault, last: &[&str]) -> (Output, Vec<String>) {
        let job = ["run", "job", "--nodes=1", "--config", CONFIG, "--passes=4"];
        let more = ["--watch=off", "--snapshot-period=5", "--peer-timeout=1"];
        let args = [&job[..], &more, last].concat();
        self.disk.canoe(place, &args, fault)
    }

    fn saved(&self, place: &Path) -> Files {
        let all = files(&place.join("job/output"));
        let is_pass = |path: &Path| path.display().to_string().starts_with("pass-0000");
        all.into_iter().filter(|(path, _)| is_pass(path)).collect()
    }

    /// Every kind of call fails: at its first time in every way, and in the middle of the run, when models are written
    /// that are kept to the end, in those of `later`. The job ends well, with the bytes of an undisturbed run, and its
    /// newest snapshot is whole.
    fn survives(&self, later: &[&'static str]) {
        let mut cases = Vec::new();
        for at in kinds(&self.calls).values() {
            let (first, middle) = (at[0], at[at.len() / 2]);
            cases.extend(HOW.map(|how| (first, how)));
            if middle > first {
                cases.extend(later.iter().map(|how| (middle, *how)));
            }
        }
        let from = self.disk.folder.path("case");
        fs::create_dir(&from).unwrap();
        copy(&self.place, &from.join("job"));
        self.disk.every(&from, cases, |place, at, how| {
            let fault = Fault {
                word: self.word,
                at,
                how,
                more: MORE,
            };
            let (output, calls) = self.run(place, fault);
            let call = calls.get(at - 1).cloned().unwrap_or_default();
            let text = said(&output);
            if !output.status.success() {
                return Err(format!("{call}: the job fails\n{text}"));
            }
            let saved = self.saved(place);
            if saved != self.wanted {
                let differs = |path: &&PathBuf| saved.get(*path) != self.wanted.get(*path);
                let all = saved.keys().chain(self.wanted.keys());
                let files: Vec<_> = all.filter(differs).collect();
                return Err(format!("{call}: other bytes in {files:?}\n{text}"));
            }
            let verified = Command::new(CANOE)
                .args(["snapshot", "verify"])
                .arg(place.join("job/output/snapshots"))
                .output()
                .unwrap();
            // What a crash left of an unfinished snapshot is cleaned away later. The calls that fail may be the last of
            // one snapshot and the first of the next; the newest is never three periods old at the end, after 28 steps.
            let verdict = said(&verified);
            let whole =
                |step: u32| verdict.contains(&format!("step-{step:012}: 1 of 1 servers are whole"));
            if ![15, 20, 25].into_iter().any(whole) || verdict.contains("cannot be used") {
                return Err(format!("{call}: {verdict}"));
            }
            Ok(())
        });
    }
}

#[test]
fn a_snapshot_is_whole_or_not_used_whatever_the_disk_does() {
    let job = Job::new("output/snapshots");
    let kinds = kinds(&job.calls);
    for call in ["mkdir", "create", "write", "fsync", "rename", "link"] {
        assert!(
            kinds.keys().any(|kind| kind.starts_with(call)),
            "{kinds:#?}"
        );
    }
    assert!(kinds.len() >= 11, "{kinds:#?}");
    // A disk that is full for a while may leave out all snapshots that are still to come.
    job.survives(&["crash"]);
}

#[test]
fn what_servers_save_into_a_pass_directory_is_whole_whatever_the_disk_does() {
    let job = Job::new("canoe.servers");
    let kinds = kinds(&job.calls);
    assert!(kinds.len() >= 11, "{kinds:#?}");
    job.survives(&HOW);
}

/// A disk that stays full ends the job: the file is named, no pass is there without its state, and when there is room the
/// same command continues.
#[test]
fn a_job_whose_servers_have_no_room_to_save_names_the_file_and_continues_later() {
    let job = Job::new("canoe.servers");
    let place = job.disk.folder.path("full");
    fs::create_dir(&place).unwrap();
    copy(&job.place, &place.join("job"));
    let creates = |call: &&String| call.starts_with("create ") && call.contains("port-00");
    let creations = job.calls.iter().filter(creates).count();
    let of_third = job.calls.iter().filter(creates).nth(creations / 2);
    let at = job.calls.iter().position(|call| Some(call) == of_third);
    let full = Fault {
        word: "canoe.servers",
        at: at.unwrap() + 1,
        how: "ENOSPC",
        more: 1_000_000,
    };
    let (output, _) = job.run_once(&place, full);
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("the save is repeated in 1 s"), "{text}");
    let named = text.lines().any(|line| {
        line.contains("canoe.servers/step-") && line.contains("No space left on device")
    });
    assert!(named, "{text}");
    for (path, _) in job.saved(&place) {
        let pass = path.components().next().unwrap();
        let state = place.join("job/output").join(pass).join("canoe.servers");
        assert!(state.is_dir(), "{}", path.display());
    }
    let (output, _) = job.run_once(
        &place,
        Fault {
            word: "canoe.servers",
            ..NONE
        },
    );
    succeeded(&output);
    assert!(job.saved(&place) == job.wanted, "{}", said(&output));
}

/// Servers that may not write where trainers save are no reason to end the job: the model is whole without their state.
#[test]
fn servers_that_may_not_write_into_a_pass_directory_leave_their_state_out() {
    let job = Job::new("canoe.servers/");
    let place = job.disk.folder.path("denied");
    fs::create_dir(&place).unwrap();
    copy(&job.place, &place.join("job"));
    let denied = Fault {
        word: "canoe.servers/",
        at: 1,
        how: "EACCES",
        more: 1_000_000,
    };
    let (output, _) = job.run_once(&place, denied);
    succeeded(&output);
    let text = said(&output);
    assert!(text.contains("canoe.servers is left out"), "{text}");
    let without_state = |files: &Files| -> Vec<PathBuf> {
        let is_state = |path: &Path| {
            path.components()
                .any(|part| part.as_os_str() == "canoe.servers")
        };
        files
            .keys()
            .filter(|path| !is_state(path))
            .cloned()
            .collect()
    };
    assert_eq!(
        without_state(&job.saved(&place)),
        without_state(&job.wanted)
    );
}
