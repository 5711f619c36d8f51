//! Finds the three MovieLens files in a folder or in the zip as it is published.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::demo::DemoError;

/// Larger files count as damaged; the largest of MovieLens 1M has 24 million bytes.
const LARGEST_FILE: u64 = 4 << 30;

/// The bytes of the three files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawFiles {
    /// `users.dat`.
    pub users: Vec<u8>,
    /// `movies.dat`.
    pub movies: Vec<u8>,
    /// `ratings.dat`.
    pub ratings: Vec<u8>,
}

/// Reads the files from a folder or a zip; in the zip they may be in any folder.
pub(crate) fn read(path: &Path) -> Result<RawFiles, DemoError> {
    let mut source = Source::open(path).map_err(|source| DemoError::read(path, source))?;
    let mut file = |name: &'static str| match source.get(name) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(DemoError::MissingFile {
            path: path.to_owned(),
            name,
        }),
        Err(source) => Err(DemoError::read(&path.join(name), source)),
    };
    Ok(RawFiles {
        users: file("users.dat")?,
        movies: file("movies.dat")?,
        ratings: file("ratings.dat")?,
    })
}

enum Source {
    Folder(PathBuf),
    Zip(Box<zip::ZipArchive<BufReader<File>>>),
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        if fs::metadata(path)?.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let zip = zip::ZipArchive::new(BufReader::new(File::open(path)?))?;
        Ok(Self::Zip(Box::new(zip)))
    }

    /// The content of a file, if it exists.
    fn get(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Zip(zip) => find_in_zip(zip, name),
            Self::Folder(folder) => match File::open(folder.join(name)) {
                Ok(file) => read_limited(file).map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }
}

fn find_in_zip(
    zip: &mut zip::ZipArchive<BufReader<File>>,
    name: &str,
) -> io::Result<Option<Vec<u8>>> {
    for index in 0..zip.len() {
        let entry = zip.by_index(index).map_err(io::Error::from)?;
        let found = entry.is_file()
            && entry
                .name()
                .is_ok_and(|path| path.rsplit('/').next() == Some(name));
        if found {
            return read_limited(entry).map(Some);
        }
    }
    Ok(None)
}

fn read_limited(content: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {LARGEST_FILE} bytes"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const FILES: [(&str, &str); 3] = [
        ("users.dat", "u"),
        ("movies.dat", "m"),
        ("ratings.dat", "r"),
    ];

    #[test]
    fn folder_and_zip_give_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let zip_path = directory.path().join("ml.zip");
        let mut zip = zip::ZipWriter::new(File::create(&zip_path).unwrap());
        for (name, content) in FILES {
            fs::write(directory.path().join(name), content).unwrap();
            zip.start_file(
                format!("ml-1m/{name}"),
                zip::write::SimpleFileOptions::default(),
            )
            .unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let want = RawFiles {
            users: b"u".to_vec(),
            movies: b"m".to_vec(),
            ratings: b"r".to_vec(),
        };
        assert_eq!(read(directory.path()).unwrap(), want);
        assert_eq!(read(&zip_path).unwrap(), want);
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("users.dat"), "").unwrap();
        assert!(matches!(
            read(directory.path()),
            Err(DemoError::MissingFile {
                name: "movies.dat",
                ..
            })
        ));
        let not_a_zip = directory.path().join("users.dat");
        assert!(matches!(read(&not_a_zip), Err(DemoError::Read { .. })));
    }
}
