//! One owner per folder: a lease that works on NFS, where locks do not hold across machines and clocks differ.
//!
//! The owner's file `owner.json` is created exclusively, names its owner, and is rewritten every second. A claimant that
//! can see the owner's process asks the kernel whether it still runs; a claimant on another machine, or in another
//! container of the same machine, watches whether the file changes.
//! The file of an owner that has ended is first moved away and then read again: if it is not the file that was judged,
//! another claimant was faster, and the file is put back. An owner that was stopped for so long that another process took
//! over finds the other's name when it rewrites the file, and ends. So two owners never continue side by side, whichever
//! process is stopped at which moment.
//!
//! [`Claimant`] and [`Keeper`] decide, one operation on the file at a time; a simulation runs them against each other.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::claim::ClaimError;

/// An owner rewrites its file this often.
const BEAT: Duration = Duration::from_secs(1);
/// An owner whose process is not visible, and whose file does not change for this long, counts as ended.
const SILENCE: Duration = Duration::from_secs(5);
/// Between two looks of a claimant that watches.
const LOOK: Duration = Duration::from_millis(200);

/// The process that runs a job in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// The process on it.
    pub pid: u32,
    /// Start time of the process in ticks since boot: distinguishes it from a later one with the same id.
    started: u64,
    /// The PID namespace, see [`pid_space`]; empty in files of older versions.
    #[serde(default)]
    space: String,
    /// Grows while the owner lives.
    beat: u64,
}

impl Holder {
    /// This process.
    fn own(host: &str) -> Self {
        let pid = std::process::id();
        Self {
            host: host.to_owned(),
            pid,
            started: start_time(pid).unwrap_or(0),
            space: pid_space().unwrap_or_default(),
            beat: 0,
        }
    }

    fn is(&self, other: &Holder) -> bool {
        let process = |holder: &Holder| (holder.pid, holder.started);
        (&self.host, &self.space, process(self)) == (&other.host, &other.space, process(other))
    }

    /// Whether another holder's process still runs; `None` if it is in another PID namespace, where its id means another
    /// process.
    fn sees(&self, other: &Holder) -> Option<bool> {
        let same = self.host == other.host && self.space == other.space && !self.space.is_empty();
        same.then(|| start_time(other.pid) == Some(other.started))
    }
}

/// The state of the owner's file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Nobody,
    Somebody(Holder),
    /// A file that cannot be parsed: its owner is writing it now, or crashed while it did.
    Unclear,
}

/// The operations on the owner's file; each is atomic.
trait LeaseFile {
    fn read(&self) -> io::Result<Found>;
    /// Creates the file; false if one exists already.
    fn create(&self, holder: &Holder) -> io::Result<bool>;
    /// Moves the file away and returns what was in it.
    fn take_away(&self) -> io::Result<Found>;
    /// Puts the file back that was moved away, unless a new one exists.
    fn put_back(&self) -> io::Result<()>;
    fn replace(&self, holder: &Holder) -> io::Result<()>;
}

/// The next operation of a claimant.
#[derive(Debug, Clone)]
enum Next {
    Look,
    Watch(Found, Duration),
    TakeAway(Found),
    Create,
    Verify,
}

/// How far a claim has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// Try again after a pause.
    Later,
    Held,
    Refused(Option<Holder>),
}

/// A process that wants to own the folder.
struct Claimant {
    own: Holder,
    next: Next,
}

impl Claimant {
    fn new(own: Holder) -> Self {
        let next = Next::Look;
        Self { own, next }
    }

    /// Does one operation. `lives`: whether a holder's process still runs; `None` if it is on another machine.
    fn step(
        &mut self,
        file: &dyn LeaseFile,
        lives: &dyn Fn(&Holder) -> Option<bool>,
        now: Duration,
    ) -> io::Result<Progress> {
        self.next = match std::mem::replace(&mut self.next, Next::Look) {
            Next::Look => match file.read()? {
                Found::Nobody => Next::Create,
                Found::Somebody(holder) => match lives(&holder) {
                    Some(true) => return Ok(Progress::Refused(Some(holder))),
                    Some(false) => Next::TakeAway(Found::Somebody(holder)),
                    None => Next::Watch(Found::Somebody(holder), now),
                },
                Found::Unclear => Next::Watch(Found::Unclear, now),
            },
            Next::Watch(first, since) => match file.read()? {
                Found::Nobody => Next::Create,
                Found::Somebody(holder) if first != Found::Somebody(holder.clone()) => {
                    return Ok(Progress::Refused(Some(holder)));
                }
                _ if now.saturating_sub(since) >= SILENCE => Next::TakeAway(first),
                _ => Next::Watch(first, since),
            },
            Next::TakeAway(judged) => match file.take_away()? {
                Found::Nobody => Next::Look,
                found if found == judged => Next::Create,
                found => {
                    file.put_back()?;
                    let holder = match found {
                        Found::Somebody(holder) => Some(holder),
                        _ => None,
                    };
                    return Ok(Progress::Refused(holder));
                }
            },
            Next::Create => match file.create(&self.own)? {
                true => Next::Verify,
                false => Next::Look,
            },
            Next::Verify => match file.read()? {
                Found::Somebody(holder) if holder.is(&self.own) => return Ok(Progress::Held),
                Found::Somebody(holder) => return Ok(Progress::Refused(Some(holder))),
                _ => Next::Look,
            },
        };
        Ok(Progress::Later)
    }
}

/// The owner of a folder.
struct Keeper {
    own: Holder,
    /// The last read found this owner's own file: rewrite it now.
    due: bool,
}

impl Keeper {
    /// Does one operation; returns the process that has taken over, if one has.
    fn step(&mut self, file: &dyn LeaseFile) -> io::Result<Option<Holder>> {
        if self.due {
            self.due = false;
            self.own.beat += 1;
            file.replace(&self.own)?;
            return Ok(None);
        }
        match file.read()? {
            Found::Somebody(holder) if holder.is(&self.own) => self.due = true,
            Found::Somebody(holder) => return Ok(Some(holder)),
            // A claimant has moved the file away to judge it, or crashed while it did.
            Found::Nobody => drop(file.create(&self.own)?),
            Found::Unclear => {}
        }
        Ok(None)
    }
}

/// The file on a volume.
struct OnVolume {
    path: PathBuf,
    aside: PathBuf,
}

impl OnVolume {
    fn new(output: &Path, own: &Holder) -> Self {
        let path = output.join("owner.json");
        // Of two containers, each may have a process 1.
        let (pid, started) = (own.pid, own.started);
        let aside = path.with_extension(format!("{pid}-{started}.gone"));
        Self { path, aside }
    }
}

fn meaning(read: io::Result<Vec<u8>>) -> io::Result<Found> {
    match read {
        Ok(text) => Ok(serde_json::from_slice(&text).map_or(Found::Unclear, Found::Somebody)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nobody),
        // Another client of the volume has just replaced it.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::STALE.raw_os_error()) => {
            Ok(Found::Unclear)
        }
        Err(error) => Err(error),
    }
}

impl LeaseFile for OnVolume {
    fn read(&self) -> io::Result<Found> {
        meaning(fs::read(&self.path))
    }

    fn create(&self, holder: &Holder) -> io::Result<bool> {
        let text = serde_json::to_vec(holder)?;
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&self.path);
        match created {
            Ok(mut file) => file.write_all(&text).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn take_away(&self) -> io::Result<Found> {
        match fs::rename(&self.path, &self.aside) {
            Ok(()) => meaning(fs::read(&self.aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nobody),
            Err(error) => Err(error),
        }
    }

    fn put_back(&self) -> io::Result<()> {
        // A link, unlike a rename, does not replace what is there. If it fails, the owner writes its file again.
        let _ = fs::hard_link(&self.aside, &self.path);
        let _ = fs::remove_file(&self.aside);
        Ok(())
    }

    fn replace(&self, holder: &Holder) -> io::Result<()> {
        super::run_file::replace(&self.path, &serde_json::to_vec(holder)?)
    }
}

/// The claim on a folder; dropping it releases the folder.
#[derive(Debug)]
pub struct Owner {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Fails if a running process owns a folder. For commands that write into a folder without owning it.
pub fn check_free(output: &Path, host: &str) -> Result<(), ClaimError> {
    let own = Holder::own(host);
    let path = output.join("owner.json");
    let read = || serde_json::from_slice::<Holder>(&fs::read(&path).ok()?).ok();
    let Some(first) = read() else {
        return Ok(());
    };
    let begun = Instant::now();
    let lives = own.sees(&first).unwrap_or_else(|| {
        // The process is not visible: only a file that changes shows that it runs.
        while begun.elapsed() < SILENCE && read().as_ref() == Some(&first) {
            thread::sleep(LOOK);
        }
        read().is_some_and(|holder| holder != first)
    });
    match lives {
        true => Err(ClaimError::owned(output.to_owned(), Some(first))),
        false => Ok(()),
    }
}

/// Whether the process of this machine that owned a folder was killed: it has ended without releasing the folder.
pub fn is_abandoned(output: &Path, host: &str) -> bool {
    let text = fs::read(output.join("owner.json")).unwrap_or_default();
    let holder = serde_json::from_slice::<Holder>(&text).ok();
    holder
        .is_some_and(|holder| holder.host == host && start_time(holder.pid) != Some(holder.started))
}

impl Owner {
    /// Claims a folder that exists, for this process on `host`. `on_loss` is called if another process takes the folder
    /// over, because this one was stopped for too long: it must end.
    pub fn claim(
        output: &Path,
        host: &str,
        on_loss: impl Fn(&Holder) + Send + 'static,
    ) -> Result<Owner, ClaimError> {
        let own = Holder::own(host);
        let file = OnVolume::new(output, &own);
        let failed = |source| ClaimError::File {
            action: "write",
            path: output.join("owner.json"),
            source,
        };
        let lives = |holder: &Holder| own.sees(holder);
        let begun = Instant::now();
        let mut claimant = Claimant::new(own.clone());
        loop {
            let watches = matches!(claimant.next, Next::Watch(..));
            match claimant
                .step(&file, &lives, begun.elapsed())
                .map_err(failed)?
            {
                Progress::Held => break,
                Progress::Later if watches => thread::sleep(LOOK),
                Progress::Later => {}
                Progress::Refused(holder) => {
                    let folder = output.to_owned();
                    return Err(ClaimError::owned(folder, holder));
                }
            }
        }
        // Nobody needs the file that was moved away.
        let _ = fs::remove_file(&file.aside);
        Self::keep(file, own, on_loss).map_err(failed)
    }

    fn keep(
        file: OnVolume,
        own: Holder,
        on_loss: impl Fn(&Holder) + Send + 'static,
    ) -> io::Result<Owner> {
        let (stop, lost) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (stopped, gone, path) = (stop.clone(), lost.clone(), file.path.clone());
        let thread = thread::Builder::new()
            .name("owner".to_owned())
            .spawn(move || {
                let mut keeper = Keeper { own, due: false };
                while !stopped.load(Ordering::Acquire) {
                    thread::park_timeout(BEAT);
                    for _ in 0..2 {
                        // A disk that is full now may have room at the next beat.
                        if let Ok(Some(holder)) = keeper.step(&file) {
                            gone.store(true, Ordering::Release);
                            on_loss(&holder);
                            return;
                        }
                    }
                }
            })?;
        Ok(Owner {
            path,
            stop,
            lost,
            thread: Some(thread),
        })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has no result to lose.
            let _ = thread.join();
        }
        // If the file stays, claimants see that its process has ended. Another owner's file must not be removed.
        if !self.lost.load(Ordering::Acquire) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Identifies the boot and the PID namespace of this process: within them, process ids can be compared. `None` if the
/// system does not report them.
fn pid_space() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// Start time of a process in clock ticks since boot; `None` if there is no such process.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; field 3 is the state, field 22 the 20th after the name.
    let mut after = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = after.next()?;
    // A zombie has ended, even if it was not reaped yet.
    (!matches!(state, "Z" | "X")).then(|| after.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use words::random::SplitMix64;

    fn nobody(_: &Holder) {}

    #[test]
    fn a_zombie_has_ended_and_a_folder_in_use_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        check_free(folder.path(), "here").unwrap();
        let owner = Owner::claim(folder.path(), "here", nobody).unwrap();
        check_free(folder.path(), "here").unwrap_err();
        drop(owner);
        check_free(folder.path(), "here").unwrap();
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
    fn a_second_owner_is_refused_by_name_and_a_dead_one_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let first = Owner::claim(folder.path(), "here", nobody).unwrap();
        let error = Owner::claim(folder.path(), "here", nobody).unwrap_err();
        let text = error.to_string();
        let pid = format!("process {} on here", std::process::id());
        assert!(text.contains(&pid), "{text}");
        drop(first);
        assert!(!folder.path().join("owner.json").exists());
        // A process with that id lives, but it is another one.
        let stale = Holder {
            started: 1,
            beat: 9,
            ..Holder::own("here")
        };
        let text = serde_json::to_vec(&stale).unwrap();
        fs::write(folder.path().join("owner.json"), text).unwrap();
        drop(Owner::claim(folder.path(), "here", nobody).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_owner_in_another_container_of_this_machine_is_judged_by_its_beat() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        // Here another process has that id.
        let mut holder = Holder {
            pid: 1,
            started: 1,
            space: "a boot pid:[7]".to_owned(),
            ..Holder::own("here")
        };
        let write = |holder: &Holder| {
            super::super::run_file::replace(&path, &serde_json::to_vec(holder).unwrap()).unwrap();
        };
        write(&holder);
        thread::scope(|scope| {
            let (ended, end) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                while end.recv_timeout(Duration::from_millis(50)).is_err() {
                    holder.beat += 1;
                    write(&holder);
                }
            });
            let claimed = Owner::claim(folder.path(), "here", nobody).map(drop);
            let free = check_free(folder.path(), "here");
            ended.send(()).unwrap();
            let text = claimed.unwrap_err().to_string();
            assert!(text.contains("process 1 on here"), "{text}");
            free.unwrap_err();
        });
        check_free(folder.path(), "here").unwrap();
        drop(Owner::claim(folder.path(), "here", nobody).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_owner_that_was_replaced_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (send, told) = std::sync::mpsc::channel();
        let send = move |holder: &Holder| drop(send.send(holder.host.clone()));
        let owner = Owner::claim(folder.path(), "here", send).unwrap();
        let other = Holder {
            pid: 1,
            started: 1,
            ..Holder::own("there")
        };
        let path = folder.path().join("owner.json");
        // The owner may rewrite its own name once more, between its look and its write.
        let by = (0..20).find_map(|_| {
            fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
            told.recv_timeout(Duration::from_secs(3)).ok()
        });
        assert_eq!(by.as_deref(), Some("there"));
        drop(owner);
        assert!(path.exists(), "it belongs to the other");
    }

    /// A volume that all machines see.
    #[derive(Default)]
    struct Volume {
        file: RefCell<Option<Holder>>,
    }

    /// One machine's view, with what it has moved away.
    struct View<'a>(&'a Volume, &'a RefCell<Option<Holder>>);

    fn found(holder: Option<&Holder>) -> Found {
        holder.map_or(Found::Nobody, |holder| Found::Somebody(holder.clone()))
    }

    impl LeaseFile for View<'_> {
        fn read(&self) -> io::Result<Found> {
            Ok(found(self.0.file.borrow().as_ref()))
        }

        fn create(&self, holder: &Holder) -> io::Result<bool> {
            let mut file = self.0.file.borrow_mut();
            let free = file.is_none();
            file.get_or_insert_with(|| holder.clone());
            Ok(free)
        }

        fn take_away(&self) -> io::Result<Found> {
            *self.1.borrow_mut() = self.0.file.borrow_mut().take();
            Ok(found(self.1.borrow().as_ref()))
        }

        fn put_back(&self) -> io::Result<()> {
            let mut file = self.0.file.borrow_mut();
            if file.is_none() {
                *file = self.1.borrow_mut().take();
            }
            Ok(())
        }

        fn replace(&self, holder: &Holder) -> io::Result<()> {
            *self.0.file.borrow_mut() = Some(holder.clone());
            Ok(())
        }
    }

    enum Role {
        Claims(Claimant),
        Keeps(Keeper),
        Gone,
    }

    struct Process {
        role: Role,
        aside: RefCell<Option<Holder>>,
        /// When it does its next operation.
        at: u64,
    }

    /// Three machines claim one folder, stop for long, crash and claim again. Two that keep the folder side by side, both
    /// awake, notice it within a few beats; at the end exactly one has it.
    #[test]
    fn two_owners_never_continue_side_by_side() {
        for seed in 0..2000 {
            simulate(seed);
        }
    }

    fn simulate(seed: u64) {
        let mut chance = SplitMix64(seed.wrapping_mul(0x9e37_79b9));
        let mut below = move |bound: u64| chance.next_u64() % bound;
        let volume = Volume::default();
        let claim = |host: usize, life: u64| {
            Role::Claims(Claimant::new(Holder {
                host: host.to_string(),
                pid: 1,
                started: life,
                space: String::new(),
                beat: 0,
            }))
        };
        let mut processes: Vec<Process> = (0..3)
            .map(|host| Process {
                role: claim(host, 0),
                aside: RefCell::default(),
                at: below(2000),
            })
            .collect();
        let (mut life, mut both_since) = (1, None);
        for _ in 0..4000 {
            let calm = life > 12;
            let next = (0..3).min_by_key(|i| processes[*i].at).unwrap();
            let now = processes[next].at;
            let process = &mut processes[next];
            let view = View(&volume, &process.aside);
            // Every machine is another one: nobody can ask a kernel.
            let lives = |_: &Holder| None;
            let mut pause = below(30);
            match &mut process.role {
                Role::Claims(claimant) => {
                    let at = Duration::from_millis(now);
                    match claimant.step(&view, &lives, at).unwrap() {
                        Progress::Held => {
                            let own = claimant.own.clone();
                            process.role = Role::Keeps(Keeper { own, due: false });
                        }
                        Progress::Later => pause += 200,
                        Progress::Refused(_) => {
                            // The user tries again later.
                            process.role = claim(next, life);
                            pause += 1000 + below(5000);
                            life += u64::from(!calm);
                        }
                    }
                }
                Role::Keeps(keeper) => {
                    let lost = keeper.step(&view).unwrap().is_some();
                    pause += if keeper.due { 0 } else { 1000 };
                    if lost {
                        process.role = Role::Gone;
                    }
                }
                Role::Gone => {
                    process.role = claim(next, life);
                    life += u64::from(!calm);
                }
            }
            if !calm && below(30) == 0 {
                pause += below(20_000);
            }
            if !calm && below(60) == 0 {
                process.role = Role::Gone;
                life += 1;
            }
            process.at = now + pause;
            // Awake: not in the middle of a long stop.
            let awake = |p: &&Process| matches!(p.role, Role::Keeps(_)) && p.at < now + 1500;
            let keepers = processes.iter().filter(awake).count();
            both_since = if keepers > 1 {
                both_since.or(Some(now))
            } else {
                None
            };
            let both = both_since.map_or(0, |since| now - since);
            assert!(both < 4000, "seed {seed}: two owners for {both} ms");
        }
        let keepers = processes
            .iter()
            .filter(|p| matches!(p.role, Role::Keeps(_)));
        assert_eq!(keepers.count(), 1, "seed {seed}");
    }
}
