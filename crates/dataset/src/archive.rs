//! Unpacks `.tar.gz`, `.tar`, `.zip` and `.gz` files from untrusted sources.
//!
//! Only plain files and folders below the target are created: a path that leaves it, a link, a device, too many entries
//! or too many bytes end the unpacking with an error. Everything is unpacked under a temporary name first, so a
//! rejected or damaged archive leaves nothing behind. The format is detected by content, not by name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;

/// Limits for the content of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files and folders.
    pub entries: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            bytes: 64 << 30,
            entries: 100_000,
        }
    }
}

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum UnpackError {
    /// The archive cannot be read, or is damaged.
    #[error("read {archive}")]
    Read {
        archive: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("write {path}")]
    Write {
        /// What was being written.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The content is of none of the supported formats.
    #[error("{archive} is not a zip, tar or gzip file")]
    Unknown {
        /// The file.
        archive: PathBuf,
    },
    /// An entry's path leaves the target folder.
    #[error(
        "{archive} has an entry {entry:?} that points outside the target folder; it is not unpacked"
    )]
    Outside {
        archive: PathBuf,
        /// The entry's path.
        entry: String,
    },
    /// An entry is neither file nor folder.
    #[error("{archive} has an entry {entry:?} that is a link or a device; it is not unpacked")]
    NotAFile {
        archive: PathBuf,
        /// The entry's path.
        entry: String,
    },
    /// More bytes or entries than allowed.
    #[error("{archive} unpacks to more than {} bytes or {} entries; raise --max-bytes if that is right", limits.bytes, limits.entries)]
    TooLarge {
        archive: PathBuf,
        /// What is allowed.
        limits: ArchiveLimits,
    },
    /// A tar file has a header that archives of data do not need and that could be an attack.
    #[error("{archive} has {what}; it is not unpacked (repack it with a current tar)")]
    Unusual {
        archive: PathBuf,
        /// The suspicious part.
        what: String,
    },
    /// A file or folder that would be replaced exists, and `force` was not given.
    #[error("{path} already exists; remove it or pass --force to replace it")]
    Exists {
        /// The file or folder.
        path: PathBuf,
    },
}

/// Unpacks `archive` into the folder `target` and returns the new entries of that folder.
pub fn unpack(
    archive: &Path,
    target: &Path,
    limits: ArchiveLimits,
    force: bool,
) -> Result<Vec<PathBuf>, UnpackError> {
    fs::create_dir_all(target).map_err(|source| UnpackError::Write {
        path: target.to_owned(),
        source,
    })?;
    let stage = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(target)
        .map_err(|source| UnpackError::Write {
            path: target.to_owned(),
            source,
        })?;
    let mut unpacking = Unpacking {
        archive,
        stage: stage.path(),
        limits,
        bytes: 0,
        entries: 0,
    };
    unpacking.run()?;
    publish(stage.path(), target, force)
}

/// The result of unpacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The new entries of the target folder.
    pub paths: Vec<PathBuf>,
    /// They existed already, from the same archive.
    pub unchanged: bool,
}

/// The content of `<archive>.unpacked`: which archive was unpacked, and into which entries.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    checksum: String,
    paths: Vec<PathBuf>,
}

/// Unpacks `archive` unless a record next to it says that the same content was unpacked to entries that still exist.
pub fn unpack_once(
    archive: &Path,
    target: &Path,
    checksum: Checksum,
    limits: ArchiveLimits,
    force: bool,
) -> Result<Unpacked, UnpackError> {
    let mut record_path = archive.as_os_str().to_owned();
    record_path.push(".unpacked");
    let record_path = PathBuf::from(record_path);
    let checksum = checksum.to_string();
    let before: Option<Record> = fs::read(&record_path)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    let same = before.filter(|record| {
        record.checksum == checksum && record.paths.iter().all(|path| path.exists())
    });
    if let Some(Record { paths, .. }) = same.filter(|_| !force) {
        return Ok(Unpacked {
            paths,
            unchanged: true,
        });
    }
    let record = Record {
        checksum,
        paths: unpack(archive, target, limits, force)?,
    };
    let text = serde_json::to_vec(&record).expect("a record has only plain values");
    fs::write(&record_path, text).map_err(|source| UnpackError::Write {
        path: record_path,
        source,
    })?;
    Ok(Unpacked {
        paths: record.paths,
        unchanged: false,
    })
}

/// Moves the entries of `stage` to `target`.
fn publish(stage: &Path, target: &Path, force: bool) -> Result<Vec<PathBuf>, UnpackError> {
    let mut names: Vec<_> = fs::read_dir(stage)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect()
        })
        .map_err(|source| UnpackError::Write {
            path: stage.to_owned(),
            source,
        })?;
    names.sort_unstable();
    let paths: Vec<PathBuf> = names.iter().map(|name| target.join(name)).collect();
    if let Some(path) = paths
        .iter()
        .find(|path| !force && path.symlink_metadata().is_ok())
    {
        return Err(UnpackError::Exists { path: path.clone() });
    }
    for (name, path) in names.iter().zip(&paths) {
        let replace = || -> io::Result<()> {
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path)?,
                Ok(_) => fs::remove_file(path)?,
                Err(_) => {}
            }
            fs::rename(stage.join(name), path)
        };
        replace().map_err(|source| UnpackError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(paths)
}

struct Unpacking<'a> {
    archive: &'a Path,
    stage: &'a Path,
    limits: ArchiveLimits,
    bytes: u64,
    entries: u64,
}

/// Bytes of a header that extends the next entry of a tar file: far more than a path needs.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// Bytes from the start of a tar file to the end of its magic number.
const TAR_HEAD: usize = 262;

impl Unpacking<'_> {
    fn run(&mut self) -> Result<(), UnpackError> {
        let mut file = File::open(self.archive).map_err(self.unreadable())?;
        let head = read_head(&mut file).map_err(self.unreadable())?;
        file.seek(SeekFrom::Start(0)).map_err(self.unreadable())?;
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            return self.zip(file);
        }
        if is_tar(&head) {
            return self.tar(file);
        }
        if !head.starts_with(&[0x1f, 0x8b]) {
            return Err(UnpackError::Unknown {
                archive: self.archive.to_owned(),
            });
        }
        let inner = read_head(&mut MultiGzDecoder::new(&mut file)).map_err(self.unreadable())?;
        file.seek(SeekFrom::Start(0)).map_err(self.unreadable())?;
        let content = MultiGzDecoder::new(BufReader::with_capacity(1 << 18, file));
        if is_tar(&inner) {
            self.tar(content)
        } else {
            self.single(content)
        }
    }

    fn unreadable(&self) -> impl Fn(io::Error) -> UnpackError + use<> {
        let archive = self.archive.to_owned();
        move |source| UnpackError::Read {
            archive: archive.clone(),
            source,
        }
    }

    fn zip(&mut self, file: File) -> Result<(), UnpackError> {
        let unreadable = self.unreadable();
        let mut zip =
            zip::ZipArchive::new(BufReader::new(file)).map_err(|error| unreadable(error.into()))?;
        for index in 0..zip.len() {
            let mut entry = zip
                .by_index(index)
                .map_err(|error| unreadable(error.into()))?;
            let name = entry
                .name()
                .map_err(|error| unreadable(error.into()))?
                .into_owned();
            if !entry.is_dir() && !entry.is_file() {
                return Err(UnpackError::NotAFile {
                    archive: self.archive.to_owned(),
                    entry: name,
                });
            }
            let is_folder = entry.is_dir();
            self.entry(Path::new(&name), is_folder, &mut entry)?;
        }
        Ok(())
    }

    fn tar(&mut self, content: impl Read) -> Result<(), UnpackError> {
        let unreadable = self.unreadable();
        let mut tar = tar::Archive::new(content);
        // Headers that extend the next entry are read here and not by the library, which trusts their length.
        let mut long_name = None;
        for entry in tar.entries().map_err(&unreadable)?.raw(true) {
            let mut entry = entry.map_err(&unreadable)?;
            let kind = entry.header().entry_type();
            if kind.is_pax_global_extensions() {
                continue;
            }
            if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
                let size = entry.header().entry_size().map_err(&unreadable)?;
                if size > LONGEST_EXTENSION {
                    return Err(self.unusual("a header that is too long"));
                }
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(&unreadable)?;
                let name = if kind.is_gnu_longname() {
                    bytes.truncate(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
                    Some(bytes)
                } else {
                    self.pax_path(&bytes)?
                };
                long_name = name.or(long_name);
                continue;
            }
            let path = match long_name.take() {
                Some(name) => PathBuf::from(OsString::from_vec(name)),
                None => entry.path().map_err(&unreadable)?.into_owned(),
            };
            if !kind.is_file() && !kind.is_dir() {
                return Err(UnpackError::NotAFile {
                    archive: self.archive.to_owned(),
                    entry: path.display().to_string(),
                });
            }
            self.entry(&path, kind.is_dir(), &mut entry)?;
        }
        Ok(())
    }

    /// The path that a PAX header gives to the next entry, if it does.
    fn pax_path(&self, mut records: &[u8]) -> Result<Option<Vec<u8>>, UnpackError> {
        let mut path = None;
        // Each record: its own length in decimal digits, a space, key=value, a line break.
        while !records.is_empty() {
            let record = PaxRecord::first(records)
                .ok_or_else(|| self.unusual("a PAX header that cannot be read"))?;
            match record.key {
                b"path" => path = Some(record.value.to_vec()),
                // The length of the entry in its own header would be wrong.
                b"size" => return Err(self.unusual("an entry of more than 8 GiB")),
                _ => {}
            }
            records = &records[record.length..];
        }
        Ok(path)
    }

    fn unusual(&self, what: &str) -> UnpackError {
        UnpackError::Unusual {
            archive: self.archive.to_owned(),
            what: what.to_owned(),
        }
    }

    /// A compressed file that is no archive: it loses its last extension.
    fn single(&mut self, mut content: impl Read) -> Result<(), UnpackError> {
        let name = self
            .archive
            .file_stem()
            .unwrap_or(self.archive.as_os_str())
            .to_owned();
        self.entry(Path::new(&name), false, &mut content)
    }

    /// Writes one entry if its path and size are allowed.
    fn entry(
        &mut self,
        path: &Path,
        is_folder: bool,
        content: &mut dyn Read,
    ) -> Result<(), UnpackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(self.too_large());
        }
        let Some(inside) = harmless(path) else {
            return Err(UnpackError::Outside {
                archive: self.archive.to_owned(),
                entry: path.display().to_string(),
            });
        };
        let target = self.stage.join(inside);
        let failed = |source| UnpackError::Write {
            path: target.clone(),
            source,
        };
        if is_folder {
            return fs::create_dir_all(&target).map_err(failed);
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let file = File::create(&target).map_err(failed)?;
        self.copy(content, file, &target)
    }

    fn copy(
        &mut self,
        content: &mut dyn Read,
        mut file: File,
        target: &Path,
    ) -> Result<(), UnpackError> {
        let unreadable = self.unreadable();
        let mut piece = vec![0; 1 << 18];
        loop {
            let read = content.read(&mut piece).map_err(&unreadable)?;
            if read == 0 {
                return Ok(());
            }
            self.bytes += read as u64;
            if self.bytes > self.limits.bytes {
                return Err(self.too_large());
            }
            io::Write::write_all(&mut file, &piece[..read]).map_err(|source| {
                UnpackError::Write {
                    path: target.to_owned(),
                    source,
                }
            })?;
        }
    }

    fn too_large(&self) -> UnpackError {
        UnpackError::TooLarge {
            archive: self.archive.to_owned(),
            limits: self.limits,
        }
    }
}

/// A record of a PAX header.
struct PaxRecord<'a> {
    /// Length in bytes of the whole record.
    length: usize,
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> PaxRecord<'a> {
    /// The record that `records` begins with.
    fn first(records: &'a [u8]) -> Option<Self> {
        let space = records.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
        let pair = records.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        Some(Self {
            length,
            key: &pair[..equals],
            value: &pair[equals + 1..],
        })
    }
}

fn read_head(content: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(TAR_HEAD);
    content.take(TAR_HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn is_tar(head: &[u8]) -> bool {
    head.len() == TAR_HEAD && head.ends_with(b"ustar")
}

/// The path with plain names only, or `None` if it leads elsewhere.
fn harmless(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// A tar with raw entry names, as a hostile program would write them.
    fn tar(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn zip(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for (name, content) in entries {
            writer
                .start_file(*name, SimpleFileOptions::default())
                .unwrap();
            writer.write_all(content.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    struct TestFolder(tempfile::TempDir);

    impl TestFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn unpack(
            &self,
            name: &str,
            content: &[u8],
            limits: ArchiveLimits,
        ) -> Result<Vec<PathBuf>, UnpackError> {
            let archive = self.0.path().join(name);
            fs::write(&archive, content).unwrap();
            unpack(&archive, &self.0.path().join("out"), limits, false)
        }

        fn out(&self, name: &str) -> PathBuf {
            self.0.path().join("out").join(name)
        }

        fn is_clean(&self) -> bool {
            fs::read_dir(self.0.path().join("out")).unwrap().count() == 0
        }
    }

    use tar::EntryType::{Directory, GNULongName, Link, Regular, Symlink, XHeader};

    #[test]
    fn each_kind_is_unpacked() {
        let entries = [("set/", Directory, ""), ("./set/a.txt", Regular, "hello")];
        for (name, content) in [
            ("a.tar.gz", gzip(&tar(&entries))),
            ("a.tgz", tar(&entries)),
            ("a.zip", zip(&[("set/a.txt", "hello")])),
        ] {
            let place = TestFolder::new();
            assert_eq!(
                place
                    .unpack(name, &content, ArchiveLimits::default())
                    .unwrap(),
                [place.out("set")],
                "{name}"
            );
            assert_eq!(
                fs::read_to_string(place.out("set/a.txt")).unwrap(),
                "hello",
                "{name}"
            );
        }
        let place = TestFolder::new();
        place
            .unpack("reviews.json.gz", &gzip(b"{}"), ArchiveLimits::default())
            .unwrap();
        assert_eq!(fs::read_to_string(place.out("reviews.json")).unwrap(), "{}");
    }

    #[test]
    fn entries_that_lead_elsewhere_are_refused() {
        for name in ["../evil", "/evil", "a/../../evil"] {
            let place = TestFolder::new();
            let error = place.unpack(
                "a.tar",
                &tar(&[("ok", Regular, "x"), (name, Regular, "x")]),
                ArchiveLimits::default(),
            );
            assert!(matches!(error, Err(UnpackError::Outside { .. })), "{name}");
            assert!(place.is_clean());
            let error = place.unpack("a.zip", &zip(&[(name, "x")]), ArchiveLimits::default());
            assert!(matches!(error, Err(UnpackError::Outside { .. })), "{name}");
            assert!(place.is_clean());
        }
    }

    #[test]
    fn links_are_refused() {
        for kind in [Symlink, Link] {
            let place = TestFolder::new();
            let error = place
                .unpack(
                    "a.tar",
                    &tar(&[("link", kind, "")]),
                    ArchiveLimits::default(),
                )
                .unwrap_err();
            assert!(matches!(error, UnpackError::NotAFile { .. }), "{error:?}");
            assert!(place.is_clean());
        }
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        writer
            .add_symlink("link", "/etc/passwd", SimpleFileOptions::default())
            .unwrap();
        let error = TestFolder::new()
            .unpack(
                "a.zip",
                &writer.finish().unwrap().into_inner(),
                ArchiveLimits::default(),
            )
            .unwrap_err();
        assert!(matches!(error, UnpackError::NotAFile { .. }), "{error:?}");
    }

    #[test]
    fn bombs_are_refused() {
        let large = "0".repeat(100_000);
        for (name, content) in [
            ("a.zip", zip(&[("a", &large)])),
            ("a.gz", gzip(large.as_bytes())),
            ("a.tar.gz", gzip(&tar(&[("a", Regular, &large)]))),
        ] {
            let place = TestFolder::new();
            let error = place
                .unpack(
                    name,
                    &content,
                    ArchiveLimits {
                        bytes: 50_000,
                        entries: 10,
                    },
                )
                .unwrap_err();
            assert!(matches!(error, UnpackError::TooLarge { .. }), "{name}");
            assert!(place.is_clean());
        }
        let many = zip(&[("a", ""), ("b", ""), ("c", "")]);
        let error = TestFolder::new()
            .unpack(
                "a.zip",
                &many,
                ArchiveLimits {
                    bytes: 10,
                    entries: 2,
                },
            )
            .unwrap_err();
        assert!(matches!(error, UnpackError::TooLarge { .. }));
    }

    #[test]
    fn long_names_are_read_and_endless_ones_refused() {
        let name = format!("{}/file", "folder".repeat(30));
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        builder.append_data(&mut header, &name, &b"x"[..]).unwrap();
        let gnu = builder.into_inner().unwrap();
        let record = format!("path={name}\n");
        let record = format!("{} {record}", record.len() + 4);
        let pax = tar(&[("x", XHeader, &record), ("short", Regular, "x")]);
        for content in [gnu, pax] {
            let place = TestFolder::new();
            place
                .unpack("a.tar", &content, ArchiveLimits::default())
                .unwrap();
            assert_eq!(fs::read_to_string(place.out(&name)).unwrap(), "x");
        }
        let endless = "n".repeat(2 << 20);
        for kind in [GNULongName, XHeader] {
            let place = TestFolder::new();
            let bomb = gzip(&tar(&[("x", kind, &endless), ("a", Regular, "x")]));
            let error = place
                .unpack("a.tar.gz", &bomb, ArchiveLimits::default())
                .unwrap_err();
            assert!(matches!(error, UnpackError::Unusual { .. }), "{error:?}");
            assert!(place.is_clean());
        }
        for record in ["99 path=x\n", "x path=y\n", "12 size=123\n\n", "0 a=b\n"] {
            let place = TestFolder::new();
            let content = tar(&[("x", XHeader, record), ("a", Regular, "x")]);
            let error = place
                .unpack("a.tar", &content, ArchiveLimits::default())
                .unwrap_err();
            assert!(matches!(error, UnpackError::Unusual { .. }), "{record:?}");
        }
    }

    #[test]
    fn damaged_and_foreign_files_are_named() {
        let mut half = gzip(&tar(&[("a", Regular, &"0123456789".repeat(1_000))]));
        half.truncate(half.len() / 2);
        let place = TestFolder::new();
        assert!(matches!(
            place.unpack("a.tar.gz", &half, ArchiveLimits::default()),
            Err(UnpackError::Read { .. })
        ));
        assert!(place.is_clean());
        assert!(matches!(
            place.unpack("a.txt", b"hello", ArchiveLimits::default()),
            Err(UnpackError::Unknown { .. })
        ));
        assert!(matches!(
            place.unpack("a.zip", b"PK\x03\x04 no", ArchiveLimits::default()),
            Err(UnpackError::Read { .. })
        ));
    }

    #[test]
    fn nothing_is_replaced_without_force() {
        let place = TestFolder::new();
        let content = zip(&[("a.txt", "new")]);
        fs::create_dir(place.0.path().join("out")).unwrap();
        fs::write(place.out("a.txt"), "mine").unwrap();
        assert!(matches!(
            place.unpack("a.zip", &content, ArchiveLimits::default()),
            Err(UnpackError::Exists { .. })
        ));
        assert_eq!(fs::read_to_string(place.out("a.txt")).unwrap(), "mine");
        unpack(
            &place.0.path().join("a.zip"),
            &place.0.path().join("out"),
            ArchiveLimits::default(),
            true,
        )
        .unwrap();
        assert_eq!(fs::read_to_string(place.out("a.txt")).unwrap(), "new");
    }

    #[test]
    fn the_same_archive_is_unpacked_once() {
        let place = TestFolder::new();
        let (archive, out) = (place.0.path().join("a.zip"), place.0.path().join("out"));
        let once = |content: &str, digit: u8| {
            fs::write(&archive, zip(&[("a.txt", content)])).unwrap();
            unpack_once(
                &archive,
                &out,
                Checksum::Sha256([digit; 32]),
                ArchiveLimits::default(),
                false,
            )
        };
        assert!(!once("one", 1).unwrap().unchanged);
        let again = once("one", 1).unwrap();
        assert_eq!(
            again,
            Unpacked {
                paths: vec![place.out("a.txt")],
                unchanged: true
            }
        );
        assert!(matches!(once("two", 2), Err(UnpackError::Exists { .. })));
        fs::remove_file(place.out("a.txt")).unwrap();
        assert!(!once("one", 1).unwrap().unchanged);
    }
}
