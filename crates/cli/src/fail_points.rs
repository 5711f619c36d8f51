//! Fail points, with which tests stop this program at named moments (`CANOE_FAIL_POINTS=FOLDER`, docs/reliability.md).
//!
//! A test puts a file `PROCESS.POINT` into the folder (`trainer-0.saving`) whose text is a count. The process that
//! reaches the point that many times renames the file to `PROCESS.POINT.reached` and waits there until the test has
//! removed it, or for ever. So a test can kill or stop any process at any named moment, and each file works once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::lock::Mutex;

/// The variable that names the folder.
const VARIABLE: &str = "CANOE_FAIL_POINTS";

/// Interval at which a held process checks whether it may continue.
const LOOK: Duration = Duration::from_millis(2);

/// Installs the fail points, if the environment names a folder.
pub(crate) fn install() {
    let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else {
        return;
    };
    let Some(process) = process(std::env::args()) else {
        return;
    };
    let points = Points {
        folder: PathBuf::from(folder),
        process,
        reached: Mutex::default(),
    };
    words::failpoint::install(Box::new(move |point| points.reach(point)));
}

/// `trainer-0`, `pserver-1`: from the arguments that name the process.
fn process(args: impl Iterator<Item = String>) -> Option<String> {
    let name = |arg: &str| {
        let id = |flag| arg.strip_prefix(flag);
        let trainer = id("--trainer_id=").map(|id| format!("trainer-{id}"));
        trainer.or_else(|| id("--server_id=").map(|id| format!("pserver-{id}")))
    };
    args.filter_map(|arg| name(&arg)).last()
}

struct Points {
    folder: PathBuf,
    process: String,
    reached: Mutex<HashMap<&'static str, u64>>,
}

impl Points {
    fn reach(&self, point: &'static str) {
        let count = {
            let mut reached = self.reached.lock();
            let count = reached.entry(point).or_default();
            *count += 1;
            *count
        };
        let order = self.folder.join(format!("{}.{point}", self.process));
        let Ok(text) = std::fs::read_to_string(&order) else {
            return;
        };
        if count < text.trim().parse().unwrap_or(1) {
            return;
        }
        hold(&order);
    }
}

fn hold(order: &Path) {
    let mut name = order.as_os_str().to_owned();
    name.push(".reached");
    let reached = PathBuf::from(name);
    // Two threads may reach the point together: the second one finds no file, and continues.
    if std::fs::rename(order, &reached).is_err() {
        return;
    }
    while reached.exists() {
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_arguments() {
        let name = |args: &[&str]| process(args.iter().map(|arg| (*arg).to_owned()));
        assert_eq!(
            name(&["canoe", "train", "--trainer_id=1"]).unwrap(),
            "trainer-1"
        );
        assert_eq!(
            name(&["canoe", "pserver", "--server_id=0"]).unwrap(),
            "pserver-0"
        );
        assert_eq!(name(&["canoe", "run", "job"]), None);
    }

    #[test]
    fn the_last_of_so_many_times_is_held_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let points = Points {
            folder: folder.path().to_owned(),
            process: "trainer-0".to_owned(),
            reached: Mutex::default(),
        };
        let order = folder.path().join("trainer-0.saving");
        let reached = folder.path().join("trainer-0.saving.reached");
        std::fs::write(&order, "2").unwrap();
        points.reach("saving");
        points.reach("testing");
        assert!(order.exists());
        std::thread::scope(|scope| {
            let held = scope.spawn(|| points.reach("saving"));
            while !reached.exists() {
                std::thread::yield_now();
            }
            assert!(!held.is_finished() && !order.exists());
            std::fs::remove_file(&reached).unwrap();
        });
        points.reach("saving");
        assert!(!reached.exists());
    }
}
