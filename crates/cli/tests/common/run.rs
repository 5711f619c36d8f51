//! A run in processes of its own, to be observed and disturbed.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{CANOE, Folder};

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

/// A run that is watched from outside.
pub(crate) struct Run(pub Child);

impl Run {
    /// Starts `canoe run job` with these arguments and variables; its output goes to `run.log`.
    pub(crate) fn start(folder: &Folder, args: &[&str], variables: &[(&str, &str)]) -> Run {
        let log = fs::File::create(folder.path("run.log")).unwrap();
        let child = Command::new(CANOE)
            .args(["run", "job"])
            .args(args)
            .envs(variables.iter().copied())
            .current_dir(folder.path("."))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Run(child)
    }

    /// Processes that the run has started, as (id, command line).
    pub(crate) fn children(&self) -> Vec<(i32, String)> {
        let own = self.0.id().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(id) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let stat = read("stat");
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|s| s.split_whitespace().nth(1));
            if parent == Some(own.as_str()) {
                found.push((id, read("cmdline").replace('\0', " ")));
            }
        }
        found
    }

    pub(crate) fn find(&self, command: &str) -> Option<i32> {
        let is = |(_, line): &&(i32, String)| line.contains(command);
        self.children().iter().find(is).map(|(id, _)| *id)
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(mut self, folder: &Folder) {
        let begun = Instant::now();
        while !self.is_over() {
            if begun.elapsed() > DEADLINE {
                let _ = self.0.kill();
                panic!("the run hangs:\n{}", log(folder));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(self.0.wait().unwrap().success(), "{}", log(folder));
    }
}

pub(crate) fn log(folder: &Folder) -> String {
    fs::read_to_string(folder.path("run.log")).unwrap_or_default()
}

pub(crate) fn signal(process: i32, signal: i32) {
    // SAFETY: sends a signal to a process that this test has started.
    unsafe { libc::kill(process, signal) };
}

/// Waits for something outside to happen while the run continues.
pub(crate) fn wait_until(
    run: &mut Run,
    folder: &Folder,
    what: &str,
    mut done: impl FnMut() -> bool,
) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < DEADLINE && !run.is_over(),
            "{what} does not come\n{}",
            log(folder)
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}
