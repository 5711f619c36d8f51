//! Writes the present state of a process once a second, on a thread of its own.
//!
//! Training in step waits a little for the slowest trainer in every batch; that is no news. Only a sentence that stays the
//! same for a while says that something stands still.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use watch::beat::Beat;

/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// Looks between two states.
const LOOKS: u32 = 4;

/// A wait shorter than this is a part of the work.
const PATIENCE: Duration = Duration::from_millis(700);

/// The writing thread; dropping it ends it after a last state.
#[derive(Debug)]
pub struct Heart {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Begins to write what `state` tells to a file.
    pub fn start(
        path: PathBuf,
        mut state: impl FnMut() -> Beat + Send + 'static,
    ) -> std::io::Result<Heart> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("heart".to_owned())
            .spawn(move || {
                let mut wait = Wait::default();
                for look in 0u32.. {
                    let last = stopped.load(Ordering::Acquire);
                    let mut beat = state();
                    beat.waits_for = wait.look(std::mem::take(&mut beat.waits_for), Instant::now());
                    if look % LOOKS == 0 || last {
                        beat.t = watch::recorder::now();
                        beat.memory_bytes = memory();
                        // A disk that is full is no reason to stop training.
                        let _ = beat.write(&path);
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
    fn a_heart_writes_a_last_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.beat.json");
        let heart = Heart::start(path.clone(), || Beat {
            samples: 7,
            ..Beat::default()
        });
        drop(heart.unwrap());
        let beat = Beat::read(&path).unwrap();
        assert!(beat.samples == 7 && beat.memory_bytes > 0, "{beat:?}");
    }
}
