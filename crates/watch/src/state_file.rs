//! The state file of a process: its [`Status`], replaced once a second.
//!
//! Readers see the old state or the new one, never half of one: the file is written under another name and renamed. A
//! process that is stopped or lost is detected because its state does not change any more, whatever the clocks of the
//! machines say.

use std::io::Read;
use std::path::Path;

use words::status::Status;

/// A state file larger than this was not written by canoe.
const LARGEST: u64 = 64 * 1024;

/// Replaces the file.
pub fn write(status: &Status, path: &Path) -> std::io::Result<()> {
    let text = serde_json::to_vec(status)?;
    let hidden = path.with_extension("new");
    std::fs::write(&hidden, text)?;
    std::fs::rename(&hidden, path)
}

/// Reads the file; `None` if there is none, or if canoe did not write it.
pub fn read(path: &Path) -> Option<Status> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        assert_eq!(read(&path), None);
        for samples in [1, 2] {
            let status = Status {
                samples,
                waits_for: "server 1".into(),
                ..Status::default()
            };
            write(&status, &path).unwrap();
            assert_eq!(read(&path), Some(status));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        std::fs::write(&path, "{\"samples\":-1}").unwrap();
        assert_eq!(read(&path), None);
    }
}
