//! Every kind of process is killed and stopped at every moment of a job, in real processes: each run ends with exit code
//! 0 and with the bytes of an undisturbed run, in every file of every pass directory. Once on a plain file system and once
//! on one with the manners of NFS.
//!
//! The moments are fail points (`CANOE_FAIL_POINTS`, docs/reliability.md): the process whose moment it is waits there
//! while the victims are killed or stopped. `MATRIX=saving` runs the cases whose name contains the word.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::cases::check_all;
use common::run::{DEADLINE, Run, signal};
use common::{BY_ROW, Folder, images, reversal, succeeded};

const CONFIG: &str = "trainer_config.emb.py";

/// A moment: the process that is at the point, the point, and for how many times it has reached it.
const MOMENTS: [(&str, &str, u32); 8] = [
    ("trainer-1", "joining", 1),
    ("trainer-1", "pulling", 3),
    ("trainer-0", "pushing", 4),
    ("pserver-1", "applying", 5),
    ("pserver-0", "snapshot", 2),
    ("trainer-0", "testing", 1),
    ("trainer-0", "saving", 1),
    ("trainer-0", "finishing", 1),
];

/// Moments of a job with recurrent groups, whose model is so small that server 0 alone holds it.
const GROUP_MOMENTS: [(&str, &str, u32); 3] = [
    ("trainer-1", "pushing", 2),
    ("pserver-0", "applying", 3),
    ("trainer-0", "saving", 1),
];

/// Moments of a job with batch normalisation. A batch pushes six tables, so the job is inside a pass, and most often
/// rolls back to a snapshot.
const IMAGE_MOMENTS: [(&str, &str, u32); 5] = [
    ("trainer-0", "pushing", 20),
    ("trainer-1", "pushing", 33),
    ("pserver-0", "applying", 27),
    ("trainer-0", "testing", 1),
    ("trainer-0", "saving", 1),
];

/// Who is disturbed.
const VICTIMS: [(&str, &[&str]); 4] = [
    ("server", &["server_id=1"]),
    ("trainer 0", &["--trainer_id=0"]),
    ("other trainer", &["--trainer_id=1"]),
    (
        "all",
        &[
            "server_id=0",
            "server_id=1",
            "--trainer_id=0",
            "--trainer_id=1",
        ],
    ),
];

/// Who is disturbed besides, where one server holds the model.
const HOLDER: (&str, &[&str]) = ("holder", &["server_id=0"]);

/// A process that is stopped for this long counts as lost (`--peer-timeout=1`).
const STOPPED: Duration = Duration::from_millis(1600);

#[derive(Clone, Copy)]
struct Case {
    moment: (&'static str, &'static str, u32),
    victims: (&'static str, &'static [&'static str]),
    kill: bool,
}

impl Case {
    fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for moment in MOMENTS {
            for victims in VICTIMS {
                for kill in [true, false] {
                    cases.push(Case {
                        moment,
                        victims,
                        kill,
                    });
                }
            }
        }
        cases
    }

    fn name(&self) -> String {
        let what = if self.kill { "SIGKILL" } else { "SIGSTOP" };
        format!("{} × {} × {what}", self.victims.0, self.moment.1)
    }
}

/// The job of all cases, and what an undisturbed run saves.
struct Job {
    folder: Folder,
    config: &'static str,
    nodes: u32,
    wanted: BTreeMap<PathBuf, Vec<u8>>,
}

impl Job {
    fn new() -> Job {
        let folder = Folder::with_demo(200);
        folder.vary(CONFIG, CONFIG, &[BY_ROW, ("else 128", "else 16")]);
        succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
        Job::undisturbed(folder, CONFIG, 2)
    }

    /// Recurrent groups on some number of nodes.
    fn of_groups(nodes: u32) -> Job {
        let folder = reversal::job();
        succeeded(&folder.canoe(&["data", "split", "job", &format!("--shards={nodes}")]));
        Job::undisturbed(folder, "quick_start/c.py", nodes)
    }

    /// Batch normalisation on two nodes.
    fn of_images() -> Job {
        let folder = images::job();
        succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
        Job::undisturbed(folder, images::CONFIG, 2)
    }

    fn undisturbed(folder: Folder, config: &'static str, nodes: u32) -> Job {
        let job = Job {
            folder,
            config,
            nodes,
            wanted: BTreeMap::new(),
        };
        let folder = job.copy();
        job.start(&folder, &[]).wait(&folder);
        let wanted = saved(&folder);
        assert!(wanted.contains_key(Path::new("pass-00001/done")));
        Job { wanted, ..job }
    }

    /// A folder of its own for a case.
    fn copy(&self) -> Folder {
        let folder = Folder::empty();
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .args([self.folder.path("job"), folder.path("job")])
            .status();
        assert!(copied.unwrap().success());
        folder
    }

    fn start(&self, folder: &Folder, variables: &[(&str, String)]) -> Run {
        let nodes = format!("--nodes={}", self.nodes);
        let args = [&nodes, "--config", self.config, "--passes=2", "--watch=off"];
        let more = ["--snapshot-period=2", "--keep-going", "--peer-timeout=1"];
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        Run::start(folder, &[&args[..], &more].concat(), &variables)
    }

    fn check(&self, case: Case, layer: Option<&Path>) -> Result<(), String> {
        let folder = self.copy();
        let points = folder.path("points");
        fs::create_dir(&points).unwrap();
        let (process, point, count) = case.moment;
        fs::write(points.join(format!("{process}.{point}")), count.to_string()).unwrap();
        let reached = points.join(format!("{process}.{point}.reached"));
        let (points, root) = (text(&points), text(&folder.path("job")));
        let mut variables = vec![("CANOE_FAIL_POINTS", points)];
        if let Some(layer) = layer {
            variables.push(("LD_PRELOAD", text(layer)));
            variables.push(("NFS_ROOT", root));
        }
        let mut run = self.start(&folder, &variables);
        let begun = Instant::now();
        while !reached.exists() {
            if begun.elapsed() > DEADLINE || run.is_over() {
                return Err(format!("the moment does not come\n{}", story(&folder)));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let victims: Vec<i32> = case.victims.1.iter().filter_map(|v| run.find(v)).collect();
        if case.kill {
            victims.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
            fs::remove_file(&reached).unwrap();
        } else {
            victims.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
            fs::remove_file(&reached).unwrap();
            std::thread::sleep(STOPPED);
            victims.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
        }
        let begun = Instant::now();
        while !run.is_over() {
            if begun.elapsed() > DEADLINE {
                let _ = run.0.kill();
                return Err(format!("the run hangs\n{}", story(&folder)));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = run.0.wait().unwrap();
        if !code.success() {
            return Err(format!("{code}\n{}", story(&folder)));
        }
        let got = saved(&folder);
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        if names(&got) != names(&self.wanted) {
            let (got, wanted) = (names(&got), names(&self.wanted));
            return Err(format!("{got:?} instead of {wanted:?}\n{}", story(&folder)));
        }
        let differs = self
            .wanted
            .iter()
            .find(|(path, bytes)| got[*path] != **bytes);
        match differs {
            Some((path, _)) => Err(format!("{} differs\n{}", path.display(), story(&folder))),
            None => Ok(()),
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Every file of every pass directory, hidden ones as well.
fn saved(folder: &Folder) -> BTreeMap<PathBuf, Vec<u8>> {
    fn visit(root: &Path, path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
        if path.is_file() {
            let name = path.strip_prefix(root).unwrap().to_owned();
            files.insert(name, fs::read(path).unwrap());
            return;
        }
        for entry in fs::read_dir(path).unwrap() {
            visit(root, &entry.unwrap().path(), files);
        }
    }
    let output = folder.path("job/output");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&output).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.trim_start_matches('.').starts_with("pass-") {
            visit(&output, &path, &mut files);
        }
    }
    files
}

/// What the run and its processes said.
fn story(folder: &Folder) -> String {
    let mut story = fs::read_to_string(folder.path("run.log")).unwrap_or_default();
    for node in 0..3 {
        for log in ["server.log", "train.log"] {
            let path = folder.path(&format!("job/output/node_{node}/{log}"));
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            story.push_str(&format!("\n--- node {node} {log}\n{tail}\n"));
        }
    }
    story
}

/// Runs cases of a job, a few at a time.
fn run_all(job: &Job, cases: Vec<Case>, layer: Option<&Path>) {
    let wanted = std::env::var("MATRIX").unwrap_or_default();
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| case.name().contains(&wanted))
        .collect();
    check_all(&cases, Case::name, |case| job.check(*case, layer));
}

#[test]
fn nothing_is_lost_whoever_is_lost_whenever() {
    run_all(&Job::new(), Case::all(), None);
}

#[test]
fn nothing_is_lost_on_nfs() {
    let folder = Folder::empty();
    let layer = common::nfs_layer(&folder);
    run_all(&Job::new(), Case::all(), Some(&layer));
}

/// Kills of everybody, the holder of the model as well, at these moments.
fn kills(moments: &[(&'static str, &'static str, u32)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for moment in moments {
        for victims in VICTIMS.into_iter().chain([HOLDER]) {
            cases.push(Case {
                moment: *moment,
                victims,
                kill: true,
            });
        }
    }
    cases
}

#[test]
fn nothing_of_a_recurrent_group_is_lost_on_two_and_three_nodes() {
    for nodes in [2, 3] {
        run_all(&Job::of_groups(nodes), kills(&GROUP_MOMENTS), None);
    }
}

#[test]
fn nothing_of_moving_statistics_is_lost() {
    run_all(&Job::of_images(), kills(&IMAGE_MOMENTS), None);
}
