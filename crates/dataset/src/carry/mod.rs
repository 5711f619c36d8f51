//! Copies a folder over a pipe: existing files are skipped, partial ones are continued, and everything is checked.
//!
//! ```text
//! sender                                receiver
//! one line of JSON: all files      ─→
//!                                  ←─   one line: how many bytes of each exist
//! the missing bytes, file by file  ─→   each to `NAME.part`, checked by SHA-256, renamed
//!                                  ←─   one line: done, or why not
//! ```
//!
//! The pipe is a command in a pod; it may break at any byte, and then the whole copy is started again.
//!
//! - [`folder`]: the receiver writes to a folder.
//! - [`store`]: the receiver writes to an object store.

mod folder;
mod store;

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::bucket::BucketError;
use super::checksum;
use super::pick::Pick;
use words::causes::chain;

pub use folder::Existing;
pub use store::Prefix;

/// A longer line does not belong to this protocol.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Why a folder was not copied.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum CarryError {
    /// A read error on this side.
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A write error on the receiving side.
    #[error("write {path}{}", full(.source))]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A name that would leave the folder, or is not valid text.
    #[error("{name:?} is not the name of a file in a folder")]
    Name { name: String },
    /// The pipe closed early.
    #[error("the connection was closed; run the command again to resume")]
    Broken(#[source] io::Error),
    /// The other side does not speak this protocol.
    #[error("the other side sent {0:?}; does the image have the same version of canoe?")]
    Strange(String),
    /// The other side reported an error.
    #[error("{0}")]
    Refused(String),
    /// A model of another run has the name of one that is to be copied.
    #[error(
        "{path} exists and differs from the model to be copied; choose another folder, or replace it with --force"
    )]
    Other { path: PathBuf },
    /// A file has the name of a folder that is to be copied.
    #[error(
        "{path} is a file, but a folder of this name is to be copied; choose another folder, or move the file"
    )]
    InTheWay { path: PathBuf },
    /// The bytes that arrived differ from those that were sent.
    #[error(
        "{path} differs from what was sent: it changed during the copy, or a partial file of an earlier attempt is damaged; run the command again"
    )]
    Differs { path: PathBuf },
    /// The object store to which files are passed on refused a request or could not be reached.
    #[error(transparent)]
    Store(Box<BucketError>),
}

impl From<BucketError> for CarryError {
    fn from(error: BucketError) -> Self {
        Self::Store(Box::new(error))
    }
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

/// A line from the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReceiverMessage {
    /// Bytes that exist already, for each file.
    There(Vec<u64>),
    /// All files are complete.
    Done,
    /// The received bytes of this file differ from those that were sent; the receiver has removed them.
    Differs(PathBuf),
    /// The receiver's error.
    Failed(String),
}

/// Totals of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Files in the folder.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that existed before.
    pub kept: u64,
}

/// The result of receiving files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Totals of the copy.
    pub carried: Carried,
    /// The files, relative to the folder or the prefix.
    pub names: Vec<String>,
}

/// Sends the files below `folder`. `tell` is called with the number of bytes sent.
pub fn send(
    folder: &Path,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64),
) -> Result<Carried, CarryError> {
    send_items(folder, list(folder)?, input, output, tell)
}

/// What [`send`] would send.
#[derive(Debug)]
pub struct FolderSummary {
    /// Number of files and bytes.
    pub carried: Carried,
    /// SHA-256 of all names, sizes and contents, in hexadecimal digits.
    pub sha256: String,
}

/// Reads a folder as [`send`] would.
pub fn summary(folder: &Path) -> Result<FolderSummary, CarryError> {
    let mut carried = Carried::default();
    let mut whole = Context::new(&SHA256);
    for item in list(folder)? {
        carried.files += 1;
        carried.bytes += item.size;
        whole.update(format!("{}\0{}\0{}\n", item.name, item.size, item.sum).as_bytes());
    }
    let digits = whole.finish();
    let digits = digits.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Ok(FolderSummary {
        carried,
        sha256: digits.collect(),
    })
}

/// Sends selected files of an output folder. If there are none, the other side gets the reason.
pub fn send_picked(
    output_folder: &Path,
    pick: Pick,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Carried, CarryError> {
    let items = pick.files(output_folder).map_err(|error| chain(&error));
    let items = items.and_then(|names| {
        let items = names.into_iter().map(|name| item(output_folder, name));
        items
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| chain(&error))
    });
    match items {
        Ok(items) => send_items(output_folder, items, input, output, &|_| {}),
        Err(reason) => {
            write_line(output, &ReceiverMessage::Failed(reason.clone()))
                .map_err(CarryError::Broken)?;
            Err(CarryError::Refused(reason))
        }
    }
}

fn send_items(
    folder: &Path,
    items: Vec<Item>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64),
) -> Result<Carried, CarryError> {
    write_line(output, &items).map_err(CarryError::Broken)?;
    let there = match read_answer(input)? {
        ReceiverMessage::There(there) if there.len() == items.len() => there,
        ReceiverMessage::Failed(reason) => return Err(CarryError::Refused(reason)),
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
        ReceiverMessage::Done => Ok(carried),
        ReceiverMessage::Differs(path) => Err(CarryError::Differs { path }),
        ReceiverMessage::Failed(reason) => Err(CarryError::Refused(reason)),
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

/// A destination of received files.
trait Place {
    /// How many bytes of each file exist; an error if an existing file must not be replaced.
    fn bytes_there(&self, items: &[Item]) -> Result<Vec<u64>, CarryError>;

    /// Receives the missing bytes of a file and checks the whole file. `tell` gets the number of bytes that exist.
    fn take(
        &mut self,
        item: &Item,
        there: u64,
        input: &mut dyn BufRead,
        tell: &dyn Fn(u64),
    ) -> Result<(), CarryError>;

    /// Called when every file has been received.
    fn complete(&mut self) -> Result<(), CarryError>;
}

/// Receives into `folder`, which is created if it does not exist. `tell` is called with the number of bytes that exist,
/// and the total.
pub fn receive(
    folder: &Path,
    existing: Existing,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64, u64),
) -> Result<Received, CarryError> {
    let mut place = folder::VolumeFolder::new(folder, existing);
    receive_at(&mut place, input, output, tell)
}

/// Receives into an object store, without a copy on this machine. Objects that it has already are not requested again,
/// and an object appears only when its contents have been checked.
pub fn receive_into_store(
    prefix: &Prefix,
    existing: Existing,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64, u64),
) -> Result<Received, CarryError> {
    let mut place = store::Objects::new(prefix, existing);
    receive_at(&mut place, input, output, tell)
}

fn receive_at(
    place: &mut dyn Place,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64, u64),
) -> Result<Received, CarryError> {
    let ended = try_receive(place, input, output, tell);
    let answer = match &ended {
        Ok(_) => ReceiverMessage::Done,
        Err(CarryError::Differs { path }) => ReceiverMessage::Differs(path.clone()),
        Err(error) => ReceiverMessage::Failed(chain(error)),
    };
    // If the sender has ended, nobody reads this line, and only the files matter.
    drop(write_line(output, &answer));
    ended
}

fn try_receive(
    place: &mut dyn Place,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    tell: &dyn Fn(u64, u64),
) -> Result<Received, CarryError> {
    let items = read_items(input)?;
    for item in &items {
        check_name(&item.name)?;
    }
    let there = place.bytes_there(&items)?;
    write_line(output, &ReceiverMessage::There(there.clone())).map_err(CarryError::Broken)?;
    let mut received = Received::default();
    let total: u64 = items.iter().map(|item| item.size).sum();
    for (item, there) in items.iter().zip(there) {
        received.carried.files += 1;
        received.carried.kept += there;
        let before = received.carried.bytes;
        tell(before + there, total);
        place.take(item, there, input, &|bytes| tell(before + bytes, total))?;
        received.carried.bytes += item.size;
        received.names.push(item.name.clone());
    }
    place.complete()?;
    Ok(received)
}

/// The sender's files, or the reason why it sends none.
fn read_items(input: &mut dyn BufRead) -> Result<Vec<Item>, CarryError> {
    let line = read_line(input)?;
    serde_json::from_str(&line).map_err(|_| match serde_json::from_str(&line) {
        Ok(ReceiverMessage::Failed(reason)) => CarryError::Refused(reason),
        _ => CarryError::Strange(line.chars().take(80).collect()),
    })
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
        let (file, name) = (name.clone(), format!("{prefix}{name}"));
        if meta.is_dir() {
            collect(&path, &format!("{name}/"), items)?;
        } else if meta.is_file() {
            let found = item(folder, file)?;
            items.push(Item { name, ..found });
        }
    }
    Ok(())
}

/// A file below `folder` as it is now.
fn item(folder: &Path, name: String) -> Result<Item, CarryError> {
    let path = folder.join(&name);
    let failed = |source| CarryError::Read {
        path: path.clone(),
        source,
    };
    let sum = checksum::sha256(&path).map_err(failed)?;
    let size = fs::metadata(&path).map_err(failed)?.len();
    Ok(Item {
        name,
        size,
        sum: sum.to_string(),
    })
}

/// Names come from outside: they must stay inside the folder.
pub(crate) fn check_name(name: &str) -> Result<(), CarryError> {
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

fn read_answer(input: &mut dyn BufRead) -> Result<ReceiverMessage, CarryError> {
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

    /// Sends over a socket; the sender's stream is cut after `cut` bytes.
    fn carry(
        from: &Path,
        to: &Path,
        cut: u64,
    ) -> (Result<Carried, CarryError>, Result<(), CarryError>) {
        let (one, other) = UnixStream::pair().unwrap();
        let to = to.to_owned();
        let receiver = thread::spawn(move || {
            let mut input = BufReader::new(other.try_clone().unwrap()).take(cut);
            let ended =
                receive(&to, Existing::Replace, &mut input, &mut &other, &|_, _| {}).map(drop);
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
    fn a_sum_tells_folders_apart() {
        let (_root, from, to) = folder();
        let FolderSummary { carried, sha256 } = summary(&from).unwrap();
        assert_eq!((carried.files, carried.bytes), (3, 300_010));
        let (sent, _) = carry(&from, &to, u64::MAX);
        sent.unwrap();
        assert_eq!(summary(&to).unwrap().sha256, sha256);
        write(&from, "train.list", b"train.txx\n");
        assert_ne!(summary(&from).unwrap().sha256, sha256);
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
            Err(CarryError::Differs { .. } | CarryError::Broken(_))
        ));
        carry(&from, &to, u64::MAX).0.unwrap();
        assert_eq!(
            fs::read(from.join("train.txt")).unwrap(),
            fs::read(to.join("train.txt")).unwrap()
        );
    }

    /// An output folder goes the other way: what is picked, into a folder that may hold another model.
    fn fetch(from: &Path, to: &Path, pick: Pick) -> Result<Received, CarryError> {
        let (one, other) = UnixStream::pair().unwrap();
        let from = from.to_owned();
        let sender = thread::spawn(move || {
            let mut input = BufReader::new(other.try_clone().unwrap());
            send_picked(&from, pick, &mut input, &mut &other).map(drop)
        });
        let mut input = BufReader::new(one.try_clone().unwrap());
        let received = receive(to, Existing::KeepModels, &mut input, &mut &one, &|_, _| {});
        drop((one, input));
        drop(sender.join());
        received
    }

    #[test]
    fn a_model_comes_back_and_never_replaces_another() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("output"), root.path().join("here"));
        write(&from, "pass-00001/_w", b"values");
        write(&from, "pass-00001/done", b"");
        write(&from, "node_0/train.log", b"one line\n");
        let received = fetch(&from, &to, Pick::Last).unwrap();
        assert_eq!(received.names, ["pass-00001/_w", "pass-00001/done"]);
        assert_eq!(received.carried.kept, 0);
        assert_eq!(fetch(&from, &to, Pick::Last).unwrap().carried.kept, 6);
        fetch(&from, &to, Pick::Logs).unwrap();
        write(&from, "node_0/train.log", b"one line\nand another\n");
        fetch(&from, &to, Pick::Logs).unwrap();
        assert_eq!(fs::read(to.join("node_0/train.log")).unwrap().len(), 21);
        write(&to, "pass-00001/_w", b"mine");
        let error = fetch(&from, &to, Pick::Last).unwrap_err();
        assert!(matches!(error, CarryError::Other { .. }), "{error}");
        assert_eq!(fs::read(to.join("pass-00001/_w")).unwrap(), b"mine");
        let error = fetch(&from, &to, Pick::Pass(7)).unwrap_err().to_string();
        assert!(error.contains("pass 7"), "{error}");
        let other = root.path().join("other");
        write(&other, "pass-00001", b"a file");
        let error = fetch(&from, &other, Pick::Last).unwrap_err().to_string();
        assert!(error.contains("other/pass-00001 is a file"), "{error}");
    }

    #[test]
    fn what_comes_from_outside_stays_inside() {
        let root = tempfile::tempdir().unwrap();
        for name in ["../x", "/etc/x", "", "a/../../x"] {
            let line = format!("[{{\"name\":{name:?},\"size\":1,\"sum\":\"\"}}]\nx");
            let mut answer = Vec::new();
            let ended = receive(
                root.path(),
                Existing::Replace,
                &mut line.as_bytes(),
                &mut answer,
                &|_, _| {},
            );
            assert!(matches!(ended, Err(CarryError::Name { .. })), "{name}");
            assert!(String::from_utf8(answer).unwrap().contains("failed"));
        }
        for line in ["", "nonsense", "nonsense\n", "{}\n"] {
            let ended = receive(
                root.path(),
                Existing::Replace,
                &mut line.as_bytes(),
                &mut Vec::new(),
                &|_, _| {},
            );
            assert!(ended.is_err());
        }
    }
}
