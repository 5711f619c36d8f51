//! `canoe new DIR`: writes a minimal job to start from: configuration, provider, data and a test.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use words::random::SplitMix64;

use crate::exit::Exit;

/// Arguments of `canoe new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The folder to create; it must not exist, or be empty.
    directory: PathBuf,
}

/// The files that are the same in every new job.
const FILES: [(&str, &str); 4] = [
    (
        "model/trainer_config.py",
        include_str!("new/trainer_config.py"),
    ),
    ("model/provider.py", include_str!("new/provider.py")),
    ("test_job.py", include_str!("new/test_job.py")),
    ("README.md", include_str!("new/README.md")),
];

/// Samples for training and for tests.
const SAMPLES: [(&str, u32); 2] = [("train", 2000), ("test", 500)];

pub(crate) fn run(args: &NewArgs) -> anyhow::Result<Exit> {
    let folder = &args.directory;
    anyhow::ensure!(
        !folder.is_file(),
        "{} is a file; name a folder that does not exist yet",
        folder.display()
    );
    let used = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    anyhow::ensure!(
        !used,
        "{} exists and is not empty; name a folder that does not exist yet",
        folder.display()
    );
    for (name, text) in FILES {
        write(&folder.join(name), text)?;
    }
    let mut random = SplitMix64(7);
    for (name, samples) in SAMPLES {
        let lines: String = (0..samples).map(|_| sample(&mut random)).collect();
        write(&folder.join(format!("data/{name}.txt")), &lines)?;
        let list = format!("data/{name}.txt\n");
        write(&folder.join(format!("data/{name}.list")), &list)?;
    }
    println!(
        "wrote {}: a network, a data provider, {} samples and a test",
        folder.display(),
        SAMPLES[0].1 + SAMPLES[1].1
    );
    println!("try: canoe run {}", words::shell::word(folder));
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// A point of the plane; its class is whether it lies inside a circle, and one in twenty has the wrong one.
fn sample(random: &mut SplitMix64) -> String {
    let mut number = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let (x, y) = (number() * 2.0 - 1.0, number() * 2.0 - 1.0);
    let inside = x * x + y * y < 0.6;
    let label = inside != (number() < 0.05);
    format!("{} {x:.4} {y:.4}\n", u8::from(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("job");
        let args = NewArgs { directory };
        run(&args).unwrap();
        let again = run(&args).unwrap_err().to_string();
        assert!(again.contains("is not empty"), "{again}");
        let lines = fs::read_to_string(args.directory.join("data/train.txt")).unwrap();
        assert_eq!(lines.lines().count(), 2000);
        let ones = lines.lines().filter(|line| line.starts_with('1')).count();
        assert!((600..1400).contains(&ones), "both classes occur: {ones}");
    }
}
