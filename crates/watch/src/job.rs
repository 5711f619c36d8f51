//! Follows the folder of a job: each call of [`WatchedJob::look`] reads what is new in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::follow::Follow;
use crate::history::{History, RecordSource};
use crate::state_file;
use words::event::EventLine;
use words::process::Role;
use words::status::Status;

/// A call within this time after the last one reads nothing.
const PAUSE: Duration = Duration::from_millis(400);

/// More nodes than this are not shown.
const NODES: u32 = 4096;

/// A state file that is older than this, in seconds, at the first look does not belong to a running process.
const FRESH: f64 = 15.0;

/// A folder that has no record of a job.
#[derive(Debug, thiserror::Error)]
#[error("{path} {}", match path.exists() {
    true => "holds no record of a job: a job folder has output/node_0/train.events.jsonl once a trainer has started",
    false => "does not exist; give the folder of a job that has been started",
})]
pub struct NoJob {
    path: PathBuf,
}

/// The state of a process, and since when it has not changed.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its last status.
    pub status: Status,
    changed: Instant,
    /// Its age in seconds, if it was already old at the first look; else 0.
    stale: f64,
}

impl Seen {
    /// Seconds since the process last changed its state.
    pub fn silent(&self, now: Instant) -> f64 {
        self.stale + now.saturating_duration_since(self.changed).as_secs_f64()
    }
}

/// A job that is being watched.
#[derive(Debug)]
pub struct WatchedJob {
    output: PathBuf,
    folder: PathBuf,
    name: String,
    /// What its records contain.
    pub history: History,
    /// The present state of each process.
    pub states: BTreeMap<(u32, Role), Seen>,
    files: BTreeMap<PathBuf, (RecordSource, Follow)>,
    looked: Option<Instant>,
    /// Whether the process that ran it is known to have crashed.
    abandoned: bool,
    /// Grows when all files were read again from the start.
    readings: u64,
}

impl WatchedJob {
    /// The job of a folder: the job folder, or its output folder.
    pub fn open(folder: &Path) -> Result<WatchedJob, NoJob> {
        let inner = folder.join("output");
        let output = [inner.as_path(), folder]
            .into_iter()
            .find(|place| has_record(place));
        match output {
            Some(output) => Ok(WatchedJob::at(output, folder)),
            None => Err(NoJob {
                path: folder.to_owned(),
            }),
        }
    }

    /// The job that writes, or will write, into this output folder.
    pub fn at(output: &Path, folder: &Path) -> WatchedJob {
        let absolute = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let name = absolute.file_name().unwrap_or(absolute.as_os_str());
        let name = name.to_string_lossy().into_owned();
        WatchedJob {
            output: output.to_owned(),
            name,
            folder: absolute,
            history: History::default(),
            states: BTreeMap::new(),
            files: BTreeMap::new(),
            looked: None,
            abandoned: false,
            readings: 1,
        }
    }

    /// The folder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The output folder.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// Sets whether the runner, which leaves a file in the output folder, has crashed.
    pub fn set_abandoned(&mut self, abandoned: bool) {
        self.abandoned = abandoned;
    }

    /// Whether the runner has crashed, so that the record has no end.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned && self.history.end.is_none()
    }

    /// Changes when a page must discard everything it has: the files were read again, or another run has begun.
    pub fn incarnation(&self) -> u64 {
        self.readings + self.history.replaced()
    }

    /// The folder that `canoe dashboard` takes to show this job.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads what is new.
    pub fn look(&mut self, now: Instant, unix: f64) {
        if self
            .looked
            .is_some_and(|at| now.saturating_duration_since(at) < PAUSE)
        {
            return;
        }
        self.looked = Some(now);
        let nodes = self.nodes();
        self.find_files(&nodes);
        if self.files.values().any(|(_, follow)| follow.is_other()) {
            self.files.clear();
            self.states.clear();
            self.readings = self.incarnation() + 1;
            self.history = History::default();
            self.find_files(&nodes);
        }
        for (source, follow) in self.files.values_mut() {
            let history = &mut self.history;
            // A file with a read error now may be readable at the next look.
            let _ = follow.look(&mut |line| {
                if let Some(line) = EventLine::parse(line) {
                    history.take(*source, line);
                }
            });
        }
        self.read_states(&nodes, now, unix);
    }

    fn nodes(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.output).into_iter().flatten().flatten();
        let mut nodes: Vec<u32> = entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let number = name.to_str()?.strip_prefix("node_")?.parse().ok()?;
                (number < NODES).then_some(number)
            })
            .collect();
        nodes.sort_unstable();
        nodes
    }

    fn find_files(&mut self, nodes: &[u32]) {
        let mut add = |path: PathBuf, source: RecordSource| {
            self.files
                .entry(path)
                .or_insert_with_key(|path| (source, Follow::new(path)));
        };
        add(self.output.join("events.jsonl"), RecordSource::Runner);
        for node in nodes {
            let folder = self.output.join(format!("node_{node}"));
            let trainer = RecordSource::Process(*node, Role::Trainer);
            add(folder.join("train.events.jsonl"), trainer);
            let server = RecordSource::Process(*node, Role::Pserver);
            add(folder.join("server.events.jsonl"), server);
            add(folder.join("node.events.jsonl"), RecordSource::Node(*node));
        }
    }

    fn read_states(&mut self, nodes: &[u32], now: Instant, unix: f64) {
        for node in nodes {
            for (role, file) in [
                (Role::Trainer, "train.beat.json"),
                (Role::Pserver, "server.beat.json"),
            ] {
                let path = self.output.join(format!("node_{node}")).join(file);
                let Some(status) = state_file::read(&path) else {
                    continue;
                };
                if self.history.is_other_run(&status.run) {
                    self.states.remove(&(*node, role));
                    continue;
                }
                let stale = match self.states.get(&(*node, role)) {
                    Some(seen) if seen.status == status => continue,
                    Some(_) => 0.0,
                    None => Some(unix - status.t)
                        .filter(|age| *age > FRESH)
                        .unwrap_or(0.0),
                };
                let seen = Seen {
                    status,
                    changed: now,
                    stale,
                };
                self.states.insert((*node, role), seen);
            }
        }
    }

    /// The log of a process.
    pub fn log(&self, node: u32, role: Role) -> PathBuf {
        let name = match role {
            Role::Trainer => "train.log",
            Role::Pserver => "server.log",
        };
        self.output.join(format!("node_{node}")).join(name)
    }

    /// The image of the network, if trainer 0 has drawn one.
    pub fn network(&self) -> io::Result<Vec<u8>> {
        read_bounded(&self.output.join("node_0").join("network.svg"), 16 << 20)
    }

    /// The configuration as it was used.
    pub fn config(&self) -> io::Result<String> {
        let text = read_bounded(&self.output.join("node_0").join("config.txt"), 1 << 20)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut text = Vec::new();
    fs::File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

fn has_record(output: &Path) -> bool {
    output.join("events.jsonl").is_file()
        || output.join("node_0").join("train.events.jsonl").is_file()
        || output.join("node_0").join("train.log").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use words::event::Event;

    #[test]
    fn a_folder_is_read_further_and_anew() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WatchedJob::open(folder.path()).is_err());
        let output = folder.path().join("output");
        let path = output.join("node_0/train.events.jsonl");
        let batch = |batch| {
            Event::Batch(words::event::Figures {
                batch,
                samples: batch,
                cost: Some(1.0),
                ..Default::default()
            })
        };
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.record(batch(1)).unwrap();
        recorder.flush().unwrap();
        let status = Status {
            t: 50.0,
            ..Status::default()
        };
        state_file::write(&status, &output.join("node_0/train.beat.json")).unwrap();
        let mut job = WatchedJob::open(folder.path()).unwrap();
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let points = |job: &WatchedJob| {
            job.history
                .series
                .values()
                .map(|s| s.points().len())
                .sum::<usize>()
        };
        job.look(begun, 51.0);
        assert_eq!(points(&job), 1);
        recorder.record(batch(2)).unwrap();
        recorder.flush().unwrap();
        job.look(begun + second, 52.0);
        assert_eq!((points(&job), job.incarnation()), (2, 1));
        let seen = &job.states[&(0, Role::Trainer)];
        assert_eq!(seen.silent(begun + 3 * second), 3.0);
        drop(Recorder::create(&path).unwrap());
        job.look(begun + 2 * second, 53.0);
        assert_eq!((points(&job), job.incarnation()), (0, 2));
        let mut late = WatchedJob::open(&output).unwrap();
        late.look(begun, 150.0);
        assert_eq!(late.states[&(0, Role::Trainer)].silent(begun), 100.0);
    }

    #[test]
    fn another_run_in_the_same_folder_has_only_its_own_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let run = |name: &str| {
            Event::Run(words::event::Run {
                run: name.to_owned(),
                ..Default::default()
            })
        };
        let state = |node: u32, run: &str| {
            let status = Status {
                t: 50.0,
                run: run.to_owned(),
                ..Status::default()
            };
            let path = output.join(format!("node_{node}/train.beat.json"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            state_file::write(&status, &path).unwrap();
        };
        let mut recorder = Recorder::create(&output.join("events.jsonl")).unwrap();
        recorder.record(run("a")).unwrap();
        recorder.flush().unwrap();
        state(0, "a");
        state(1, "a");
        let mut job = WatchedJob::open(folder.path()).unwrap();
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        job.look(begun, 51.0);
        assert_eq!((job.states.len(), job.incarnation()), (2, 1));
        recorder.record(run("b")).unwrap();
        recorder.flush().unwrap();
        state(0, "b");
        job.look(begun + second, 52.0);
        assert_eq!((job.states.len(), job.incarnation()), (1, 2));
    }
}
