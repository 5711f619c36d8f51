//! Jobs on a volume that behaves like NFS (`e2e/nfs/manners.c`): no rename flags, and a file that a process has open
//! outlives its deletion and keeps its directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::run::{Run, log, signal, wait_until};
use common::{Folder, succeeded};

const CONFIG: &str = "trainer_config.lr.py";

struct Volume {
    folder: Folder,
    layer: String,
    root: String,
}

impl Volume {
    fn new() -> Volume {
        let folder = Folder::with_demo(600);
        succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
        let layer = common::nfs_layer(&folder);
        let text = |path: PathBuf| path.display().to_string();
        Volume {
            layer: text(layer),
            root: text(fs::canonicalize(folder.path("job")).unwrap()),
            folder,
        }
    }

    fn start(&self, more: &[&str]) -> Run {
        let args = ["--nodes=2", "--config", CONFIG];
        let layer = [("LD_PRELOAD", &*self.layer), ("NFS_ROOT", &*self.root)];
        Run::start(&self.folder, &[&args[..], more].concat(), &layer)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path("job/output").join(inside)
    }

    /// Hidden names of passes.
    fn hidden(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".pass-")).collect()
    }
}

fn files_left(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".nfs")).count()
}

#[test]
fn a_second_run_moves_aside_one_whose_files_are_open() {
    let volume = Volume::new();
    let args = ["--passes=2", "--snapshot-period=2", "--keep-going"];
    volume.start(&args).wait(&volume.folder);
    let wanted = volume.folder.parameters("job/output/pass-00001");
    // A reader has a model open.
    let reader = File::open(volume.path("pass-00000/done")).unwrap();
    volume.start(&args).wait(&volume.folder);
    let log = log(&volume.folder);
    assert_eq!(
        volume.folder.parameters("job/output/pass-00001"),
        wanted,
        "{log}"
    );
    let earlier = volume.folder.path("job/output-1/pass-00000/done");
    assert!(
        earlier.exists(),
        "the first results were moved aside\n{log}"
    );
    drop(reader);
}

#[test]
fn a_job_goes_back_over_a_saved_pass() {
    let volume = Volume::new();
    let quiet = [
        "--passes=20",
        "--keep=all",
        "--snapshot-period=100000",
        "--keep-going",
    ];
    volume.start(&quiet).wait(&volume.folder);
    let wanted = volume.folder.parameters("job/output/pass-00019");
    let first = volume.folder.parameters("job/output/pass-00000");
    fs::remove_dir_all(volume.path("")).unwrap();
    let mut run = volume.start(&quiet);
    let saved = volume.path("pass-00000/done");
    wait_until(&mut run, &volume.folder, "a pass", || saved.exists());
    let reader = File::open(&saved).unwrap();
    // Without the note about saved passes the job goes back to its beginning, over the pass that somebody reads.
    let note = volume.path("canoe.saved.json");
    // It is written again when the pass has appeared.
    let settled = || fs::read_to_string(&note).is_ok_and(|text| text.contains("\"writing\":null"));
    wait_until(&mut run, &volume.folder, "the note", settled);
    fs::remove_file(&note).unwrap();
    signal(run.find("server_id=1").unwrap(), libc::SIGKILL);
    run.wait(&volume.folder);
    let log = log(&volume.folder);
    // It was replaced while it was open: the job had to start again from its beginning.
    assert_eq!(volume.hidden(), [".pass-00000.gone"], "{log}");
    let left = files_left(&volume.path(".pass-00000.gone"));
    assert_eq!(left, 1, "the layer is on");
    drop(reader);
    assert_eq!(
        volume.folder.parameters("job/output/pass-00000"),
        first,
        "{log}"
    );
    assert_eq!(
        volume.folder.parameters("job/output/pass-00019"),
        wanted,
        "{log}"
    );
}
