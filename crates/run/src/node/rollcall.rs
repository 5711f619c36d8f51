//! With `podlist`, checks while the job runs whether the pods are still the same.
//!
//! Ids are ranks of addresses, and a replaced pod has a new address. When the list is complete again and
//! differs, every node detects this by itself, ends its processes and starts again under its new id; servers restore
//! the last snapshot, which belongs to ids and not to pods. `indexed` needs nothing of this.
//!
//! Processes that know different lists must not connect to each other: a server believes the first trainer that
//! connects. So a node writes the list that it knows to the volume while none of its processes runs, and starts
//! them only when all nodes on the list have written the same one.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::discover::Peers;
use super::patience::NotYet;

/// Between two looks at the list.
const PAUSE: Duration = Duration::from_secs(2);
/// How long the thread takes at most to notice that it must end.
const BREATH: Duration = Duration::from_millis(100);

/// The thread that compares the lists; dropping this value ends it.
#[derive(Debug)]
pub(crate) struct RollCall {
    changed: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl RollCall {
    /// Compares what `list` returns with `known`, until they differ. Incomplete lists are ignored.
    pub(crate) fn start(
        known: Peers,
        list: impl Fn() -> Result<Peers, NotYet> + Send + 'static,
    ) -> io::Result<Self> {
        let (changed, ended) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (tell, stop) = (changed.clone(), ended.clone());
        thread::Builder::new()
            .name("roll call".to_owned())
            .spawn(move || {
                while pause(&stop) {
                    if list().is_ok_and(|peers| peers != known) {
                        tell.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            })?;
        Ok(Self { changed, ended })
    }

    /// Whether a pod has been replaced.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }
}

impl Drop for RollCall {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// The lists of pods that all nodes have written to the volume.
#[derive(Debug)]
pub struct Agreement {
    folder: PathBuf,
    run: String,
}

impl Agreement {
    /// In the job's output; `token` distinguishes this run from earlier ones.
    pub fn new(output: PathBuf, token: &str) -> Self {
        Self {
            folder: output.join("peers"),
            run: super::finish::run_name(token),
        }
    }

    /// Writes the list that this node knows, and checks whether the other nodes have written the same.
    pub fn reached(&self, peers: &Peers) -> Result<(), NotYet> {
        let known = format!("{} {}", self.run, peers.hosts.join(" "));
        let path = |host: &str| self.folder.join(host);
        let own = &peers.hosts[peers.own as usize];
        let has = |host: &str| fs::read_to_string(path(host)).is_ok_and(|text| text == known);
        if !has(own) {
            self.write(&path(own), &known).map_err(|error| {
                NotYet::Later(format!("write {}: {error}", path(own).display()))
            })?;
        }
        let others: Vec<&str> = peers
            .hosts
            .iter()
            .map(String::as_str)
            .filter(|host| !has(host))
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        Err(NotYet::Later(format!(
            "{} of {} pods are running, but {} does not have the same list yet",
            peers.hosts.len(),
            peers.hosts.len(),
            others.join(", ")
        )))
    }

    fn write(&self, path: &std::path::Path, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let new = path.with_added_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, path)
    }
}

/// Pauses; `false` if the thread is to end.
fn pause(stop: &AtomicBool) -> bool {
    for _ in 0..PAUSE.as_millis() / BREATH.as_millis() {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(BREATH);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn nodes_wait_until_all_know_the_same_list() {
        let folder = tempfile::tempdir().unwrap();
        let agreement = Agreement::new(folder.path().into(), "token");
        let peers = |own: u32, hosts: [&str; 2]| Peers {
            own,
            hosts: hosts.map(str::to_owned).to_vec(),
        };
        let (old, new) = (["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.3"]);
        assert!(agreement.reached(&peers(0, old)).is_err());
        assert!(agreement.reached(&peers(1, old)).is_ok());
        assert!(agreement.reached(&peers(0, old)).is_ok());
        let waits = agreement.reached(&peers(1, new));
        assert!(
            matches!(waits, Err(NotYet::Later(text)) if text.contains("but 10.0.0.1 does not have"))
        );
        assert!(agreement.reached(&peers(0, new)).is_ok());
        let another_run = Agreement::new(folder.path().into(), "other token");
        assert!(another_run.reached(&peers(0, new)).is_err());
    }

    #[test]
    fn only_another_complete_list_counts() {
        let peers = |host: &str| Peers {
            own: 0,
            hosts: vec![host.to_owned()],
        };
        let (known, other) = (peers("10.0.0.1"), peers("10.0.0.2"));
        let calls = AtomicU32::new(0);
        let answers = [
            Ok(known.clone()),
            Err(NotYet::Later("0 of 1 pods run".into())),
            Ok(other),
        ];
        let list = move || answers[calls.fetch_add(1, Ordering::Relaxed) as usize].clone();
        let call = RollCall::start(known, list).unwrap();
        while !call.has_changed() {
            thread::sleep(BREATH);
        }
    }
}
