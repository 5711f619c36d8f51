//! Passes received files on to an object store, without a copy on this machine.
//!
//! Objects are stored with the SHA-256 of their contents, so a second attempt requests only the missing ones. An object
//! appears when its contents have been checked: an interrupted attempt leaves complete objects only, and the next attempt
//! continues with the first that is missing.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use ring::digest::{Context, SHA256};
use s3::client::{ObjectHead, WriteError};
use s3::{Client, Location};

use super::{CarryError, Existing, Item, Place};
use crate::bucket::{BucketError, is_mark};
use crate::checksum::Checksum;
use crate::parallel;

/// Largest file that can mark others as complete, in bytes.
const LARGEST_MARK: u64 = 1 << 16;

/// A store, and the prefix under which objects are written.
pub struct Prefix {
    /// The store.
    pub client: Client,
    /// The beginning of their keys.
    pub location: Location,
}

/// Objects below a prefix.
pub(super) struct Objects<'a> {
    prefix: &'a Prefix,
    existing: Existing,
    /// Files that mark others as complete, to be written after them.
    marks: Vec<(Item, Vec<u8>)>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(prefix: &'a Prefix, existing: Existing) -> Self {
        Self {
            prefix,
            existing,
            marks: Vec::new(),
        }
    }

    fn location(&self, item: &Item) -> Location {
        self.prefix.location.join("").join(&item.name)
    }

    /// The sizes of existing objects by name; their contents may differ from the files to be sent.
    fn sizes(&self) -> Result<BTreeMap<String, u64>, CarryError> {
        let objects = self.prefix.client.list(&self.prefix.location.join(""));
        let objects = objects.map_err(BucketError::from)?.into_iter();
        Ok(objects.map(|object| (object.key, object.size)).collect())
    }

    fn is_same(&self, item: &Item, location: &Location) -> Result<bool, BucketError> {
        match self.prefix.client.head(location)? {
            None => Ok(false),
            Some(ObjectHead { sha256: Some(sum) }) => Ok(sum == item.sum),
            // Another program has written the object, so its contents must be compared.
            Some(ObjectHead { sha256: None }) => Ok(self.sum(location)? == item.sum),
        }
    }

    fn sum(&self, location: &Location) -> Result<String, BucketError> {
        let mut body = self.prefix.client.read(location, 0, None)?;
        let mut sum = Context::new(&SHA256);
        let mut piece = vec![0; 1 << 20];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(Checksum::of(sum).to_string()),
                Ok(read) => sum.update(&piece[..read]),
                Err(source) => {
                    return Err(BucketError::Unread {
                        location: location.clone(),
                        source,
                    });
                }
            }
        }
    }

    fn write(
        &self,
        item: &Item,
        content: &mut dyn Read,
        tell: &dyn Fn(u64),
    ) -> Result<(), CarryError> {
        let location = self.location(item);
        let (client, mut content) = (&self.prefix.client, Checked::new(content, item));
        let written = client.write(&location, &mut content, item.size, Some(&item.sum), tell);
        written.map_err(|error| match error {
            WriteError::Store(error) => BucketError::Store(error).into(),
            WriteError::Content(error) if error.kind() == io::ErrorKind::InvalidData => {
                CarryError::Differs {
                    path: PathBuf::from(location.to_string()),
                }
            }
            WriteError::Content(error) => CarryError::Broken(error),
        })
    }
}

impl Place for Objects<'_> {
    fn bytes_there(&self, items: &[Item]) -> Result<Vec<u64>, CarryError> {
        let sizes = self.sizes()?;
        parallel::for_each(items.len(), |index| {
            let item = &items[index];
            let location = self.location(item);
            let Some(size) = sizes.get(&location.key) else {
                return Ok(0);
            };
            if *size == item.size && self.is_same(item, &location)? {
                return Ok(item.size);
            }
            if self.existing.keeps(item) {
                return Err(BucketError::OtherModel { location }.into());
            }
            Ok(0)
        })
    }

    fn take(
        &mut self,
        item: &Item,
        there: u64,
        input: &mut dyn BufRead,
        tell: &dyn Fn(u64),
    ) -> Result<(), CarryError> {
        if is_mark(&item.name) && item.size <= LARGEST_MARK {
            let mut content = Vec::new();
            let mut rest = input.take(item.size - there);
            rest.read_to_end(&mut content).map_err(CarryError::Broken)?;
            if there == 0 {
                self.marks.push((item.clone(), content));
            }
            return Ok(());
        }
        if there < item.size || item.size == 0 {
            let written = std::cell::Cell::new(0);
            self.write(item, input, &|bytes| {
                written.set(written.get() + bytes);
                tell(written.get());
            })?;
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<(), CarryError> {
        for (item, content) in std::mem::take(&mut self.marks) {
            self.write(&item, &mut content.as_slice(), &|_| {})?;
        }
        Ok(())
    }
}

/// Passes on the contents of a file; the last bytes only if the checksum of all of them is the announced one.
struct Checked<'a> {
    content: io::Take<&'a mut dyn Read>,
    sum: Context,
    announced: &'a str,
}

impl<'a> Checked<'a> {
    fn new(content: &'a mut dyn Read, item: &'a Item) -> Self {
        Self {
            content: content.take(item.size),
            sum: Context::new(&SHA256),
            announced: &item.sum,
        }
    }
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.sum.update(&buffer[..read]);
        let is_last = read > 0 && self.content.limit() == 0;
        if is_last && Checksum::of(self.sum.clone()).to_string() != self.announced {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(content: &[u8]) -> Item {
        let mut sum = Context::new(&SHA256);
        sum.update(content);
        Item {
            name: "pass-00000/_w".to_owned(),
            size: content.len() as u64,
            sum: Checksum::of(sum).to_string(),
        }
    }

    /// An object appears with its last bytes: they do not leave before the whole is known to be right.
    #[test]
    fn the_last_bytes_are_kept_back_until_all_are_right() {
        let content: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
        let announced = item(&content);
        let mut passed = Vec::new();
        let mut next = content.clone();
        next.extend(b"the next file");
        let mut pipe = next.as_slice();
        let read = Checked::new(&mut pipe, &announced).read_to_end(&mut passed);
        assert_eq!((read.unwrap(), &passed), (100_000, &content));
        assert_eq!(pipe, b"the next file");

        let mut other = content;
        other[50_000] ^= 1;
        passed.clear();
        let ended = Checked::new(&mut other.as_slice(), &announced).read_to_end(&mut passed);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(passed.len() < 100_000);
    }
}
