//! Starts provider processes so that none outlives this process, however it ends.
//!
//! The kernel can kill a child when the thread that started it ends (`PR_SET_PDEATHSIG`). Sources are opened by
//! threads that end soon after, so all provider processes are started by one thread that lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use words::lock::Mutex;

type Order = (Command, Sender<io::Result<Child>>);

static STARTER: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// Starts a process that the kernel kills when this one ends.
pub(super) fn start(mut command: Command) -> io::Result<Child> {
    end_with_parent(&mut command);
    let (reply, started) = channel();
    starter()?.send((command, reply)).map_err(gone)?;
    started.recv().map_err(gone)?
}

fn gone<E>(_: E) -> io::Error {
    io::Error::other("the thread that starts processes has ended")
}

fn starter() -> io::Result<Sender<Order>> {
    let mut starter = STARTER.lock();
    if let Some(starter) = &*starter {
        return Ok(starter.clone());
    }
    let (orders, waiting) = channel::<Order>();
    std::thread::Builder::new()
        .name("provider starter".to_owned())
        .spawn(move || {
            for (mut command, reply) in waiting {
                // If the caller no longer waits, the child is dropped.
                let _ = reply.send(command.spawn());
            }
        })?;
    *starter = Some(orders.clone());
    Ok(orders)
}

#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;
    let parent = Some(getpid());
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the request was made.
        if getppid() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec; it makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Other systems have no such request: a provider ends there when its input closes.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_command: &mut Command) {}
