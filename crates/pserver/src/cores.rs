//! Where the threads of a service run when all servers of a job share one host.
//!
//! A trainer's last push sets all services to work. Left to itself, the scheduler runs the first one on the trainer's own
//! core at once, before the trainer has told the others, and then the others there too, while the core of a trainer that
//! waits lies idle. So each service gets a core, and its threads do not push aside whoever runs there.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Has this thread run on the core for service `number`, without precedence over others when it wakes up.
pub fn settle(number: u32) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let Some(core) = core_of(number, &allowed) else {
        return Ok(());
    };
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own)?;
    let plain = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameter and changes how this thread alone is scheduled.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const plain) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The core for a service among those that the process may use; none if there is no choice.
fn core_of(number: u32, allowed: &CpuSet) -> Option<usize> {
    let count = allowed.count();
    if count < 2 {
        return None;
    }
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    cores.nth((number % count) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_dealt_out_to_the_cores_that_may_be_used() {
        let mut allowed = CpuSet::new();
        assert_eq!(core_of(0, &allowed), None);
        allowed.set(5);
        assert_eq!(core_of(0, &allowed), None);
        allowed.set(2);
        allowed.set(9);
        let cores: Vec<_> = (0..4).map(|n| core_of(n, &allowed)).collect();
        assert_eq!(cores, [Some(2), Some(5), Some(9), Some(2)]);
    }

    #[test]
    fn a_thread_settles_on_one_core() {
        std::thread::spawn(|| {
            settle(1).unwrap();
            let allowed = sched_getaffinity(None).unwrap();
            assert_eq!(allowed.count(), 1);
        })
        .join()
        .unwrap();
    }
}
