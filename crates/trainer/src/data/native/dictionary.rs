//! A dictionary of words: their ids are their line numbers, from 0.
//!
//! Lookups dominate the cost of reading a bag of words, so the dictionary is built for them: [`Words`] finds the end of
//! a word and hashes it in the same steps of eight bytes, and the table (open addressing, at most three quarters full)
//! holds short words themselves, so that a lookup touches one cache line.

use std::path::Path;

use crate::data::error::DataError;

/// Words and their ids.
pub(super) struct WordIds {
    /// The cells of the hash table; their number is a power of two.
    places: Vec<WordCell>,
    /// The words that are too long for a cell, one after another.
    long: Vec<u8>,
    lines: u32,
}

/// The longest word that is stored in the table itself, in bytes.
const SHORT: usize = 20;

/// One cell of the table: half a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct WordCell {
    /// The word, or its offset in `long`.
    word: [u8; SHORT],
    length: u32,
    /// The upper half of the hash.
    tag: u32,
    /// The id plus one; 0 for a free cell.
    id: u32,
}

const FREE: WordCell = WordCell {
    word: [0; SHORT],
    length: 0,
    tag: 0,
    id: 0,
};

impl WordIds {
    /// Reads a file with a word at the start of each line; what follows a tab is ignored.
    pub(super) fn read(path: &Path) -> Result<Self, DataError> {
        let unreadable = |source| DataError::Dictionary {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        if bytes.len() >= u32::MAX as usize {
            let message = "a dictionary of four gigabytes or more";
            return Err(unreadable(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                message,
            )));
        }
        Ok(Self::new(&bytes))
    }

    fn new(bytes: &[u8]) -> Self {
        let count = memchr::memchr_iter(b'\n', bytes).count() + 1;
        let mut dictionary = Self {
            places: vec![FREE; (count + count / 3 + 1).next_power_of_two()],
            long: Vec::new(),
            lines: 0,
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let end = memchr::memchr2(b'\t', b'\n', line).unwrap_or(line.len());
            dictionary.add(line[..end].trim_ascii());
        }
        dictionary
    }

    /// Assigns the next id to a word; of equal words the last one counts.
    fn add(&mut self, word: &[u8]) {
        let hash = hash(word);
        let at = match self.find(hash, word) {
            Ok(at) => at,
            Err(at) => {
                self.places[at] = self.place(hash, word);
                at
            }
        };
        self.lines += 1;
        self.places[at].id = self.lines;
    }

    fn place(&mut self, hash: u64, word: &[u8]) -> WordCell {
        let mut place = WordCell {
            length: word.len() as u32,
            tag: (hash >> 32) as u32,
            ..FREE
        };
        match place.word.get_mut(..word.len()) {
            Some(short) => short.copy_from_slice(word),
            None => {
                let start = self.long.len() as u32;
                place.word[..4].copy_from_slice(&start.to_le_bytes());
                self.long.extend_from_slice(word);
            }
        }
        place
    }

    /// Number of lines, which is the number of ids.
    pub(super) fn len(&self) -> u32 {
        self.lines
    }

    /// The id of a word with its hash.
    #[inline]
    pub(super) fn id(&self, hash: u64, word: &[u8]) -> Option<u32> {
        let at = self.find(hash, word).ok()?;
        Some(self.places[at].id - 1)
    }

    /// The index of a word's cell, or as an error that of the free cell where it would be stored.
    #[inline]
    fn find(&self, hash: u64, word: &[u8]) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = &self.places[at];
            if place.id == 0 {
                return Err(at);
            }
            if place.tag == (hash >> 32) as u32 && self.is(place, word) {
                return Ok(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn is(&self, place: &WordCell, word: &[u8]) -> bool {
        let length = place.length as usize;
        match place.word.get(..length) {
            Some(short) => short == word,
            None => {
                let [a, b, c, d, ..] = place.word;
                let start = u32::from_le_bytes([a, b, c, d]) as usize;
                &self.long[start..start + length] == word
            }
        }
    }
}

/// The words of a text, with their hashes; every byte up to 0x20 (blank) separates words.
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (u64, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while let [b'\0'..=b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let (mut state, mut length) = (SEED, 0);
        loop {
            let Eight {
                bits: eight,
                count: got,
            } = eight(&self.rest[length..]);
            let within = word_bytes(eight).min(got);
            state = step(state, eight, within);
            length += within;
            if within < 8 {
                let (word, rest) = self.rest.split_at(length);
                self.rest = rest;
                return Some((state, word));
            }
        }
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a word, equal to the hash that [`Words`] yields.
fn hash(word: &[u8]) -> u64 {
    let (eights, last) = word.as_chunks::<8>();
    let whole = eights.iter().fold(SEED, |state, eight| {
        step(state, u64::from_le_bytes(*eight), 8)
    });
    step(whole, eight(last).bits, last.len())
}

/// Up to eight bytes.
struct Eight {
    /// The first byte is in the lowest bits.
    bits: u64,
    /// How many bytes there are.
    count: usize,
}

#[inline]
fn eight(text: &[u8]) -> Eight {
    if let Some(eight) = text.first_chunk::<8>() {
        return Eight {
            bits: u64::from_le_bytes(*eight),
            count: 8,
        };
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    Eight {
        bits: u64::from_le_bytes(bytes),
        count: text.len(),
    }
}

/// Number of the eight bytes before the first that is not part of a word.
#[inline]
fn word_bytes(eight: u64) -> usize {
    // The lowest byte below 0x21 borrows from its own highest bit; bytes above it may be wrong, so only the lowest
    // counts.
    let blanks = eight.wrapping_sub(0x2121_2121_2121_2121) & !eight & 0x8080_8080_8080_8080;
    blanks.trailing_zeros() as usize / 8
}

/// Adds the first `count` of eight bytes to a hash.
#[inline]
fn step(state: u64, eight: u64, count: usize) -> u64 {
    let kept = if count < 8 {
        eight & ((1 << (8 * count)) - 1)
    } else {
        eight
    };
    let product = u128::from(state ^ kept ^ ((count as u64) << 60)) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(dictionary: &WordIds, word: &str) -> Option<u32> {
        dictionary.id(hash(word.as_bytes()), word.as_bytes())
    }

    #[test]
    fn ids_are_line_numbers() {
        let dictionary = WordIds::new(b"unk\t-1\nthe\t100\nof\t50\n\nthe\t3");
        assert_eq!(dictionary.len(), 5);
        assert_eq!(id(&dictionary, "unk"), Some(0));
        assert_eq!(id(&dictionary, "of"), Some(2));
        assert_eq!(
            id(&dictionary, "the"),
            Some(4),
            "the last of equal words counts, as in Python"
        );
        assert_eq!(id(&dictionary, "nothing"), None);
        assert_eq!(id(&WordIds::new(b""), "x"), None);
    }

    #[test]
    fn words_of_every_length_are_told_apart() {
        let words: Vec<String> = (0..20_000usize)
            .map(|i| "w".repeat(i % 40) + &i.to_string())
            .collect();
        let dictionary = WordIds::new(words.join("\t1\n").as_bytes());
        for (number, word) in words.iter().enumerate() {
            assert_eq!(id(&dictionary, word), Some(number as u32));
        }
        assert_eq!(id(&dictionary, "20000"), None);
    }

    #[test]
    fn words_are_split_at_blanks_and_hashed_alike() {
        let text = "  a  bb\tccc \u{e9}t\u{e9} eightlet sixteen_letters! and_more_than_sixteen_letters\u{1f600} x";
        let found: Vec<&[u8]> = Words::new(text.as_bytes()).map(|(_, word)| word).collect();
        let want: Vec<&[u8]> = text.split_ascii_whitespace().map(str::as_bytes).collect();
        assert_eq!(found, want);
        for (hashed, word) in Words::new(text.as_bytes()) {
            assert_eq!(hashed, hash(word), "{:?}", String::from_utf8_lossy(word));
        }
        assert_eq!(Words::new(b" \t ").count(), 0);
        assert_eq!(Words::new(b"").count(), 0);
    }
}
