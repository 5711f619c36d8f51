//! The present state of a process: a small file that it replaces once a second.
//!
//! Readers see the old state or the new one, never a half: the file is written under another name and renamed. A
//! process that is stopped or lost is known by its state not changing any more, whatever the clocks of machines say.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::record::Role;

/// A state file larger than this is not one of ours.
const LARGEST: u64 = 64 * 1024;

/// The state of a process at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beat {
    /// Seconds since 1970.
    pub t: f64,
    /// Which run of the job it belongs to.
    pub run: String,
    /// Trainer or server.
    pub role: Role,
    /// System id.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// Where `/metrics` is served on loopback.
    pub status_port: Option<u16>,
    /// Present pass, from 0.
    pub pass: Option<u64>,
    /// Batches of it that are done.
    pub batch: Option<u64>,
    /// Steps that a server has applied.
    pub step: Option<u64>,
    /// Samples since the process began.
    pub samples: u64,
    /// Samples a second, lately.
    pub samples_per_second: Option<f64>,
    /// Payload bytes a second that a server received, lately.
    pub received_bytes_per_second: Option<f64>,
    /// And sent.
    pub sent_bytes_per_second: Option<f64>,
    /// Share of its time that a trainer waited for servers and others; requests that waited in a server on average.
    pub waiting: Option<f64>,
    /// Memory in use.
    pub memory_bytes: u64,
    /// What a server does.
    pub phase: String,
    /// Whom or what it waits for, as a sentence; empty while it works.
    pub waits_for: String,
}

impl Default for Beat {
    fn default() -> Self {
        Self {
            t: 0.0,
            run: String::new(),
            role: Role::Trainer,
            pid: 0,
            host: String::new(),
            status_port: None,
            pass: None,
            batch: None,
            step: None,
            samples: 0,
            samples_per_second: None,
            received_bytes_per_second: None,
            sent_bytes_per_second: None,
            waiting: None,
            memory_bytes: 0,
            phase: String::new(),
            waits_for: String::new(),
        }
    }
}

impl Beat {
    /// Replaces the file.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let hidden = path.with_extension("new");
        std::fs::write(&hidden, text)?;
        std::fs::rename(&hidden, path)
    }

    /// Reads the file; `None` if there is none, or none of ours.
    pub fn read(path: &Path) -> Option<Beat> {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(LARGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        assert_eq!(Beat::read(&path), None);
        for samples in [1, 2] {
            let beat = Beat {
                samples,
                waits_for: "server 1".into(),
                ..Beat::default()
            };
            beat.write(&path).unwrap();
            assert_eq!(Beat::read(&path), Some(beat));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        std::fs::write(&path, "{\"samples\":-1}").unwrap();
        assert_eq!(Beat::read(&path), None);
    }
}
