//! The working directory of a node, with links to the files that v1's start script copied.
//!
//! v1's configurations open `data/train.list` relative to the working directory, and that list
//! names `data/train.txt` of this node's shard. So `output/node_<id>/work` holds a link to every
//! entry of the configuration folder, one to every other entry of the job folder, from which `canoe train` reads, and a
//! real folder `data` with a link to every entry of the shard (and of the configuration folder's own `data`, where the
//! shard has none of that name).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::layout::is_job_part;
use super::removal::remove_folder;

/// A working directory cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("prepare the working directory {path}")]
pub struct WorkdirError {
    /// The entry that failed.
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Creates `work`, in place of an existing one. Only links and folders are ever removed from it with their content.
pub fn prepare(
    work: &Path,
    job: &Path,
    config_dir: &Path,
    shard: &Path,
) -> Result<(), WorkdirError> {
    clear(work).map_err(|source| at(work, source))?;
    let data = work.join("data");
    fs::create_dir_all(&data).map_err(|source| at(&data, source))?;
    let mut links = BTreeMap::new();
    for folder in [job, config_dir] {
        for (name, path) in entries(folder)? {
            if !is_job_part(&name) && !is_private(&name) {
                links.insert(work.join(name), path);
            }
        }
    }
    let own_data = config_dir.join("data");
    let folders = if own_data.is_dir() {
        vec![own_data.as_path(), shard]
    } else {
        vec![shard]
    };
    for folder in folders {
        for (name, path) in entries(folder)? {
            if !is_shard_inside_flat(folder, shard, &name) {
                links.insert(data.join(name), path);
            }
        }
    }
    for (link, target) in links {
        symlink(&target, &link).map_err(|source| at(&link, source))?;
    }
    Ok(())
}

/// Creates `work` for data that a list names: links to the entries of the configuration folder, and of the folder to which
/// the list is relative.
pub fn prepare_listed(work: &Path, config_dir: &Path, base: &Path) -> Result<(), WorkdirError> {
    clear(work).map_err(|source| at(work, source))?;
    let mut links = BTreeMap::new();
    for folder in [base, config_dir] {
        for (name, path) in entries(folder)? {
            if name != "output" && !is_private(&name) {
                links.insert(work.join(name), path);
            }
        }
    }
    for (link, target) in links {
        symlink(&target, &link).map_err(|source| at(&link, source))?;
    }
    Ok(())
}

/// Not linked: caches and hidden entries.
fn is_private(name: &str) -> bool {
    name.starts_with('.') || name == "__pycache__"
}

/// `data/0`, `data/1` of a folder that also holds the flat data are other nodes' shards.
fn is_shard_inside_flat(folder: &Path, shard: &Path, name: &str) -> bool {
    let holds_shards = shard.parent() == Some(folder) || shard == folder;
    holds_shards && is_job_part(name)
}

fn clear(work: &Path) -> io::Result<()> {
    match fs::symlink_metadata(work) {
        Ok(meta) if meta.is_dir() => remove_folder(work)?,
        Ok(_) => fs::remove_file(work)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir_all(work)
}

fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, WorkdirError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| at(folder, source))? {
        let entry = entry.map_err(|source| at(folder, source))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

fn at(path: &Path, source: io::Error) -> WorkdirError {
    WorkdirError {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_node_sees_its_configuration_and_its_own_shard() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "q/trainer_config.py", "config");
        write(root, "dict.txt", "beside the folder of the configuration");
        write(root, "trainer_config.py", "another one");
        write(root, "q/__pycache__/x", "");
        write(root, "q/data/train.txt", "all");
        write(root, "q/data/meta.bin", "meta");
        write(root, "data/1/train.txt", "one");
        write(root, "data/1/lists/train.list", "data/train.txt");
        let work = root.join("output/node_1/work");
        for _ in 0..2 {
            prepare(&work, root, &root.join("q"), &root.join("data/1")).unwrap();
            let read = |file: &str| fs::read_to_string(work.join(file)).unwrap();
            assert_eq!(read("trainer_config.py"), "config");
            assert_eq!(read("q/trainer_config.py"), "config");
            assert_eq!(read("dict.txt"), "beside the folder of the configuration");
            assert_eq!(
                (read("data/train.txt"), read("data/meta.bin")),
                ("one".into(), "meta".into())
            );
            assert_eq!(read("data/lists/train.list"), "data/train.txt");
            assert!(!work.join("__pycache__").exists());
            fs::write(work.join("left-over"), "").unwrap();
        }
        assert!(
            root.join("data/1/train.txt").exists(),
            "clearing follows no link"
        );
    }

    #[test]
    fn a_flat_job_does_not_show_other_shards_or_itself() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for file in [
            "trainer_config.py",
            "data/train.txt",
            "data/dict.txt",
            "data/0/train.txt",
            "output/pass-00000/done",
        ] {
            write(root, file, file);
        }
        let work = root.join("output/node_0/work");
        prepare(&work, root, root, &root.join("data/0")).unwrap();
        assert_eq!(
            fs::read_to_string(work.join("data/train.txt")).unwrap(),
            "data/0/train.txt"
        );
        assert!(work.join("data/dict.txt").exists());
        assert!(!work.join("output").exists() && !work.join("data/0").exists());
    }

    #[test]
    fn a_missing_shard_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = prepare(
            &root.path().join("work"),
            root.path(),
            root.path(),
            &root.path().join("nowhere"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
