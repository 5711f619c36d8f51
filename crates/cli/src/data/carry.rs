//! Carries a folder over a pipe: what is there already is left out, what was begun is continued, what arrived is checked.
//!
//! ```text
//! sender                                receiver
//! one line of JSON: all files      ─→
//!                                  ←─   one line: how many bytes of each are there
//! the missing bytes, file by file  ─→   each to `NAME.part`, checked by SHA-256, renamed
//!                                  ←─   one line: done, or why not
//! ```
//!
//! The pipe is `kubectl exec`; it may break at any byte, and then the whole is run again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checksum;
use crate::causes::chain;

/// A line longer than this is no line of ours.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Why a folder has not arrived.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// Reading here failed.
    #[error("read {path}")]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Writing there failed.
    #[error("write {path}{}", full(.source))]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A name that would leave the folder, or cannot be told.
    #[error("{name:?} is not the name of a file in a folder")]
    Name {
        /// The name.
        name: String,
    },
    /// The pipe ended.
    #[error("the connection ended; run it again to go on")]
    Broken(#[source] io::Error),
    /// The other side speaks something else.
    #[error("the other side says {0:?}; is the image of the same version?")]
    Strange(String),
    /// The other side could not.
    #[error("{0}")]
    Refused(String),
    /// The bytes that arrived are others.
    #[error(
        "{path} is not what was sent; it changed meanwhile, or what was left of an earlier attempt is wrong: run it again"
    )]
    Differs {
        /// The file.
        path: PathBuf,
    },
}

fn full(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; the volume is full",
        io::ErrorKind::PermissionDenied => {
            "; it must be writable for the job's user (`user` in job.yaml)"
        }
        _ => "",
    }
}

/// One file, as the sender has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    name: String,
    size: u64,
    sum: String,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Bytes that are there, for each file.
    There(Vec<u64>),
    /// All files are whole.
    Done,
    /// Why not.
    Failed(String),
}

/// What was carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Files in the folder.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were there before.
    pub kept: u64,
}

/// Sends the files below `folder`. `tell` hears how many bytes have gone.
pub fn send(
    folder: &Path,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64),
) -> Result<Carried, CarryError> {
    let items = list(folder)?;
    write_line(output, &items).map_err(CarryError::Broken)?;
    let there = match read_answer(input)? {
        Answer::There(there) if there.len() == items.len() => there,
        Answer::Failed(reason) => return Err(CarryError::Refused(reason)),
        other => return Err(CarryError::Strange(format!("{other:?}"))),
    };
    let mut carried = Carried {
        files: items.len(),
        ..Carried::default()
    };
    for (item, there) in items.iter().zip(there) {
        carried.bytes += item.size;
        carried.kept += there.min(item.size);
        tell(there.min(item.size));
        send_file(&folder.join(&item.name), there..item.size, output, tell)?;
    }
    output.flush().map_err(CarryError::Broken)?;
    match read_answer(input)? {
        Answer::Done => Ok(carried),
        Answer::Failed(reason) => Err(CarryError::Refused(reason)),
        other => Err(CarryError::Strange(format!("{other:?}"))),
    }
}

fn send_file(
    path: &Path,
    bytes: std::ops::Range<u64>,
    output: &mut dyn Write,
    tell: &dyn Fn(u64),
) -> Result<(), CarryError> {
    let failed = |source| CarryError::Read {
        path: path.to_owned(),
        source,
    };
    let mut left = bytes.end.saturating_sub(bytes.start);
    if left == 0 {
        return Ok(());
    }
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(bytes.start)).map_err(failed)?;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = file.read(&mut buffer[..most]).map_err(failed)?;
        if count == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        output
            .write_all(&buffer[..count])
            .map_err(CarryError::Broken)?;
        left -= count as u64;
        tell(count as u64);
    }
    Ok(())
}

/// Receives into `folder`, which is made if it is not there.
pub fn receive(
    folder: &Path,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), CarryError> {
    let ended = try_receive(folder, input, output);
    let answer = match &ended {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed(chain(error)),
    };
    // A sender that has gone does not hear it; the files are what counts.
    drop(write_line(output, &answer));
    ended
}

fn try_receive(
    folder: &Path,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), CarryError> {
    let line = read_line(input)?;
    let items: Vec<Item> = serde_json::from_str(&line)
        .map_err(|_| CarryError::Strange(line.chars().take(80).collect()))?;
    let mut there = Vec::new();
    for item in &items {
        check_name(&item.name)?;
        there.push(bytes_there(&folder.join(&item.name), item)?);
    }
    write_line(output, &Answer::There(there.clone())).map_err(CarryError::Broken)?;
    for (item, there) in items.iter().zip(there) {
        if there < item.size || !folder.join(&item.name).exists() {
            receive_file(&folder.join(&item.name), item, there, input)?;
        }
    }
    Ok(())
}

fn part(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

/// A whole file of the right content counts with all its bytes, else what an earlier attempt left.
fn bytes_there(path: &Path, item: &Item) -> Result<u64, CarryError> {
    let length = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CarryError::Read { path, source }
    };
    if path.is_file() && length(path) == item.size {
        let sum = checksum::sha256(path).map_err(failed(path))?;
        if sum.to_string() == item.sum {
            return Ok(item.size);
        }
    }
    Ok(length(&part(path)).min(item.size))
}

fn receive_file(
    path: &Path,
    item: &Item,
    there: u64,
    input: &mut dyn BufRead,
) -> Result<(), CarryError> {
    let part = part(path);
    let failed = |source| CarryError::Write {
        path: part.clone(),
        source,
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&part)
        .map_err(failed)?;
    file.set_len(there).map_err(failed)?;
    file.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut buffer = vec![0; 1 << 16];
    let mut left = item.size - there;
    while left > 0 {
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = input
            .read(&mut buffer[..most])
            .map_err(CarryError::Broken)?;
        if count == 0 {
            return Err(CarryError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_all(&buffer[..count]).map_err(failed)?;
        left -= count as u64;
    }
    file.sync_all().map_err(failed)?;
    if checksum::sha256(&part).map_err(failed)?.to_string() != item.sum {
        // The wrong part must not be continued.
        drop(fs::remove_file(&part));
        return Err(CarryError::Differs {
            path: path.to_owned(),
        });
    }
    fs::rename(&part, path).map_err(failed)
}

/// All files below a folder in the order of their names, hidden ones left out. Links are followed.
fn list(folder: &Path) -> Result<Vec<Item>, CarryError> {
    let mut items = Vec::new();
    collect(folder, "", &mut items)?;
    Ok(items)
}

fn collect(folder: &Path, prefix: &str, items: &mut Vec<Item>) -> Result<(), CarryError> {
    let failed = |path: &Path, source| CarryError::Read {
        path: path.to_owned(),
        source,
    };
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(|source| failed(folder, source))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            let name = path.display().to_string();
            return Err(CarryError::Name { name });
        };
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        let meta = fs::metadata(&path).map_err(|source| failed(&path, source))?;
        let name = format!("{prefix}{name}");
        if meta.is_dir() {
            collect(&path, &format!("{name}/"), items)?;
        } else if meta.is_file() {
            let sum = checksum::sha256(&path).map_err(|source| failed(&path, source))?;
            items.push(Item {
                name,
                size: meta.len(),
                sum: sum.to_string(),
            });
        }
    }
    Ok(())
}

/// Names come from outside: they must stay inside the folder.
fn check_name(name: &str) -> Result<(), CarryError> {
    let path = Path::new(name);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if name.is_empty() || name.contains('\0') || !path.components().all(is_plain) {
        let name = name.to_owned();
        return Err(CarryError::Name { name });
    }
    Ok(())
}

fn write_line<T: Serialize + ?Sized>(output: &mut dyn Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

fn read_line(input: &mut dyn BufRead) -> Result<String, CarryError> {
    let mut line = String::new();
    input
        .take(LONGEST_LINE)
        .read_line(&mut line)
        .map_err(CarryError::Broken)?;
    if !line.ends_with('\n') {
        return Err(CarryError::Broken(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(line)
}

fn read_answer(input: &mut dyn BufRead) -> Result<Answer, CarryError> {
    let line = read_line(input)?;
    serde_json::from_str(&line).map_err(|_| CarryError::Strange(line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    fn write(root: &Path, file: &str, content: &[u8]) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Sends over a socket; the sender's words are cut after `cut` bytes.
    fn carry(
        from: &Path,
        to: &Path,
        cut: u64,
    ) -> (Result<Carried, CarryError>, Result<(), CarryError>) {
        let (one, other) = UnixStream::pair().unwrap();
        let to = to.to_owned();
        let receiver = thread::spawn(move || {
            let mut input = BufReader::new(other.try_clone().unwrap()).take(cut);
            let ended = receive(&to, &mut input, &mut &other);
            other.shutdown(std::net::Shutdown::Both).ok();
            ended
        });
        let sent = send(
            from,
            &mut BufReader::new(one.try_clone().unwrap()),
            &mut &one,
            &|_| {},
        );
        drop(one);
        (sent, receiver.join().unwrap())
    }

    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let large: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
        write(&from, "train.list", b"train.txt\n");
        write(&from, "train.txt", &large);
        write(&from, "deep/er/empty", b"");
        write(&from, ".git/x", b"x");
        (root, from, to)
    }

    #[test]
    fn a_folder_arrives_and_a_second_time_nothing_goes_over() {
        let (_root, from, to) = folder();
        let (sent, received) = carry(&from, &to, u64::MAX);
        let sent = sent.unwrap();
        received.unwrap();
        assert_eq!((sent.files, sent.bytes, sent.kept), (3, 300_010, 0));
        for file in ["train.list", "train.txt", "deep/er/empty"] {
            assert_eq!(
                fs::read(from.join(file)).unwrap(),
                fs::read(to.join(file)).unwrap()
            );
        }
        assert!(!to.join(".git").exists());
        let again = carry(&from, &to, u64::MAX).0.unwrap();
        assert_eq!(again.kept, 300_010);
        write(&from, "train.txt", b"new");
        assert_eq!(carry(&from, &to, u64::MAX).0.unwrap().bytes, 13);
        assert_eq!(fs::read(to.join("train.txt")).unwrap(), b"new");
    }

    #[test]
    fn a_broken_pipe_is_continued() {
        let (_root, from, to) = folder();
        let (sent, received) = carry(&from, &to, 150_000);
        assert!(sent.is_err() && matches!(received, Err(CarryError::Broken(_))));
        assert!(!to.join("train.txt").exists());
        let sent = carry(&from, &to, u64::MAX).0.unwrap();
        assert!(sent.kept > 100_000, "{sent:?}");
        assert_eq!(
            fs::read(from.join("train.txt")).unwrap(),
            fs::read(to.join("train.txt")).unwrap()
        );
    }

    #[test]
    fn a_wrong_rest_of_an_earlier_attempt_is_found_out() {
        let (_root, from, to) = folder();
        write(&to, "train.txt.part", &[9; 1000]);
        let (sent, received) = carry(&from, &to, u64::MAX);
        assert!(matches!(received, Err(CarryError::Differs { .. })));
        assert!(matches!(
            sent,
            Err(CarryError::Refused(_) | CarryError::Broken(_))
        ));
        carry(&from, &to, u64::MAX).0.unwrap();
        assert_eq!(
            fs::read(from.join("train.txt")).unwrap(),
            fs::read(to.join("train.txt")).unwrap()
        );
    }

    #[test]
    fn what_comes_from_outside_stays_inside() {
        let root = tempfile::tempdir().unwrap();
        for name in ["../x", "/etc/x", "", "a/../../x"] {
            let line = format!("[{{\"name\":{name:?},\"size\":1,\"sum\":\"\"}}]\nx");
            let mut answer = Vec::new();
            let ended = receive(root.path(), &mut line.as_bytes(), &mut answer);
            assert!(matches!(ended, Err(CarryError::Name { .. })), "{name}");
            assert!(String::from_utf8(answer).unwrap().contains("failed"));
        }
        for line in ["", "nonsense", "nonsense\n", "{}\n"] {
            assert!(receive(root.path(), &mut line.as_bytes(), &mut Vec::new()).is_err());
        }
    }
}
