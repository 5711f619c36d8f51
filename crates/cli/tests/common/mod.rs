//! Helpers for tests that run the real program: a small job folder, and commands in it.

#![allow(dead_code, reason = "every test file uses some of them")]

pub(crate) mod cases;
pub(crate) mod images;
pub(crate) mod reversal;
pub(crate) mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
pub(crate) const CANOE: &str = env!("CARGO_BIN_EXE_canoe");

/// Keeps the embedding of quick_start's `trainer_config.emb.py` by row; see [`Folder::vary`].
pub(crate) const BY_ROW: (&str, &str) = (
    "embedding_layer(input=words, size=128)",
    "embedding_layer(input=words, size=128, param_attr=ParamAttr(sparse_update=True))",
);

/// A folder that is deleted after the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty folder.
    pub(crate) fn empty() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// A small quick_start job in `job`.
    pub(crate) fn with_demo(train_samples: usize) -> Folder {
        let folder = Folder::empty();
        let samples = format!("--train-samples={train_samples}");
        let out = folder.canoe(&["demo", "quick_start", "job", &samples, "--test-samples=200"]);
        succeeded(&out);
        folder
    }

    /// A path in the folder.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    /// Runs canoe in the folder.
    pub(crate) fn canoe(&self, args: &[&str]) -> Output {
        self.canoe_in(".", args)
    }

    /// Runs canoe in a folder inside.
    pub(crate) fn canoe_in(&self, inside: &str, args: &[&str]) -> Output {
        Command::new(CANOE)
            .args(args)
            .current_dir(self.path(inside))
            .output()
            .unwrap()
    }

    /// Trains in the job folder with `--save_dir` named `save`.
    pub(crate) fn train(&self, config: &str, save: &str, more: &[&str]) -> Output {
        let config = format!("--config=quick_start/{config}");
        let save = format!("--save_dir={}", self.path(save).display());
        let args = ["train", &config, &save, "--dot_period=0"];
        self.canoe_in("job", &[&args[..], more].concat())
    }

    /// Writes a configuration `name` next to `original`, with some of its text replaced.
    pub(crate) fn vary(&self, original: &str, name: &str, replacements: &[(&str, &str)]) {
        let folder = self.path("job/quick_start");
        let mut text = fs::read_to_string(folder.join(original)).unwrap();
        for (from, to) in replacements {
            assert!(text.contains(from), "{original} has no {from}");
            text = text.replace(from, to);
        }
        fs::write(folder.join(name), text).unwrap();
    }

    /// Runs the job on nodes.
    pub(crate) fn nodes(&self, nodes: u32, config: &str, more: &[&str]) -> Output {
        let nodes = format!("--nodes={nodes}");
        let args = ["run", "job", &nodes, "--config", config];
        self.canoe(&[&args[..], more].concat())
    }

    /// Runs the job in one process that simulates the nodes, saved under `save`.
    pub(crate) fn played(&self, nodes: u32, config: &str, save: &str, more: &[&str]) -> Output {
        let nodes = format!("--simulate_nodes={nodes}");
        let config = format!("--config={config}");
        let save = format!("--save_dir={}", self.path(save).display());
        let args = ["train", &nodes, &config, &save, "--dot_period=0"];
        self.canoe_in("job", &[&args[..], more].concat())
    }

    /// The bytes of every parameter file of a pass directory, by name.
    pub(crate) fn parameters(&self, pass: &str) -> Vec<(String, Vec<u8>)> {
        parameters(&self.path(pass))
    }
}

/// The bytes of every parameter file of a pass directory, by name.
pub(crate) fn parameters(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with('_')
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", directory.display());
    files
}

/// Builds the layer that behaves as an NFS client does (`e2e/nfs/manners.c`).
pub(crate) fn nfs_layer(folder: &Folder) -> PathBuf {
    preload_layer(folder, "nfs/manners.c")
}

/// Builds a library of `e2e/` that is loaded into processes with `LD_PRELOAD`.
pub(crate) fn preload_layer(folder: &Folder, source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../e2e")
        .join(source);
    let layer = folder.path("layer.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&layer, &source])
        .arg("-ldl")
        .status();
    assert!(built.unwrap().success());
    layer
}

/// Checks that the exit code is 0, and shows the output if it is not.
pub(crate) fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

/// Checks that the command failed, and returns its output.
pub(crate) fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{}", said(output));
    let text = said(output);
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// The command's output on both streams.
pub(crate) fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
