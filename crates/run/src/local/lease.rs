//! One owner per folder: a lease that works on NFS, where locks do not hold across machines and clocks differ.
//!
//! The owner's file `owner.json` is created exclusively, names its owner, and is rewritten every second. A claimant that
//! can see the owner's process asks the kernel whether it still runs; a claimant on another machine, or in another
//! container of the same machine, watches whether the file changes.
//! The file of an owner that has ended is first moved away and then read again: if it is not the file that was judged,
//! another claimant was faster, and the file is put back. An owner writes only into the file in which it has just read its
//! own name, wherever that file is now. So an owner that was stopped while another process took over, and has perhaps
//! ended since, finds the other's name or no file, and ends; it never takes the folder back. Only a file that a claimant
//! has moved away and not put back, because it crashed, is created again.
//!
//! Servers and trainers know the lease of their run ([`Lease`]) and check it before they write results: the runner alone
//! may be stopped. Between such a check and the rename that follows it a process may still be stopped for long.
//!
//! [`Claimant`] and [`Keeper`] decide, one operation on the file at a time; a simulation runs them against each other.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::claim::ClaimError;
use super::holder::{Holder, in_use, leaves_children};
use super::proc_files::start_time;

/// An owner rewrites its file this often.
const BEAT: Duration = Duration::from_secs(1);
/// An owner whose process is not visible, and whose file does not change for this long, counts as ended.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// Between two looks of a claimant that watches.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// How long a process of the run waits for a file that is being written or judged.
const DOUBT: Duration = Duration::from_secs(3);

/// The environment variable through which servers and trainers receive the lease of their run.
pub const LEASE_VARIABLE: &str = "CANOE_RUN_LEASE";

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
    /// Writes into the file that was last read, wherever it is now.
    fn rewrite(&self, holder: &Holder) -> io::Result<()>;
    /// Whether a claimant has moved this holder's file away to judge it, and not decided yet.
    fn is_judged(&self, holder: &Holder) -> io::Result<bool>;
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

/// Why a run no longer owns its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Another process has taken it over.
    To(Holder),
    /// The owner's file is gone: another process took the folder over and has ended, or a user removed the file.
    Gone,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::To(Holder { host, pid, .. }) => {
                write!(f, "process {pid} on {host} has taken the folder over")
            }
            Self::Gone => f.write_str(
                "owner.json is gone, so another run has taken the folder over and ended, or the file was removed",
            ),
        }
    }
}

/// The next operation of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    /// At the next beat.
    Look,
    /// The file has this owner's name.
    Write,
    /// There was no file.
    AskWhetherJudged,
    /// There was no file and no judge, who may have put it back in between.
    LookAgain,
    Recreate,
}

/// The owner of a folder.
struct Keeper {
    own: Holder,
    next: Duty,
}

impl Keeper {
    fn new(own: Holder) -> Self {
        let next = Duty::Look;
        Self { own, next }
    }

    /// Does one operation; returns the loss of the folder, after which the owner must write nothing.
    fn step(&mut self, file: &dyn LeaseFile) -> io::Result<Option<Loss>> {
        self.next = match std::mem::replace(&mut self.next, Duty::Look) {
            again @ (Duty::Look | Duty::LookAgain) => match file.read()? {
                Found::Somebody(holder) if holder.is(&self.own) => Duty::Write,
                Found::Somebody(holder) => return Ok(Some(Loss::To(holder))),
                Found::Nobody if again == Duty::LookAgain => return Ok(Some(Loss::Gone)),
                Found::Nobody => Duty::AskWhetherJudged,
                Found::Unclear => Duty::Look,
            },
            Duty::Write => {
                self.own.beat += 1;
                file.rewrite(&self.own)?;
                Duty::Look
            }
            Duty::AskWhetherJudged => match file.is_judged(&self.own)? {
                true => Duty::Recreate,
                false => Duty::LookAgain,
            },
            Duty::Recreate => {
                file.create(&self.own)?;
                Duty::Look
            }
        };
        Ok(None)
    }
}

/// The file on a volume.
struct OnVolume {
    path: PathBuf,
    aside: PathBuf,
    /// The file that was last read.
    last: RefCell<Option<File>>,
}

/// The end of the name under which a claimant judges a file.
const JUDGED: &str = ".gone";

impl OnVolume {
    fn new(output: &Path, own: &Holder) -> Self {
        let path = output.join("owner.json");
        // Of two containers, each may have a process 1.
        let (pid, started) = (own.pid, own.started);
        let aside = path.with_extension(format!("{pid}-{started}{JUDGED}"));
        Self {
            path,
            aside,
            last: RefCell::default(),
        }
    }

    /// The files that claimants judge, or that they left when they crashed.
    fn judged(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("owner.") && name.ends_with(JUDGED)
        })
    }

    fn open(&self) -> io::Result<File> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            // Another user's file can only be judged.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&self.path),
            opened => opened,
        }
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
        let mut last = self.last.borrow_mut();
        *last = None;
        let text = self.open().and_then(|mut file| {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            *last = Some(file);
            Ok(text)
        });
        meaning(text)
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
        // A link, unlike a rename, does not replace what is there. Not every volume has links.
        if let Err(error) = fs::hard_link(&self.aside, &self.path)
            && error.kind() != io::ErrorKind::AlreadyExists
            && let Ok(Found::Somebody(holder)) = meaning(fs::read(&self.aside))
        {
            // If it fails, the owner creates its file again.
            let _ = self.create(&holder);
        }
        let _ = fs::remove_file(&self.aside);
        Ok(())
    }

    fn rewrite(&self, holder: &Holder) -> io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        match &*self.last.borrow() {
            Some(file) => {
                // The text grows with the beat, so no end of an older one is left.
                file.write_all_at(&text, 0)?;
                file.sync_data()
            }
            None => Ok(()),
        }
    }

    fn is_judged(&self, holder: &Holder) -> io::Result<bool> {
        let is_own = |path: PathBuf| matches!(meaning(fs::read(path)), Ok(Found::Somebody(found)) if found.is(holder));
        Ok(self.judged().any(is_own))
    }
}

/// The lease of a run as its servers and trainers know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    folder: PathBuf,
    owner: Holder,
}

/// The run that this process belongs to no longer owns the folder.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} no longer belongs to this run, because it was stopped for too long: {loss}; nothing more is written there",
    folder.display()
)]
pub struct LeaseLost {
    folder: PathBuf,
    loss: Loss,
}

impl Lease {
    /// The value of [`LEASE_VARIABLE`].
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the value of [`LEASE_VARIABLE`]; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether this is the lease on that folder.
    pub fn is_of(&self, output: &Path) -> bool {
        fs::canonicalize(&self.folder).is_ok_and(|own| Some(own) == fs::canonicalize(output).ok())
    }

    /// Fails if the folder belongs to another process or to none. A file that is being judged or cannot be read is waited
    /// for.
    pub fn check(&self) -> Result<(), LeaseLost> {
        let lost = |loss| LeaseLost {
            folder: self.folder.clone(),
            loss,
        };
        let file = OnVolume::new(&self.folder, &self.owner);
        let (begun, mut absent) = (Instant::now(), false);
        loop {
            match file.read() {
                Ok(Found::Somebody(holder)) if holder.is(&self.owner) => return Ok(()),
                Ok(Found::Somebody(holder)) => return Err(lost(Loss::To(holder))),
                Ok(Found::Nobody) if !file.is_judged(&self.owner).unwrap_or(true) => {
                    if std::mem::replace(&mut absent, true) {
                        return Err(lost(Loss::Gone));
                    }
                }
                _ if begun.elapsed() >= DOUBT => return Err(lost(Loss::Gone)),
                _ => thread::sleep(LOOK / 10),
            }
        }
    }
}

/// The claim on a folder; dropping it releases the folder.
#[derive(Debug)]
pub struct Owner {
    path: PathBuf,
    lease: Lease,
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
        true => {
            let seen = in_use(&own, &first);
            Err(ClaimError::owned(output.to_owned(), Some(first), seen))
        }
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
    /// Claims a folder that exists, for this process on `host`. `on_loss` is called if another process has taken the folder
    /// over, because this one was stopped for too long: it must end at once and write nothing.
    pub fn claim(
        output: &Path,
        host: &str,
        on_loss: impl Fn(&Loss) + Send + 'static,
    ) -> Result<Owner, ClaimError> {
        let own = Holder::own(host);
        let file = OnVolume::new(output, &own);
        let failed = |source| ClaimError::File {
            action: "write",
            path: output.join("owner.json"),
            source,
        };
        let lives = |holder: &Holder| match own.sees(holder) {
            Some(false) => Some(leaves_children(holder)),
            lives => lives,
        };
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
                    let seen = holder.as_ref().and_then(|holder| in_use(&own, holder));
                    return Err(ClaimError::owned(folder, holder, seen));
                }
            }
        }
        // Nobody needs the files that were moved away; an earlier owner would find its name in them.
        for path in file.judged() {
            let _ = fs::remove_file(path);
        }
        Self::keep(output, file, own, on_loss).map_err(failed)
    }

    /// The lease, for the processes of the run.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the folder is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn keep(
        output: &Path,
        file: OnVolume,
        own: Holder,
        on_loss: impl Fn(&Loss) + Send + 'static,
    ) -> io::Result<Owner> {
        let (stop, lost) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (stopped, gone, path) = (stop.clone(), lost.clone(), file.path.clone());
        let lease = Lease {
            folder: output.to_owned(),
            owner: own.named(),
        };
        let thread = thread::Builder::new()
            .name("owner".to_owned())
            .spawn(move || {
                let mut keeper = Keeper::new(own);
                while !stopped.load(Ordering::Acquire) {
                    thread::park_timeout(BEAT);
                    loop {
                        match keeper.step(&file) {
                            Ok(Some(loss)) => {
                                gone.store(true, Ordering::Release);
                                on_loss(&loss);
                                return;
                            }
                            Ok(None) if keeper.next != Duty::Look => {}
                            // A disk that is full now may have room at the next beat.
                            Ok(None) | Err(_) => break,
                        }
                    }
                }
            })?;
        Ok(Owner {
            path,
            lease,
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
        if !self.is_lost() && self.lease.check().is_ok() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proc_files::state;
    use super::*;
    use std::cell::Cell;
    use words::random::SplitMix64;

    fn nobody(_: &Loss) {}

    #[test]
    fn a_folder_in_use_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        check_free(folder.path(), "here").unwrap();
        let owner = Owner::claim(folder.path(), "here", nobody).unwrap();
        check_free(folder.path(), "here").unwrap_err();
        drop(owner);
        check_free(folder.path(), "here").unwrap();
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
        let send = move |loss: &Loss| drop(send.send(loss.clone()));
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
        assert!(matches!(by, Some(Loss::To(by)) if by.host == "there"));
        assert!(owner.is_lost() && owner.lease().check().is_err());
        drop(owner);
        assert!(path.exists(), "it belongs to the other");
    }

    #[test]
    fn an_owner_whose_file_is_gone_is_told_and_does_not_take_the_folder_back() {
        let folder = tempfile::tempdir().unwrap();
        let (send, told) = std::sync::mpsc::channel();
        let send = move |loss: &Loss| drop(send.send(loss.clone()));
        let owner = Owner::claim(folder.path(), "here", send).unwrap();
        let lease = Lease::parse(&owner.lease().text()).unwrap();
        lease.check().unwrap();
        fs::remove_file(folder.path().join("owner.json")).unwrap();
        let lost = lease.check().unwrap_err().to_string();
        assert!(lost.contains("owner.json is gone"), "{lost}");
        let loss = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(loss, Loss::Gone);
        drop(owner);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_a_claimant_moved_away_before_it_crashed_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::claim(folder.path(), "here", nobody).unwrap();
        let (path, aside) = (
            folder.path().join("owner.json"),
            folder.path().join("owner.7-7.gone"),
        );
        fs::rename(&path, aside).unwrap();
        let mut looks = (0..12_000).map(|_| thread::sleep(Duration::from_millis(5)));
        assert!(looks.any(|()| path.exists()));
        owner.lease().check().unwrap();
        assert!(!owner.is_lost());
    }

    #[test]
    fn a_stopped_owner_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        while state(child.id()).as_deref() != Some("T") {
            thread::sleep(Duration::from_millis(5));
        }
        let holder = Holder {
            pid: child.id(),
            started: start_time(child.id()).unwrap(),
            ..Holder::own("here")
        };
        let text = serde_json::to_vec(&holder).unwrap();
        fs::write(folder.path().join("owner.json"), text).unwrap();
        let error = Owner::claim(folder.path(), "here", nobody).unwrap_err();
        let text = error.to_string();
        let wake = format!("kill -CONT {}", child.id());
        assert!(
            text.contains("is stopped") && text.contains(&wake),
            "{text}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A file with a name that does not change when the file is moved.
    #[derive(Clone)]
    struct Inode {
        number: u64,
        holder: Holder,
    }

    /// A volume that all machines see.
    #[derive(Default)]
    struct Volume {
        file: RefCell<Option<Inode>>,
        /// What each machine has moved away.
        asides: [RefCell<Option<Inode>>; 3],
        created: Cell<u64>,
        /// What each machine has read last.
        last: [Cell<u64>; 3],
    }

    /// One machine's view.
    struct View<'a>(&'a Volume, usize);

    fn found(inode: Option<&Inode>) -> Found {
        inode.map_or(Found::Nobody, |inode| Found::Somebody(inode.holder.clone()))
    }

    impl LeaseFile for View<'_> {
        fn read(&self) -> io::Result<Found> {
            let file = self.0.file.borrow();
            self.0.last[self.1].set(file.as_ref().map_or(0, |inode| inode.number));
            Ok(found(file.as_ref()))
        }

        fn create(&self, holder: &Holder) -> io::Result<bool> {
            let mut file = self.0.file.borrow_mut();
            let free = file.is_none();
            if free {
                let number = self.0.created.get() + 1;
                self.0.created.set(number);
                let holder = holder.clone();
                *file = Some(Inode { number, holder });
            }
            Ok(free)
        }

        fn take_away(&self) -> io::Result<Found> {
            let taken = self.0.file.borrow_mut().take();
            if taken.is_some() {
                *self.0.asides[self.1].borrow_mut() = taken.clone();
            }
            Ok(found(taken.as_ref()))
        }

        fn put_back(&self) -> io::Result<()> {
            let mine = self.0.asides[self.1].borrow_mut().take();
            let mut file = self.0.file.borrow_mut();
            if file.is_none() {
                *file = mine;
            }
            Ok(())
        }

        fn rewrite(&self, holder: &Holder) -> io::Result<()> {
            let last = self.0.last[self.1].get();
            for place in self.0.asides.iter().chain([&self.0.file]) {
                if let Some(inode) = place.borrow_mut().as_mut().filter(|i| i.number == last) {
                    inode.holder = holder.clone();
                }
            }
            Ok(())
        }

        fn is_judged(&self, holder: &Holder) -> io::Result<bool> {
            let is_own = |aside: &RefCell<Option<Inode>>| {
                aside.borrow().as_ref().is_some_and(|i| i.holder.is(holder))
            };
            Ok(self.0.asides.iter().any(is_own))
        }
    }

    enum Role {
        Claims(Claimant),
        Keeps(Keeper),
        Gone,
    }

    struct Process {
        role: Role,
        /// Counts the claims of all machines that succeeded, until this one did.
        era: u64,
        /// When it does its next operation.
        at: u64,
    }

    /// Three machines claim one folder, stop for long, crash, end in order and claim again. Two that keep the folder side by
    /// side, both awake, notice it within a few beats, and so does one that another has replaced and that is alone again
    /// because the other has ended; at the end exactly one has it.
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
                era: 0,
                at: below(2000),
            })
            .collect();
        let (mut life, mut both_since, mut era) = (1, None, 0);
        let mut replaced_since = [None; 3];
        for _ in 0..4000 {
            let calm = life > 12;
            let next = (0..3).min_by_key(|i| processes[*i].at).unwrap();
            let now = processes[next].at;
            let process = &mut processes[next];
            let view = View(&volume, next);
            // Every machine is another one: nobody can ask a kernel.
            let lives = |_: &Holder| None;
            let mut pause = below(30);
            match &mut process.role {
                Role::Claims(claimant) => {
                    let at = Duration::from_millis(now);
                    match claimant.step(&view, &lives, at).unwrap() {
                        Progress::Held => {
                            process.role = Role::Keeps(Keeper::new(claimant.own.clone()));
                            era += 1;
                            process.era = era;
                            for aside in &volume.asides {
                                aside.take();
                            }
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
                    let looks = keeper.next == Duty::Look;
                    pause += if looks { 1000 } else { 0 };
                    let ends = !calm && looks && below(20) == 0;
                    if ends && view.read().unwrap() == Found::Somebody(keeper.own.clone()) {
                        volume.file.take();
                    }
                    if lost || ends {
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
            for (process, since) in processes.iter().zip(&mut replaced_since) {
                let replaced = awake(&process) && process.era < era;
                *since = replaced.then(|| since.unwrap_or(now));
                let long = since.map_or(0, |since| now - since);
                assert!(
                    long < 4000,
                    "seed {seed}: replaced and continues for {long} ms"
                );
            }
        }
        let keepers = processes
            .iter()
            .filter(|p| matches!(p.role, Role::Keeps(_)));
        assert_eq!(keepers.count(), 1, "seed {seed}");
    }
}
