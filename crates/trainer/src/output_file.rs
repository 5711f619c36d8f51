//! Writes a command's result file, which appears under its name only when it is complete.
//!
//! | what the name means | what happens |
//! |---|---|
//! | nothing yet, or a file | another file is written and renamed at the end; it has the mode of the one that it replaces |
//! | a link | its target is replaced, the link stays |
//! | a device, a FIFO, an open file of a process (`/dev/stdout`, `/dev/fd/3`) | it is written to |
//!
//! Two commands that write the same file do not disturb each other: the file of the one that ends last remains. Where the
//! file system allows it, the file has no name until it is complete, so a killed command leaves nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Links that are followed, as the system does.
const LINKS: usize = 40;

/// The bits of a mode that a replaced file passes on: those for reading, writing and executing.
const MODE: u32 = 0o777;

/// A file that is being written. Without [`commit`](Self::commit) its name is left as it was.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    place: FilePlace,
}

/// Where the bytes are until the file is complete.
#[derive(Debug)]
enum FilePlace {
    /// In the device or FIFO itself.
    There,
    /// In a file without a name, which will get this path.
    Unnamed(PathBuf),
    /// In a file with another name.
    Part {
        /// The temporary path.
        part: PathBuf,
        /// The path that the file will get.
        target: PathBuf,
    },
}

impl OutputFile {
    /// Begins to write the file that a user named.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, unnamed)
    }

    fn begin(path: &Path, unnamed: fn(&Path) -> Option<File>) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if found.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let has_name = found.as_ref().is_none_or(fs::Metadata::is_file);
        let target = match target(path)? {
            Some(target) if has_name => target,
            _ => {
                let file = OpenOptions::new().append(true).open(path)?;
                let place = FilePlace::There;
                return Ok(Self { file, place });
            }
        };
        let written = match unnamed(folder(&target)) {
            Some(file) => Self {
                file,
                place: FilePlace::Unnamed(target),
            },
            None => {
                let part = part(&target);
                Self {
                    file: OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .open(&part)?,
                    place: FilePlace::Part { part, target },
                }
            }
        };
        if let Some(old) = found {
            // Only root may change the owner; the mode is what matters.
            let _ = std::os::unix::fs::fchown(&written.file, Some(old.uid()), Some(old.gid()));
            let mode = Permissions::from_mode(old.mode() & MODE);
            written.file.set_permissions(mode)?;
        }
        Ok(written)
    }

    /// The file is complete: it gets its name.
    pub fn commit(mut self) -> io::Result<()> {
        if let FilePlace::Unnamed(target) = &self.place {
            let (part, target) = (part(target), target.clone());
            name(&self.file, &part)?;
            self.place = FilePlace::Part { part, target };
        }
        if let FilePlace::Part { part, target } = &self.place {
            self.file.sync_all()?;
            fs::rename(part, target)?;
            self.place = FilePlace::There;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let FilePlace::Part { part, .. } = &self.place {
            // An incomplete file is useless, and nobody would know its name.
            let _ = fs::remove_file(part);
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The path of the file after all links; `None` for an open file of a process, which has no name that could be replaced.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(None);
        }
        match fs::read_link(&path) {
            Ok(link) => path = folder(&path).join(link),
            Err(error) if is_no_link(&error) => return Ok(Some(path)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many links"))
}

fn is_no_link(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
    )
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// A name beside the target that nobody else uses.
fn part(target: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!(".{name}.{}-{count}.part", std::process::id()))
}

/// Creates a file without a name (`O_TMPFILE`) in a folder, if its file system supports that.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?;
    let file = File::from(file);
    // linkat names the file by way of this path.
    by_descriptor(&file).exists().then_some(file)
}

#[cfg(target_os = "linux")]
fn by_descriptor(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Names a file without a name.
#[cfg(target_os = "linux")]
fn name(file: &File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    rustix::fs::linkat(CWD, by_descriptor(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_folder: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn name(_file: &File, _name: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Every kind of file system: with files without names, and without.
    const KINDS: [fn(&Path) -> Option<File>; 2] = [unnamed, |_| None];

    fn write(path: &Path, text: &str, kind: fn(&Path) -> Option<File>) {
        let mut file = OutputFile::begin(path, kind).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.commit().unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_when_it_is_complete_and_keeps_its_mode() {
        for kind in KINDS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out");
            write(&path, "first", kind);
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let mut file = OutputFile::begin(&path, kind).unwrap();
            file.write_all(b"half").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"first");
            drop(file);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            write(&path, "second", kind);
            assert_eq!(fs::read(&path).unwrap(), b"second");
            assert_eq!(fs::metadata(&path).unwrap().mode() & MODE, 0o600);
            assert_eq!(names(dir.path()), ["out"]);
        }
    }

    #[test]
    fn two_that_write_the_same_file_do_not_mix() {
        for kind in KINDS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out");
            let mut one = OutputFile::begin(&path, kind).unwrap();
            let mut other = OutputFile::begin(&path, kind).unwrap();
            one.write_all(b"1111").unwrap();
            other.write_all(b"22").unwrap();
            one.commit().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"1111");
            other.commit().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"22");
            assert_eq!(names(dir.path()), ["out"]);
        }
    }

    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        for kind in KINDS {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("far")).unwrap();
            fs::write(dir.path().join("far/target"), "old").unwrap();
            for (link, to) in [
                ("link", "far/target"),
                ("again", "link"),
                ("new", "far/none"),
            ] {
                let link = dir.path().join(link);
                std::os::unix::fs::symlink(to, &link).unwrap();
                write(&link, to, kind);
                assert!(link.is_symlink());
                assert_eq!(fs::read_to_string(&link).unwrap(), to);
            }
            assert_eq!(names(&dir.path().join("far")), ["none", "target"]);
            std::os::unix::fs::symlink("b", dir.path().join("a")).unwrap();
            std::os::unix::fs::symlink("a", dir.path().join("b")).unwrap();
            assert!(OutputFile::begin(&dir.path().join("a"), kind).is_err());
        }
    }

    #[test]
    fn fifos_and_devices_are_written_to_and_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        write(&fifo, "through", unnamed);
        assert_eq!(reader.join().unwrap(), "through");
        assert_eq!(names(dir.path()), ["fifo"]);
        // As `-o nul`, where `nul` is a link to a device.
        let null = dir.path().join("nul");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write(&null, "nothing", unnamed);
        let mut text = String::new();
        let mut device = File::open("/dev/null").unwrap();
        device.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_file_of_a_process_is_continued_not_replaced() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        log.write_all(b"before, ").unwrap();
        let name = format!("/dev/fd/{}", log.as_raw_fd());
        write(Path::new(&name), "after", unnamed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before, after");
    }

    #[test]
    fn a_folder_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            dir.path().to_owned(),
            PathBuf::from("."),
            dir.path().join("no/file"),
        ] {
            assert!(OutputFile::create(&path).is_err(), "{}", path.display());
        }
    }
}
