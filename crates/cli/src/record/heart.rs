//! Writes the status of a process to its state file once a second, and immediately when it is news, on its own thread.
//!
//! In synchronous training every batch includes a short wait for the slowest trainer; that is no news. Something is stuck
//! only when the process waits for the same thing for a while.

use std::cmp::Ordering as Cmp;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use watch::state_file;
use words::status::Status;

/// Interval of the checks of what is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// Checks per written status.
const LOOKS: u32 = 4;

/// A shorter wait is part of normal work.
const PATIENCE: Duration = Duration::from_millis(700);

/// The writing thread; when dropped, it writes a last status and ends.
#[derive(Debug)]
pub(crate) struct Heart {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Begins to write the result of `state` to a file.
    pub(crate) fn start(
        path: PathBuf,
        mut state: impl FnMut() -> Status + Send + 'static,
    ) -> std::io::Result<Heart> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("heart".to_owned())
            .spawn(move || {
                let mut wait = Wait::default();
                let mut written: Option<Status> = None;
                for look in 0u32.. {
                    let last = stopped.load(Ordering::Acquire);
                    let mut status = state();
                    status.waits_for =
                        wait.look(std::mem::take(&mut status.waits_for), Instant::now());
                    let is_news = |before: &Status| status.is_news(before);
                    let is_due = look % LOOKS == 0 || last || written.as_ref().is_none_or(is_news);
                    if is_due {
                        let there = state_file::read(&path);
                        let Some(writer) = writer(there.as_ref(), written.as_ref()) else {
                            return;
                        };
                        status.writer = writer;
                        status.t = watch::recorder::now();
                        status.memory_bytes = memory();
                        // A full disk is no reason to stop training.
                        let _ = state_file::write(&status, &path);
                        written = Some(status);
                    }
                    if last {
                        return;
                    }
                    std::thread::park_timeout(LOOK);
                }
            })?;
        Ok(Heart {
            stop,
            thread: Some(thread),
        })
    }
}

/// The number of this writer, given the number in the file and the one that this process wrote last. `None` if the file
/// belongs to a successor: this process was considered lost (its machine was cut off), came back, and will soon be
/// refused.
///
/// A process that was lost in the middle of a write may finish it long after its successor has begun. Numbers that only
/// grow distinguish the two without clocks: the successor takes its file back. With equal numbers (the file could not be
/// read) the last writer wins.
pub(crate) fn writer(there: Option<&Status>, written: Option<&Status>) -> Option<u64> {
    let Some(own) = written else {
        return Some(there.map_or(0, |there| there.writer.saturating_add(1)));
    };
    let is_successor = |there: &Status| match there.writer.cmp(&own.writer) {
        Cmp::Greater => true,
        Cmp::Equal => there.t != own.t,
        Cmp::Less => false,
    };
    (!there.is_some_and(is_successor)).then_some(own.writer)
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has no result to lose.
            let _ = thread.join();
        }
    }
}

/// How long a sentence has been the same.
#[derive(Debug, Default)]
struct Wait {
    sentence: String,
    since: Option<Instant>,
}

impl Wait {
    /// The sentence with its duration, if it has lasted.
    fn look(&mut self, sentence: String, now: Instant) -> String {
        if sentence != self.sentence {
            self.sentence = sentence;
            self.since = Some(now);
        }
        let lasted = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        match self.sentence.as_str() {
            sentence if !sentence.is_empty() && lasted >= PATIENCE => {
                format!("{sentence} ({} s)", lasted.as_secs().max(1))
            }
            _ => String::new(),
        }
    }
}

/// Bytes of memory that this process has in use.
pub(crate) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_that_lasts_is_told() {
        let (mut wait, begun) = (Wait::default(), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        assert_eq!(wait.look("step 1 waits for trainer 0".into(), at(0)), "");
        assert_eq!(wait.look("step 2 waits for trainer 0".into(), at(800)), "");
        let told = wait.look("step 2 waits for trainer 0".into(), at(3900));
        assert_eq!(told, "step 2 waits for trainer 0 (3 s)");
        assert_eq!(wait.look(String::new(), at(4000)), "");
    }

    #[test]
    fn a_process_that_comes_back_leaves_the_file_to_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        let beat = |samples| Status {
            samples,
            ..Status::default()
        };
        let old = Heart::start(path.clone(), move || beat(1)).unwrap();
        while state_file::read(&path).is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let new = Heart::start(path.clone(), move || beat(2)).unwrap();
        while state_file::read(&path).is_none_or(|status| status.samples != 2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(old);
        assert_eq!(state_file::read(&path).unwrap().samples, 2);
        drop(new);
        assert_eq!(state_file::read(&path).unwrap().samples, 2);
    }

    #[test]
    fn a_late_write_of_a_lost_process_is_replaced_by_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        let lost = Status {
            t: 5.0,
            samples: 1,
            ..Status::default()
        };
        state_file::write(&lost, &path).unwrap();
        let begun = Instant::now();
        let new = Heart::start(path.clone(), || Status {
            samples: 2,
            ..Status::default()
        });
        for _ in 0..2 {
            while state_file::read(&path).is_none_or(|status| status.samples != 2) {
                let waited = begun.elapsed();
                assert!(waited < Duration::from_secs(120), "the file stays lost");
                std::thread::sleep(Duration::from_millis(5));
            }
            // The write that the lost process had begun.
            state_file::write(
                &Status {
                    t: 6.0,
                    ..lost.clone()
                },
                &path,
            )
            .unwrap();
        }
        drop(new);
        let status = state_file::read(&path).unwrap();
        assert_eq!((status.samples, status.writer), (2, 1));
    }

    #[test]
    fn the_writer_with_the_largest_number_owns_the_file() {
        let state = |writer, t| Status {
            writer,
            t,
            ..Status::default()
        };
        let (old, new) = (state(3, 10.0), state(4, 2.0));
        assert_eq!(writer(None, None), Some(0));
        assert_eq!(writer(Some(&old), None), Some(4));
        assert_eq!(writer(Some(&old), Some(&old)), Some(3));
        assert_eq!(writer(Some(&new), Some(&old)), None);
        assert_eq!(writer(Some(&old), Some(&new)), Some(4));
        assert_eq!(writer(Some(&state(3, 11.0)), Some(&old)), None);
        assert_eq!(writer(None, Some(&new)), Some(4));
    }

    #[test]
    fn a_heart_writes_a_last_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        let heart = Heart::start(path.clone(), || Status {
            samples: 7,
            ..Status::default()
        });
        drop(heart.unwrap());
        let status = state_file::read(&path).unwrap();
        assert!(status.samples == 7 && status.memory_bytes > 0, "{status:?}");
    }
}
