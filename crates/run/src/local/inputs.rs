//! Checksums of what a run reads, the configuration and the data, so that a later run in the same folder can tell whether
//! they have changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use words::lock::Mutex;

use super::found::holds;
use super::layout::is_job_part;

/// A checksum of each file and folder in a configuration folder. If that is the job folder, its data and outputs, logs,
/// documents, and folders with models are left out; so are files to which the output of this process is redirected.
pub fn config_files(folder: &Path, job: &Path) -> io::Result<BTreeMap<String, u32>> {
    let mut files = BTreeMap::new();
    let printed_to = outputs_of_this_process();
    for entry in sorted(folder)? {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str().filter(|name| !is_byproduct(name)) else {
            continue;
        };
        if folder == job && (is_job_part(name) || is_document(name) || holds(&path, "pass-")) {
            continue;
        }
        let is_printed_to = |about: fs::Metadata| printed_to.contains(&FileId::of(&about));
        if fs::metadata(&path).is_ok_and(is_printed_to) {
            continue;
        }
        let mut sum = crc32fast::Hasher::new();
        add_tree(&path, entry.file_type()?, &mut sum)?;
        files.insert(name.to_owned(), sum.finalize());
    }
    Ok(files)
}

/// Logs, hidden files, and the compiled files that Python leaves beside what it reads.
fn is_byproduct(name: &str) -> bool {
    name == "__pycache__" || name == "nohup.out" || name.ends_with(".log") || name.starts_with('.')
}

/// Files beside a configuration that no configuration reads: job.yaml, notes, reports, notebooks, scripts.
fn is_document(name: &str) -> bool {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    name == "job.yaml" || matches!(ending, Some("md" | "html" | "sh" | "ipynb"))
}

/// Identifies a file under any of its names.
#[derive(PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
        }
    }
}

/// The files to which a shell has redirected what this process prints.
fn outputs_of_this_process() -> Vec<FileId> {
    let about = |stream: BorrowedFd<'_>| -> Option<FileId> {
        let about = fs::File::from(stream.try_clone_to_owned().ok()?)
            .metadata()
            .ok()?;
        about.is_file().then(|| FileId::of(&about))
    };
    let streams = [about(io::stdout().as_fd()), about(io::stderr().as_fd())];
    streams.into_iter().flatten().collect()
}

fn sorted(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// Adds the names and contents of all files below a path; of very large files only the beginning and the end.
fn add_tree(path: &Path, kind: fs::FileType, sum: &mut crc32fast::Hasher) -> io::Result<()> {
    const HUGE: u64 = 16 << 20;
    if kind.is_dir() {
        for entry in sorted(path)? {
            if !is_byproduct(&entry.file_name().to_string_lossy()) {
                sum.update(entry.file_name().as_encoded_bytes());
                add_tree(&entry.path(), entry.file_type()?, sum)?;
            }
        }
    } else if kind.is_file() {
        let length = fs::metadata(path)?.len();
        sum.update(&length.to_le_bytes());
        match length {
            0..HUGE => sum.update(&fs::read(path)?),
            _ => sum.update(&ends(path, length)?),
        }
    }
    Ok(())
}

/// A checksum of the names, sizes, beginnings and ends of these files and of all files below these folders: data are too
/// large to be read whole. Of a path that does not exist, only the name counts.
pub fn data_checksum(paths: &[PathBuf]) -> io::Result<u32> {
    fn visit(path: &Path, sum: &mut crc32fast::Hasher) -> io::Result<()> {
        let about = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            about => about?,
        };
        if about.is_dir() {
            let mut entries: Vec<_> = fs::read_dir(path)?.collect::<io::Result<_>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                sum.update(entry.file_name().as_encoded_bytes());
                visit(&entry.path(), sum)?;
            }
        } else if about.is_file() {
            sum.update(&about.len().to_le_bytes());
            sum.update(&ends(path, about.len())?);
        }
        Ok(())
    }
    let mut sum = crc32fast::Hasher::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        sum.update(name.as_encoded_bytes());
        visit(path, &mut sum)?;
    }
    Ok(sum.finalize())
}

/// The data files of a node when the run began. A trainer that would read others ends: its run would train, without a
/// word, on samples that are not those of its first passes. Files that are added later do not count.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShardFiles {
    folder: PathBuf,
    /// Checksums, by the path inside the folder.
    files: BTreeMap<PathBuf, u32>,
    /// The folder and the files as they were when they were last compared.
    #[serde(skip)]
    seen: Mutex<BTreeMap<PathBuf, Stamp>>,
}

/// Changes when a file or folder is replaced or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        Ok(Self {
            inode: (about.dev(), about.ino()),
            length: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
        })
    }
}

/// A training file is not the one with which the run began.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} {what} since the run began; a run trains on the same data from its first pass to its last: put the file back and resume the run, or use --fresh to start again with the new data",
    path.display()
)]
pub struct DataReplaced {
    path: PathBuf,
    what: &'static str,
}

impl ShardFiles {
    /// Notes the files below a folder.
    pub fn of(folder: &Path) -> io::Result<Self> {
        fn visit(
            folder: &Path,
            inside: &Path,
            files: &mut BTreeMap<PathBuf, u32>,
        ) -> io::Result<()> {
            for entry in sorted(&folder.join(inside))? {
                let name = inside.join(entry.file_name());
                let path = folder.join(&name);
                match fs::metadata(&path) {
                    Ok(about) if about.is_dir() => visit(folder, &name, files)?,
                    Ok(about) if about.is_file() => {
                        files.insert(name, file_sum(&path)?);
                    }
                    // A link to nowhere has no data.
                    _ => {}
                }
            }
            Ok(())
        }
        let mut files = BTreeMap::new();
        visit(folder, Path::new(""), &mut files)?;
        Ok(Self {
            folder: folder.to_owned(),
            files,
            seen: Mutex::default(),
        })
    }

    /// Reads what [`ShardFiles::write`] has written.
    pub fn read(list: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(list)?)?)
    }

    /// Writes the list.
    pub fn write(&self, list: &Path) -> io::Result<()> {
        fs::write(list, serde_json::to_vec(self)?)
    }

    /// Compares all files, those that look unchanged by their stamp only.
    pub fn check(&self) -> Result<(), DataReplaced> {
        self.see(Path::new(""));
        for (name, sum) in &self.files {
            let path = self.folder.join(name);
            if self.see(name) {
                continue;
            }
            let what = match file_sum(&path) {
                Ok(found) if found == *sum => continue,
                Ok(_) => "has changed",
                Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone",
                Err(_) => "cannot be read any more",
            };
            // The next comparison reads it again.
            self.seen.lock().clear();
            return Err(DataReplaced { path, what });
        }
        Ok(())
    }

    /// Compares the files if something in the folder itself was replaced, added or removed.
    pub fn check_folder(&self) -> Result<(), DataReplaced> {
        match self.see(Path::new("")) {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// Notes the stamp of a path inside the folder; whether it is as before.
    fn see(&self, name: &Path) -> bool {
        let stamp = Stamp::of(&self.folder.join(name)).ok();
        let mut seen = self.seen.lock();
        let before = match stamp {
            Some(stamp) => seen.insert(name.to_owned(), stamp),
            None => seen.remove(name),
        };
        stamp.is_some() && before == stamp
    }
}

/// A checksum of the size, the beginning and the end of a file.
fn file_sum(path: &Path) -> io::Result<u32> {
    let length = fs::metadata(path)?.len();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length.to_le_bytes());
    sum.update(&ends(path, length)?);
    Ok(sum.finalize())
}

/// The first and the last bytes of a file.
fn ends(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    const END: u64 = 1 << 16;
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(END).read_to_end(&mut bytes)?;
    if length > END {
        file.seek(SeekFrom::Start(length.saturating_sub(END).max(END)))?;
        file.take(END).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_file_that_was_replaced_is_named_and_one_that_was_added_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("data/0");
        fs::create_dir_all(shard.join("more")).unwrap();
        fs::write(shard.join("train.txt"), "one").unwrap();
        fs::write(shard.join("more/x.txt"), "x").unwrap();
        let list = folder.path().join("list.json");
        ShardFiles::of(&shard).unwrap().write(&list).unwrap();
        let files = ShardFiles::read(&list).unwrap();
        for _ in 0..2 {
            files.check().unwrap();
            files.check_folder().unwrap();
        }
        fs::write(shard.join("cache.bin"), "of a provider").unwrap();
        files.check_folder().unwrap();
        // The same bytes in another file.
        fs::rename(&shard, folder.path().join("old")).unwrap();
        assert!(
            files
                .check_folder()
                .unwrap_err()
                .to_string()
                .contains("is gone")
        );
        fs::create_dir_all(shard.join("more")).unwrap();
        fs::write(shard.join("more/x.txt"), "x").unwrap();
        fs::write(shard.join("train.txt"), "one").unwrap();
        files.check_folder().unwrap();
        fs::remove_dir_all(&shard).unwrap();
        fs::create_dir_all(shard.join("more")).unwrap();
        fs::write(shard.join("more/x.txt"), "x").unwrap();
        fs::write(shard.join("train.txt"), "two").unwrap();
        let told = files.check_folder().unwrap_err().to_string();
        assert!(
            told.contains("train.txt has changed since the run began"),
            "{told}"
        );
        assert!(files.check().is_err(), "it is told again");
    }

    #[test]
    fn what_a_run_puts_into_the_job_folder_is_not_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(job.join(name).parent().unwrap()).unwrap();
            fs::write(job.join(name), text).unwrap();
        };
        for name in ["trainer_config.py", "words/dict.txt", "data/train.txt"] {
            write(name, "1");
        }
        let before = config_files(job, job).unwrap();
        let names: Vec<&String> = before.keys().collect();
        assert_eq!(names, ["trainer_config.py", "words"]);
        for name in [
            "output/pass-00000/done",
            "output-1/run.json",
            "local/pass-00000/done",
            "run.log",
            "nohup.out",
            "__pycache__/provider.pyc",
            "words/.dict.txt.swp",
            "notes.md",
            "report.html",
            "job.yaml",
            "data/0/train.txt",
        ] {
            write(name, "2");
        }
        assert_eq!(config_files(job, job).unwrap(), before);
        write("words/dict.txt", "2");
        let after = config_files(job, job).unwrap();
        assert_ne!(after["words"], before["words"]);
        assert_eq!(after["trainer_config.py"], before["trainer_config.py"]);
        // Providers read YAML; a link to nowhere is nobody's output.
        write("sizes.yaml", "1");
        std::os::unix::fs::symlink("nowhere", job.join("later")).unwrap();
        let names = config_files(job, job).unwrap();
        assert!(names.contains_key("sizes.yaml") && names.contains_key("later"));
        // A folder of its own belongs to the configuration with all that is in it.
        write("model/data/meta.bin", "1");
        let names = config_files(&job.join("model"), job).unwrap();
        assert!(names.contains_key("data"));
    }
}
