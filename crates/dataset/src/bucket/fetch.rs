//! Downloads objects of a store to files of a folder.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use s3::{Client, Location, Object, S3Error};
use serde::{Deserialize, Serialize};

use super::BucketError;
use crate::carry::check_name;
use crate::checksum;
use crate::fetch::Partial;
use crate::parallel;

/// The file that records the object and the version that each file was fetched from.
const RECORD: &str = ".s3.jsonl";
/// Attempts in a row without progress.
const ATTEMPTS: u32 = 5;

/// A file after a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Path of the file on this machine.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// The file existed already in this version.
    pub unchanged: bool,
    /// Bytes that an earlier run had fetched.
    pub resumed_from: u64,
}

/// A line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    name: String,
    source: String,
    etag: String,
    size: u64,
}

struct Job<'a> {
    client: &'a Client,
    folder: &'a Path,
    force: bool,
    known: BTreeMap<String, Line>,
    record: Mutex<()>,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// Fetches an object, or everything below a prefix, into a folder. `progress` gets the number of bytes that are new.
pub fn fetch(
    client: &Client,
    from: &Location,
    folder: &Path,
    force: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Fetched>, BucketError> {
    let wanted = choose(from, client.list(from)?)?;
    fs::create_dir_all(folder).map_err(BucketError::file("make", folder))?;
    let job = Job {
        client,
        folder,
        force,
        known: read_record(&folder.join(RECORD)),
        record: Mutex::new(()),
        progress,
    };
    parallel::for_each(wanted.len(), |index| {
        let (name, object) = &wanted[index];
        job.one(&from.bucket, name, object)
    })
}

/// The objects to fetch, with their names below the folder: the one with exactly this key, otherwise those below it.
fn choose(from: &Location, found: Vec<Object>) -> Result<Vec<(String, Object)>, BucketError> {
    let exact = |object: &&Object| !from.is_prefix() && object.key == from.key;
    if let Some(object) = found.iter().find(exact) {
        return Ok(vec![(from.name().to_owned(), object.clone())]);
    }
    let prefix = if from.is_prefix() {
        from.key.clone()
    } else {
        format!("{}/", from.key)
    };
    let mut chosen = Vec::new();
    for object in found {
        let Some(name) = object.key.strip_prefix(&prefix) else {
            continue;
        };
        // Web consoles create empty objects that represent folders.
        if name.is_empty() || name.ends_with('/') {
            continue;
        }
        check_name(name).map_err(|_| BucketError::Name {
            location: Location {
                bucket: from.bucket.clone(),
                key: object.key.clone(),
            },
            name: name.to_owned(),
        })?;
        chosen.push((name.to_owned(), object));
    }
    if chosen.is_empty() {
        return Err(BucketError::Nothing {
            prefix: from.clone(),
        });
    }
    Ok(chosen)
}

/// Reads the record. Incomplete lines are ignored: their files are compared or fetched again.
fn read_record(path: &Path) -> BTreeMap<String, Line> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.map(|line: Line| (line.name.clone(), line)).collect()
}

impl Job<'_> {
    fn one(&self, bucket: &str, name: &str, object: &Object) -> Result<Fetched, BucketError> {
        let location = Location {
            bucket: bucket.to_owned(),
            key: object.key.clone(),
        };
        let path = self.folder.join(name);
        if !self.force && self.is_there(&location, &path, name, object)? {
            (self.progress)(object.size);
            return Ok(Fetched {
                path,
                bytes: object.size,
                unchanged: true,
                resumed_from: 0,
            });
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(BucketError::file("make", parent))?;
        }
        let mut partial = Partial::open(&path, &location.to_string())?;
        if partial.validator() != Some(object.etag.as_str()) || partial.length() > object.size {
            partial.restart(Some(object.etag.clone()))?;
        }
        let resumed_from = partial.length();
        (self.progress)(resumed_from);
        let is_md5 = self.receive(&location, object, &mut partial)?;
        partial.sync()?;
        if is_md5 {
            let sum = checksum::md5(partial.path());
            let sum = sum.map_err(BucketError::file("read", partial.path()))?;
            let got = sum.to_string().trim_start_matches("md5:").to_owned();
            if got != object.etag {
                partial.discard()?;
                return Err(BucketError::Damaged {
                    location,
                    got,
                    want: object.etag.clone(),
                });
            }
        }
        partial.publish(&path)?;
        self.note(name, &location, object)?;
        Ok(Fetched {
            path,
            bytes: object.size,
            unchanged: false,
            resumed_from,
        })
    }

    /// Whether the file is this version of the object; an error if it is another file.
    fn is_there(
        &self,
        location: &Location,
        path: &Path,
        name: &str,
        object: &Object,
    ) -> Result<bool, BucketError> {
        let Ok(meta) = fs::metadata(path) else {
            return Ok(false);
        };
        let source = location.to_string();
        match self.known.get(name).filter(|line| line.source == source) {
            Some(line) if line.etag == object.etag && meta.len() == object.size => Ok(true),
            Some(line) if line.etag != object.etag => Err(BucketError::ChangedSince {
                location: location.clone(),
                path: path.to_owned(),
                then: line.etag.clone(),
                now: object.etag.clone(),
            }),
            _ => {
                let sum = checksum::md5(path).map_err(BucketError::file("read", path))?;
                if sum.to_string() == format!("md5:{}", object.etag) {
                    self.note(name, location, object)?;
                    return Ok(true);
                }
                Err(BucketError::Exists {
                    location: location.clone(),
                    path: path.to_owned(),
                })
            }
        }
    }

    /// Reads until all bytes are there; whether the entity tag is their MD5.
    fn receive(
        &self,
        location: &Location,
        object: &Object,
        partial: &mut Partial,
    ) -> Result<bool, BucketError> {
        let (mut fruitless, mut is_md5) = (0, false);
        while partial.length() < object.size {
            let before = partial.length();
            let broken = match self.pieces(location, object, partial, &mut is_md5) {
                Ok(()) => continue,
                Err(Stop::Final(error)) => return Err(*error),
                Err(Stop::Broken(source)) => source,
            };
            fruitless = if partial.length() > before {
                1
            } else {
                fruitless + 1
            };
            if fruitless >= ATTEMPTS {
                return Err(BucketError::GaveUp {
                    location: location.clone(),
                    attempts: fruitless,
                    bytes: partial.length(),
                    source: broken,
                });
            }
        }
        Ok(is_md5)
    }

    fn pieces(
        &self,
        location: &Location,
        object: &Object,
        partial: &mut Partial,
        is_md5: &mut bool,
    ) -> Result<(), Stop> {
        let version = Some(object.etag.as_str()).filter(|etag| !etag.is_empty());
        let mut reading = self.client.read(location, partial.length(), version)?;
        let is_other = !reading.etag.is_empty() && reading.etag != object.etag;
        if is_other || reading.size != object.size {
            let location = Box::new(location.clone());
            return Err(S3Error::Changed { location }.into());
        }
        *is_md5 = reading.is_md5;
        let mut piece = vec![0; 1 << 18];
        loop {
            let read = reading.read(&mut piece).map_err(Stop::Broken)?;
            if read == 0 {
                break;
            }
            partial.append(&piece[..read])?;
            (self.progress)(read as u64);
        }
        if partial.length() < object.size {
            return Err(Stop::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    fn note(&self, name: &str, location: &Location, object: &Object) -> Result<(), BucketError> {
        let line = Line {
            name: name.to_owned(),
            source: location.to_string(),
            etag: object.etag.clone(),
            size: object.size,
        };
        let mut text = serde_json::to_vec(&line).expect("a line has only plain values");
        text.push(b'\n');
        let path = self.folder.join(RECORD);
        let _one_at_a_time = self.record.lock();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(&text))
            .map_err(BucketError::file("write", &path))
    }
}

/// Why a transfer stopped.
enum Stop {
    Broken(io::Error),
    Final(Box<BucketError>),
}

impl From<S3Error> for Stop {
    fn from(error: S3Error) -> Self {
        Self::Final(Box::new(error.into()))
    }
}

impl From<crate::fetch::FetchError> for Stop {
    fn from(error: crate::fetch::FetchError) -> Self {
        Self::Final(Box::new(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str) -> Object {
        Object {
            key: key.to_owned(),
            size: 1,
            etag: "e".to_owned(),
        }
    }

    fn names(from: &str, keys: &[&str]) -> Result<Vec<String>, String> {
        let from = Location::parse(from).unwrap();
        let found = keys.iter().map(|key| object(key)).collect();
        let chosen = choose(&from, found).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn an_object_or_what_is_below_it() {
        let keys = ["data/a.txt", "data/a.txt.old", "data/b/c.txt", "data/b/"];
        assert_eq!(names("s3://x/data/a.txt", &keys).unwrap(), ["a.txt"]);
        let all = ["a.txt", "a.txt.old", "b/c.txt"];
        assert_eq!(names("s3://x/data/", &keys).unwrap(), all);
        assert_eq!(names("s3://x/data", &keys).unwrap(), all);
        assert!(
            names("s3://x/dat", &keys)
                .unwrap_err()
                .contains("no such objects")
        );
        let escape = names("s3://x/data/", &["data/../../etc/passwd"]).unwrap_err();
        assert!(escape.contains("not the name of a file"), "{escape}");
    }

    #[test]
    fn a_record_with_half_a_line_is_read_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORD);
        let line = r#"{"name":"a","source":"s3://x/a","etag":"e","size":1}"#;
        fs::write(&path, format!("{line}\n{{\"name\":\"b\",\"sou")).unwrap();
        assert_eq!(read_record(&path).keys().collect::<Vec<_>>(), ["a"]);
        assert!(read_record(&folder.path().join("none")).is_empty());
    }
}
