//! What the kernel says in `/proc` about processes: whether one still runs, whether it is stopped, its id in a container.

use std::fs;

/// Identifies the boot and the PID namespace of this process: within them, process ids can be compared. `None` if the
/// system does not report them.
pub(super) fn pid_space() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// The ids of all processes that are visible.
pub(super) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The id that a process of a container has inside it, from its `/proc/PID/status`.
pub(super) fn id_in_container(status: &str) -> Option<u32> {
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().skip(1).last()?.parse().ok()
}

/// What `/proc/PID/stat` has after the name, which stands in parentheses and may contain anything.
fn after_name(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat[stat.rfind(')')? + 1..].to_owned())
}

/// The letter of a process's state.
pub(super) fn state(pid: u32) -> Option<String> {
    let after = after_name(pid)?;
    after.split_whitespace().next().map(str::to_owned)
}

/// Start time of a process in clock ticks since boot; `None` if there is no such process.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let after = after_name(pid)?;
    // Field 3 is the state, field 22 the 20th after the name.
    let mut after = after.split_whitespace();
    let state = after.next()?;
    // A zombie has ended, even if it was not reaped yet.
    (!matches!(state, "Z" | "X")).then(|| after.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(start_time(pid).is_some());
        child.kill().unwrap();
        while start_time(pid).is_some() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(
            Path::new(&format!("/proc/{pid}")).exists(),
            "not collected yet"
        );
        child.wait().unwrap();
    }

    #[test]
    fn a_process_in_a_container_is_found_by_its_id_there() {
        let status = "Name:\tcanoe\nNSpid:\t4711\t17\t1\nVmPeak:\t1 kB\n";
        assert_eq!(id_in_container(status), Some(1));
        assert_eq!(id_in_container("NSpid:\t4711\n"), None);
        assert_eq!(id_in_container(""), None);
    }
}
