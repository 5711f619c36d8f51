//! Writes the status of a process to its state file once a second, and immediately when it is news, on its own thread.
//!
//! In synchronous training every batch includes a short wait for the slowest trainer; that is no news. Only a sentence
//! that stays the same for a while means that something is stuck.

use std::path::{Path, PathBuf};
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
pub struct Heart {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Begins to write the result of `state` to a file.
    pub fn start(
        path: PathBuf,
        mut state: impl FnMut() -> Status + Send + 'static,
    ) -> std::io::Result<Heart> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("heart".to_owned())
            .spawn(move || {
                let mut wait = Wait::default();
                let mut written = Status::default();
                for look in 0u32.. {
                    let last = stopped.load(Ordering::Acquire);
                    let mut status = state();
                    status.waits_for =
                        wait.look(std::mem::take(&mut status.waits_for), Instant::now());
                    let is_due = look % LOOKS == 0 || last || status.is_news(&written);
                    if is_due && belongs_to_another(&path, &written) {
                        return;
                    }
                    if is_due {
                        status.t = watch::recorder::now();
                        status.memory_bytes = memory();
                        // A full disk is no reason to stop training.
                        let _ = state_file::write(&status, &path);
                        written = status;
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

/// Whether another process has written the file since: it has replaced this one, which was taken for lost and is back (a machine that
/// was cut off). What it says counts, and this process is about to be told so.
fn belongs_to_another(path: &Path, written: &Status) -> bool {
    let is_first = written.t == 0.0;
    !is_first && state_file::read(path).is_some_and(|there| there.t != written.t)
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
pub fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * u64::try_from(page).unwrap_or(4096)
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
