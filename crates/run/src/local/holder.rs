//! The process that holds a folder, as its file names it, and whether it and the processes of its run still live: on this
//! machine the kernel is asked, also about containers; processes on other machines are not visible.

use std::fs;
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::lease::{LOOK, SILENCE};
use super::proc_files::{id_in_container, pid_space, processes, start_time, state};

/// The process that runs a job in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// The process on it.
    pub pid: u32,
    /// Start time of the process in ticks since boot: distinguishes it from a later one with the same id.
    pub(super) started: u64,
    /// The PID namespace, see [`pid_space`]; empty in files of older versions.
    #[serde(default)]
    pub(super) space: String,
    /// Grows while the owner lives.
    pub(super) beat: u64,
}

impl Holder {
    /// This process.
    pub(super) fn own(host: &str) -> Self {
        let pid = std::process::id();
        Self {
            host: host.to_owned(),
            pid,
            started: start_time(pid).unwrap_or(0),
            space: pid_space().unwrap_or_default(),
            beat: 0,
        }
    }

    pub(super) fn is(&self, other: &Holder) -> bool {
        let process = |holder: &Holder| (holder.pid, holder.started);
        (&self.host, &self.space, process(self)) == (&other.host, &other.space, process(other))
    }

    /// Whether another holder's process still runs; `None` if it is in another PID namespace and not visible from here.
    pub(super) fn sees(&self, other: &Holder) -> Option<bool> {
        let same = self.host == other.host && self.space == other.space && !self.space.is_empty();
        match same {
            true => Some(start_time(other.pid) == Some(other.started)),
            false => self.inside(other).map(|_| true),
        }
    }

    /// The process id, as it is here, of a holder in a container of this machine; `None` if it is not visible.
    fn inside(&self, other: &Holder) -> Option<u32> {
        let boot = |holder: &Holder| holder.space.split(' ').next().map(str::to_owned);
        if other.space.is_empty() || other.space == self.space || boot(self) != boot(other) {
            return None;
        }
        processes().find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            id_in_container(&status) == Some(other.pid) && start_time(*pid) == Some(other.started)
        })
    }

    /// This holder as the processes of its run know it.
    pub(super) fn named(&self) -> Holder {
        let beat = 0;
        Holder {
            beat,
            ..self.clone()
        }
    }

    /// A server or trainer of this holder's run that still lives, as far as it is visible.
    fn child(&self) -> Option<u32> {
        let name = serde_json::to_vec(&self.named()).ok()?;
        let known = |bytes: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        processes().find(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let role = command.split(|byte| *byte == 0).nth(1);
            matches!(role, Some(b"train" | b"pserver"))
                && known(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())
                && start_time(*pid).is_some()
        })
    }
}

/// A process that keeps a folder in use, with its id as it is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveProcess {
    /// Its id.
    pub pid: u32,
    /// It was stopped (SIGSTOP), so it does not end by itself.
    pub stopped: bool,
}

/// The process that keeps the folder of a holder in use, as far as it is visible.
pub(super) fn in_use(own: &Holder, holder: &Holder) -> Option<LiveProcess> {
    let pid = match own.sees(holder) {
        Some(true) => own.inside(holder).or(Some(holder.pid)),
        _ => holder.child(),
    }?;
    let stopped = matches!(state(pid).as_deref(), Some("T" | "t"));
    Some(LiveProcess { pid, stopped })
}

/// Whether servers or trainers of a holder that has ended are left. The kernel is ending those whose runner was killed.
pub(super) fn leaves_children(holder: &Holder) -> bool {
    let begun = Instant::now();
    while holder.child().is_some() {
        if begun.elapsed() >= SILENCE {
            return true;
        }
        thread::sleep(LOOK);
    }
    false
}
