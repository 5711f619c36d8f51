//! Words and their ids, both ways.

use std::collections::HashMap;
use std::path::Path;

use trainer::data::WordList;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

/// How a word that is not in the dictionary is treated.
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
    /// How other words are treated.
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

    /// The dictionary of a data source.
    pub fn of(list: &WordList) -> Self {
        let unknown = list.unknown.map_or(Unknown::Refuse, Unknown::Id);
        Self::new(list.words.clone(), unknown)
    }

    /// Reads a file: a word per line, whose number from 0 is its id; or `word<TAB>id` on every line, as v1's label files.
    pub fn read(path: &Path, unknown: Unknown) -> Result<Self, String> {
        Ok(Self::new(listed(&text(path)?).words, unknown))
    }

    /// As [`read`](Self::read), for the names of classes: numbers after a tab must be their ids, each once.
    pub fn read_labels(path: &Path) -> Result<Self, String> {
        let listed = listed(&text(path)?);
        match listed.no_id {
            Some(line) => Err(format!(
                "line {line} has a number behind a tab, but the numbers of the file are not 0 to {}, each once",
                listed.words.len() - 1
            )),
            None => Ok(Self::new(listed.words, Unknown::Refuse)),
        }
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

fn text(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The words of a file.
struct ListedWords {
    /// The words by id.
    words: Vec<String>,
    /// The first line with a number that is not taken as an id, from 1.
    no_id: Option<usize>,
}

/// The words of a file by id. If every line has a number after a tab and no two lines have the same, these are the ids;
/// otherwise the line numbers are (numbers after a tab are often counts).
fn listed(text: &str) -> ListedWords {
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
    let numbered = lines.iter().position(|(_, id)| id.is_some());
    let no_id = numbered.filter(|_| !permutation).map(|line| line + 1);
    let mut words = vec![String::new(); lines.len()];
    for (number, (word, id)) in lines.into_iter().enumerate() {
        let id = id.filter(|_| permutation).unwrap_or(number);
        word.clone_into(&mut words[id]);
    }
    ListedWords { words, no_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_line_numbers_or_those_of_the_file() {
        let of = |text| {
            let listed = listed(text);
            (listed.words.join(" "), listed.no_id)
        };
        assert_eq!(
            of("unk\t-1\nthe\t90\nof\t30"),
            ("unk the of".into(), Some(2))
        );
        assert_eq!(of("pos\t1\nneg\t0\n"), ("neg pos".into(), None));
        assert_eq!(of("a\t0\nb\t0\n"), ("a b".into(), Some(1)));
        assert_eq!(of("a\t2\nb\t1\n"), ("a b".into(), Some(1)));
        assert_eq!(of("blame\npraise"), ("blame praise".into(), None));
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
