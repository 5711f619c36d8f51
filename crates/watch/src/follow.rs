//! Reads files of lines that grow: each call returns the lines that are new and complete.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Lines longer than this are skipped: ours are short, and a file may contain anything.
const LONGEST: usize = 4 << 20;

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// A file that is read from where the last call ended.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    offset: u64,
    inode: u64,
    rest: Vec<u8>,
    skipping: bool,
}

/// The result of a call of [`Follow::look`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedFile {
    /// New lines, or none; the file is the same as at the last call.
    Further,
    /// The file was replaced or truncated: everything that was read before must be discarded.
    Anew,
}

impl Follow {
    /// A file that may not exist yet.
    pub fn new(path: &Path) -> Follow {
        Follow {
            path: path.to_owned(),
            offset: 0,
            inode: 0,
            rest: Vec::new(),
            skipping: false,
        }
    }

    /// Reads only lines that are appended from now on.
    pub fn from_end(path: &Path) -> Follow {
        let meta = std::fs::metadata(path);
        Follow {
            offset: meta.as_ref().map_or(0, |meta| meta.len()),
            inode: meta.map_or(0, |meta| meta.ino()),
            ..Follow::new(path)
        }
    }

    /// Whether the file at the path is no longer the one that was read.
    pub fn is_other(&self) -> bool {
        match std::fs::metadata(&self.path) {
            Ok(meta) => self.offset > 0 && (meta.len() < self.offset || meta.ino() != self.inode),
            Err(_) => self.offset > 0,
        }
    }

    /// Passes every new line to `take`.
    pub fn look(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<FollowedFile> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.offset == 0 => {
                return Ok(FollowedFile::Further);
            }
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        let anew = self.offset > 0 && (meta.len() < self.offset || meta.ino() != self.inode);
        if anew {
            *self = Follow::new(&self.path);
        }
        self.inode = meta.ino();
        if meta.len() > self.offset {
            file.seek(SeekFrom::Start(self.offset))?;
            let mut piece = vec![0; PIECE];
            loop {
                let count = file.read(&mut piece)?;
                if count == 0 {
                    break;
                }
                self.offset += count as u64;
                self.feed(&piece[..count], take);
            }
        }
        Ok(if anew {
            FollowedFile::Anew
        } else {
            FollowedFile::Further
        })
    }

    fn feed(&mut self, mut piece: &[u8], take: &mut dyn FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, next) = piece.split_at(end);
            piece = &next[1..];
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.rest.is_empty() {
                take(line);
            } else {
                self.rest.extend_from_slice(line);
                take(&self.rest);
                self.rest.clear();
            }
        }
        if self.rest.len() + piece.len() > LONGEST {
            self.rest.clear();
            self.skipping = true;
        } else if !self.skipping {
            self.rest.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn look(follow: &mut Follow) -> (FollowedFile, Vec<String>) {
        let mut lines = Vec::new();
        let look = follow
            .look(&mut |line| lines.push(String::from_utf8_lossy(line).into_owned()))
            .unwrap();
        (look, lines)
    }

    #[test]
    fn lines_come_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mut follow = Follow::new(&path);
        assert_eq!(look(&mut follow), (FollowedFile::Further, vec![]));
        std::fs::write(&path, "a\nb").unwrap();
        assert_eq!(look(&mut follow).1, ["a"]);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"c\nd\n").unwrap();
        assert_eq!(look(&mut follow).1, ["bc", "d"]);
        std::fs::write(&path, "new\n").unwrap();
        assert!(follow.is_other());
        assert_eq!(look(&mut follow), (FollowedFile::Anew, vec!["new".into()]));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![b'x'; LONGEST + 10]).unwrap();
        let mut follow = Follow::new(&path);
        assert_eq!(look(&mut follow).1, Vec::<String>::new());
        assert!(follow.rest.is_empty());
        file.write_all(b"yy\nz\n").unwrap();
        assert_eq!(look(&mut follow).1, ["z"]);
    }
}
