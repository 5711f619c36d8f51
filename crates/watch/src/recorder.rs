//! Appends records to a file without delaying the thread that creates them.
//!
//! Lines are buffered and written about once a second, or immediately when they are rare and important. A full disk
//! does not stop training: lines that cannot be written are lost, and this is reported once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use words::event::{Event, EventLine};

/// Lines are written at least this often while there are any.
const FLUSH: Duration = Duration::from_secs(1);

/// A file of records cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("write the record {path}")]
pub struct RecordError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes records to one file.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    waiting: String,
    written: Instant,
}

impl Recorder {
    /// Continues a file, or creates it.
    pub fn append(path: &Path) -> Result<Recorder, RecordError> {
        Self::open(path, OpenOptions::new().create(true).append(true))
    }

    /// Creates a file, or truncates an existing one.
    pub fn create(path: &Path) -> Result<Recorder, RecordError> {
        Self::open(
            path,
            OpenOptions::new().create(true).write(true).truncate(true),
        )
    }

    fn open(path: &Path, options: &OpenOptions) -> Result<Recorder, RecordError> {
        let failed = |source| RecordError {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = options.open(path).map_err(failed)?;
        if ends_inside_a_line(path) {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Recorder {
            file,
            path: path.to_owned(),
            waiting: String::new(),
            written: Instant::now(),
        })
    }

    /// Adds an event; it may be written later.
    pub fn record(&mut self, event: Event) -> Result<(), RecordError> {
        let line = EventLine { t: now(), event };
        self.waiting.push_str(&line.to_text());
        if self.written.elapsed() >= FLUSH {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        self.written = Instant::now();
        let text = std::mem::take(&mut self.waiting);
        self.file
            .write_all(text.as_bytes())
            .map_err(|source| RecordError {
                path: self.path.clone(),
                source,
            })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        let _ = self.flush();
    }
}

/// Whether a process was killed while it wrote its last line.
fn ends_inside_a_line(path: &Path) -> bool {
    use std::os::unix::fs::FileExt;
    let Ok(file) = File::open(path) else {
        return false;
    };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut last = [b'\n'];
    length > 0 && file.read_exact_at(&mut last, length - 1).is_ok() && last != [b'\n']
}

/// Seconds since 1970, to the millisecond.
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    (since.map_or(0.0, |time| time.as_secs_f64()) * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_continue_after_a_torn_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node_0/train.events.jsonl");
        let note = |text: &str| Event::Note { text: text.into() };
        {
            let mut recorder = Recorder::create(&path).unwrap();
            recorder.record(note("one")).unwrap();
        }
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap() + "{\"t\":1,\"ki",
        )
        .unwrap();
        {
            let mut recorder = Recorder::append(&path).unwrap();
            recorder.record(note("two")).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<_> = text
            .lines()
            .map(|line| EventLine::parse(line.as_bytes()).map(|line| line.event))
            .collect();
        assert_eq!(read, [Some(note("one")), None, Some(note("two"))]);
    }
}
