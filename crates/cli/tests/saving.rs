//! A pass has ended when its model is durable: trainer 0 is killed while it tests, while it saves, at the last save, and
//! every file of every pass directory is that of an undisturbed run.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::run::{Run, log, signal, wait_until};
use common::{BY_ROW, Folder, succeeded};

const CONFIG: &str = "trainer_config.emb.py";

/// Test samples are yielded only while there is no file `hold` in the folder, and a file shows that they are requested.
const GATE: (&str, &str) = (
    "    ids = settings.ids\n    with open(file_name",
    "    ids = settings.ids
    if 'test' in file_name:
        import os, time
        open(os.path.join(HERE, 'asked'), 'w').close()
        while os.path.exists(os.path.join(HERE, 'hold')):
            time.sleep(0.01)
    with open(file_name",
);

/// When trainer 0 is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// In the test at the end of a pass.
    Test,
    /// When parameters are written and the configuration is to be copied.
    Save,
    /// It is not killed: it cannot write, and ends.
    FailedSave,
}

struct Job {
    folder: Folder,
    args: Vec<String>,
}

impl Job {
    fn new(replacements: &[(&str, &str)], more: &[&str]) -> Job {
        let folder = Folder::with_demo(600);
        folder.vary(CONFIG, CONFIG, replacements);
        let here = format!(
            "HERE = {:?}\nUNKNOWN = 0",
            folder.path(".").display().to_string()
        );
        let gate = [GATE, ("UNKNOWN = 0", here.as_str())];
        folder.vary("dataprovider_emb.py", "dataprovider_emb.py", &gate);
        succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
        let args = ["--nodes=2", "--config", CONFIG, "--keep-going"];
        let args = [&args[..], &["--peer-timeout=2"], more].concat();
        Job {
            folder,
            args: args.into_iter().map(str::to_owned).collect(),
        }
    }

    fn start(&self) -> Run {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Run::start(&self.folder, &args, &[])
    }

    /// Every file of every pass directory, hidden ones as well.
    fn saved(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let output = self.folder.path("job/output");
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&output).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.trim_start_matches('.').starts_with("pass-") {
                collect(&output, &path, &mut files);
            }
        }
        files
    }

    /// Runs undisturbed, and then again with a crash of trainer 0.
    fn survives(&self, moment: Moment) {
        self.start().wait(&self.folder);
        let wanted = self.saved();
        assert!(!wanted.is_empty());
        fs::remove_dir_all(self.folder.path("job/output")).unwrap();
        let mut run = self.start_held();
        let trainer = run.find("--trainer_id=0").unwrap();
        if moment != Moment::Test {
            self.hold_save(&mut run, trainer);
        }
        if moment == Moment::FailedSave {
            // What comes through a pipe is no configuration.
            drop(
                fs::OpenOptions::new()
                    .write(true)
                    .open(self.folder.path("pipe"))
                    .unwrap(),
            );
        } else {
            signal(trainer, libc::SIGKILL);
        }
        let _ = fs::remove_file(self.folder.path("hold"));
        run.wait(&self.folder);
        let text = log(&self.folder);
        let got = self.saved();
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&got), names(&wanted), "{moment:?}\n{text}");
        for (path, bytes) in &wanted {
            assert!(got[path] == *bytes, "{} differs\n{text}", path.display());
        }
    }

    /// Starts a run that is stopped in the test at the end of its first pass.
    fn start_held(&self) -> Run {
        let asked = self.folder.path("asked");
        let _ = fs::remove_file(&asked);
        fs::write(self.folder.path("hold"), "").unwrap();
        let mut run = self.start();
        wait_until(&mut run, &self.folder, "the test", || asked.exists());
        run
    }

    /// Lets the run continue until it blocks in its first save: the configuration that it copies is then a pipe, which
    /// nobody writes to.
    fn hold_save(&self, run: &mut Run, trainer: i32) {
        let config = self.folder.path("job/quick_start").join(CONFIG);
        let kept = self.folder.path("kept.py");
        fs::rename(&config, &kept).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&config).status();
        assert!(made.unwrap().success());
        fs::remove_file(self.folder.path("hold")).unwrap();
        let hidden = self.folder.path("job/output/.pass-00000.part");
        let servers = hidden.join("canoe.servers");
        let mut looks = 0;
        wait_until(run, &self.folder, "the save", || {
            let stands = servers.is_dir() && stands_in_open(trainer);
            looks = if stands { looks + 1 } else { 0 };
            looks == 20
        });
        // The next reader finds the real file; trainer 0 is blocked at the pipe.
        fs::rename(&config, self.folder.path("pipe")).unwrap();
        fs::rename(&kept, &config).unwrap();
        assert!(hidden.is_dir(), "it is in the middle of its save");
    }
}

/// Whether a thread of the process is blocked in `open`: only a pipe makes it wait for long.
fn stands_in_open(process: i32) -> bool {
    let wanted = format!("{} ", libc::SYS_openat);
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter();
    threads.flatten().flatten().any(|thread| {
        let call = fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        call.starts_with(&wanted)
    })
}

fn collect(root: &Path, path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    if path.is_file() {
        let name = path.strip_prefix(root).unwrap().to_owned();
        files.insert(name, fs::read(path).unwrap());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        collect(root, &entry.unwrap().path(), files);
    }
}

#[test]
fn a_death_in_the_test_at_the_end_of_a_pass_loses_no_model() {
    Job::new(&[], &["--passes=2"]).survives(Moment::Test);
}

#[test]
fn a_death_in_the_middle_of_a_save_loses_no_model() {
    Job::new(&[], &["--passes=2"]).survives(Moment::Save);
}

#[test]
fn a_save_that_fails_is_made_again() {
    Job::new(&[], &["--passes=2"]).survives(Moment::FailedSave);
}

#[test]
fn a_death_in_the_last_save_loses_no_model() {
    Job::new(&[BY_ROW], &["--passes=1"]).survives(Moment::Save);
}
