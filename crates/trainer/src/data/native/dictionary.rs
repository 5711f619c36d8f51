//! A dictionary of words: their ids are the numbers of their lines.
//!
//! Open addressing over one buffer of bytes: looking a word up allocates nothing and touches two cache lines.

use std::path::Path;

use crate::data::error::DataError;

/// Words and their ids.
pub(super) struct Dictionary {
    /// Numbers of entries plus one; 0 for free. A power of two, at most half full.
    places: Vec<u32>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    lines: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    start: usize,
    length: u32,
    id: u32,
}

impl Dictionary {
    /// Reads a file with a word at the start of each line; what follows a tab is ignored.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let bytes = std::fs::read(path).map_err(|source| DataError::Dictionary {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::new(&bytes))
    }

    fn new(bytes: &[u8]) -> Self {
        let count = memchr::memchr_iter(b'\n', bytes).count() + 1;
        let mut dictionary = Self {
            places: vec![0; (count * 2).next_power_of_two()],
            entries: Vec::with_capacity(count),
            bytes: Vec::with_capacity(bytes.len()),
            lines: 0,
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let end = memchr::memchr2(b'\t', b'\n', line).unwrap_or(line.len());
            dictionary.add(line[..end].trim_ascii());
        }
        dictionary
    }

    /// Gives the next id to a word; of equal words the last one counts.
    fn add(&mut self, word: &[u8]) {
        let id = self.lines;
        self.lines += 1;
        let hash = hash(word);
        match self.find(hash, word) {
            Ok(entry) => self.entries[entry].id = id,
            Err(place) => {
                self.entries.push(Entry {
                    hash,
                    start: self.bytes.len(),
                    length: word.len() as u32,
                    id,
                });
                self.bytes.extend_from_slice(word);
                self.places[place] = self.entries.len() as u32;
            }
        }
    }

    /// Number of lines, which is the number of ids.
    pub fn len(&self) -> u32 {
        self.lines
    }

    /// The id of a word.
    #[inline]
    pub fn id(&self, word: &[u8]) -> Option<u32> {
        let entry = self.find(hash(word), word).ok()?;
        Some(self.entries[entry].id)
    }

    /// The entry of a word, or the free place where it would go.
    #[inline]
    fn find(&self, hash: u64, word: &[u8]) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let number = self.places[place] as usize;
            if number == 0 {
                return Err(place);
            }
            let entry = &self.entries[number - 1];
            if entry.hash == hash && self.word(entry) == word {
                return Ok(number - 1);
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn word(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.length as usize]
    }
}

/// Eight bytes at a time, multiplied and folded.
#[inline]
fn hash(word: &[u8]) -> u64 {
    let mut state = word.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let (eights, rest) = word.as_chunks::<8>();
    for eight in eights {
        state = fold(state ^ u64::from_le_bytes(*eight));
    }
    let mut last = 0u64;
    for byte in rest {
        last = last << 8 | u64::from(*byte);
    }
    fold(state ^ last)
}

#[inline]
fn fold(x: u64) -> u64 {
    let product = u128::from(x) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_line_numbers() {
        let dictionary = Dictionary::new(b"unk\t-1\nthe\t100\nof\t50\n\nthe\t3");
        assert_eq!(dictionary.len(), 5);
        assert_eq!(dictionary.id(b"unk"), Some(0));
        assert_eq!(dictionary.id(b"of"), Some(2));
        assert_eq!(
            dictionary.id(b"the"),
            Some(4),
            "the last of equal words counts, as in Python"
        );
        assert_eq!(dictionary.id(b"nothing"), None);
        assert_eq!(Dictionary::new(b"").id(b"x"), None);
    }

    #[test]
    fn many_words_are_told_apart() {
        let text: String = (0..20_000).map(|i| format!("word{i}\t1\n")).collect();
        let dictionary = Dictionary::new(text.as_bytes());
        for i in 0..20_000u32 {
            assert_eq!(dictionary.id(format!("word{i}").as_bytes()), Some(i));
        }
        assert_eq!(dictionary.id(b"word20000"), None);
    }
}
