//! A small process that outlives this one by a moment, and kills the processes that are left if this one was killed.
//!
//! When this process gets SIGKILL, the kernel kills its children but not what they have started
//! (a trainer's Python workers, for example). The guard is a shell that reads from a pipe which process
//! groups are alive. When the pipe closes, for any reason, it kills those that are left.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
trap '' HUP INT TERM
alive=" "
while read -r what group; do
    case $what in
    +) alive="$alive$group " ;;
    -) case $alive in
        *" $group "*) alive="${alive%% "$group" *} ${alive#* "$group" }" ;;
        esac ;;
    esac
done
for group in $alive; do kill -KILL "-$group"; done 2>/dev/null
exit 0
"#;

/// The guard's process. Dropping it closes the pipe and waits for it.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts the guard, in a group of its own so that Ctrl-C does not reach it.
    pub(crate) fn start() -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    /// Adds a process group, which was just started.
    pub(crate) fn watch(&mut self, group: u32) {
        self.tell('+', group);
    }

    /// Removes a process group that has ended; its id may belong to another process from now on.
    pub(crate) fn forget(&mut self, group: u32) {
        self.tell('-', group);
    }

    fn tell(&mut self, what: char, group: u32) {
        if let Some(pipe) = &mut self.shell.stdin {
            // Without a guard the run is still correct: the kernel kills the children themselves.
            drop(writeln!(pipe, "{what} {group}"));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        drop(self.shell.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use rustix::process::Signal;

    fn sleeper() -> Child {
        Command::new("/bin/sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[test]
    fn only_groups_that_are_still_watched_are_killed() {
        let mut children: Vec<Child> = (0..4).map(|_| sleeper()).collect();
        let mut guard = Guard::start().unwrap();
        for child in &children {
            guard.watch(child.id());
        }
        guard.forget(children[1].id());
        guard.forget(999_999_999);
        guard.forget(children[3].id());
        drop(guard);
        assert_eq!(
            children[0].wait().unwrap().signal(),
            Some(Signal::KILL.as_raw())
        );
        assert_eq!(
            children[2].wait().unwrap().signal(),
            Some(Signal::KILL.as_raw())
        );
        for kept in [1, 3] {
            assert_eq!(children[kept].try_wait().unwrap(), None);
            children[kept].kill().unwrap();
            children[kept].wait().unwrap();
        }
    }
}
