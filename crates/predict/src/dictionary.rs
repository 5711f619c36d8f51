//! Words and their ids, both ways.

use std::collections::HashMap;
use std::path::Path;

use trainer::data::WordList;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::error::PredictError;

/// What becomes of a word that is not in the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It has this id.
    Id(u32),
    /// It is left out.
    Drop,
    /// It is an error.
    Refuse,
}

/// A dictionary of one or more slots.
#[derive(Debug, Clone)]
pub struct Dictionary {
    words: Vec<String>,
    ids: HashMap<String, u32, Xxh3DefaultBuilder>,
    /// What becomes of other words.
    pub unknown: Unknown,
}

impl Dictionary {
    /// From the words by id; of equal words the last one counts, as in Python.
    pub fn new(words: Vec<String>, unknown: Unknown) -> Self {
        let ids = words.iter().cloned().zip(0..).collect();
        Self {
            words,
            ids,
            unknown,
        }
    }

    /// From what a data source says.
    pub fn of(list: &WordList) -> Self {
        let unknown = list.unknown.map_or(Unknown::Refuse, Unknown::Id);
        Self::new(list.words.clone(), unknown)
    }

    /// Reads a file: a word per line, whose number from 0 is its id; or `word<TAB>id` on every line, as v1's label files.
    pub fn read(path: &Path, unknown: Unknown) -> Result<Self, PredictError> {
        let bytes = std::fs::read(path).map_err(|source| PredictError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self::new(listed(&String::from_utf8_lossy(&bytes)), unknown))
    }

    /// The id of a word.
    pub fn id(&self, word: &str) -> Option<u32> {
        self.ids.get(word).copied()
    }

    /// The word of an id; `None` if it has none.
    pub fn word(&self, id: u32) -> Option<&str> {
        let word = self.words.get(id as usize)?;
        (!word.is_empty()).then_some(word)
    }

    /// The words by id.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// The words of a file by id. If every line has a number behind a tab and no two lines the same, these are the ids,
/// else line numbers are (numbers behind a tab are often counts).
fn listed(text: &str) -> Vec<String> {
    let lines: Vec<(&str, Option<usize>)> = text
        .lines()
        .map(|line| match line.split_once('\t') {
            Some((word, number)) => (word.trim(), number.trim().parse().ok()),
            None => (line.trim(), None),
        })
        .collect();
    let mut seen = vec![false; lines.len()];
    let permutation = lines.iter().all(|(_, id)| {
        let free = id.and_then(|id| seen.get_mut(id)).filter(|seen| !**seen);
        free.map(|seen| *seen = true).is_some()
    });
    let mut words = vec![String::new(); lines.len()];
    for (number, (word, id)) in lines.into_iter().enumerate() {
        let id = id.filter(|_| permutation).unwrap_or(number);
        word.clone_into(&mut words[id]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_line_numbers_or_those_of_the_file() {
        assert_eq!(listed("unk\t-1\nthe\t90\nof\t30"), ["unk", "the", "of"]);
        assert_eq!(listed("pos\t1\nneg\t0\n"), ["neg", "pos"]);
        assert_eq!(listed("a\t0\nb\t0\n"), ["a", "b"]);
        assert_eq!(listed("blame\npraise"), ["blame", "praise"]);
    }

    #[test]
    fn words_and_ids_lead_to_each_other() {
        let dictionary =
            Dictionary::new(vec!["a".into(), String::new(), "b".into()], Unknown::Drop);
        assert_eq!((dictionary.id("b"), dictionary.id("c")), (Some(2), None));
        assert_eq!((dictionary.word(2), dictionary.word(1)), (Some("b"), None));
        assert_eq!(dictionary.word(7), None);
    }
}
