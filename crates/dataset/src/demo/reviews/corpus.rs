//! Turns labelled reviews into the files of the quick_start demo.
//!
//! v1's script did `sort | uniq | shuf` on each class, cut both to the length of the shorter one and used the end
//! for testing. Here a line's position is the hash of (seed, line): sorting by it shuffles and makes equal
//! lines neighbours, whatever the order of arrival. Only hashes and positions stay in memory; the text is
//! in an unnamed temporary file, so the size of the data set does not matter.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::review::{Review, Sentiment};
use super::tokenizer::tokenize;
use crate::demo::DemoError;

/// Lines of `dict.txt`, the unknown word included.
pub(crate) const DICTIONARY_LINES: usize = 30_001;
/// The word of the dictionary's first line, which represents all words that are not in it.
const UNKNOWN: &str = "unk";
/// At most this many reviews of each class are kept for testing.
const TEST_LIMIT: usize = 12_500;
/// Lines of `pred.txt`, the unlabelled samples to try prediction with.
const PREDICTION_LINES: usize = 100;

/// Reviews that have been collected for the data files.
pub(crate) struct Corpus {
    seed: u64,
    classes: [Class; 2],
    counts: HashMap<String, u64>,
}

/// How many reviews of each class go into training and testing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Training reviews of each class.
    pub train: usize,
    /// Test reviews of each class.
    pub test: usize,
}

impl Sizes {
    /// v1's rule for `available` distinct reviews in the smaller class: a tenth for testing, at most 12,500.
    pub(crate) fn of_real_set(available: usize) -> Self {
        let test = (available / 10).min(TEST_LIMIT);
        Self {
            train: available - test,
            test,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Reviews of both classes.
    pub sizes: Sizes,
    /// Distinct words seen.
    pub words: usize,
    /// Lines of the dictionary.
    pub dictionary: usize,
}

impl Corpus {
    /// An empty corpus that keeps its text in a temporary file in `directory`.
    pub(crate) fn new(seed: u64, directory: &Path) -> Result<Self, DemoError> {
        let class = || Class::new(directory).map_err(|source| DemoError::write(directory, source));
        Ok(Self {
            seed,
            classes: [class()?, class()?],
            counts: HashMap::new(),
        })
    }

    /// Adds a review, if it has a label and any words.
    pub(crate) fn add(&mut self, review: &Review) -> io::Result<()> {
        let Some(label) = review.label() else {
            return Ok(());
        };
        let words = tokenize(&review.text);
        if words.is_empty() {
            return Ok(());
        }
        for word in words.split(' ') {
            match self.counts.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(word.to_owned(), 1);
                }
            }
        }
        self.classes[label as usize].add(self.seed, &words)
    }

    /// Reviews added for `label`, duplicates included.
    pub(crate) fn taken(&self, label: Sentiment) -> usize {
        self.classes[label as usize].places.len()
    }

    /// Writes all data files into `data`. `sizes` chooses from the number of distinct reviews in the smaller class.
    pub(crate) fn finish(
        mut self,
        data: &Path,
        sizes: impl FnOnce(usize) -> Sizes,
    ) -> Result<Summary, DemoError> {
        for class in &mut self.classes {
            class.shuffle_and_drop_doubles();
        }
        let available = self
            .classes
            .iter()
            .map(|class| class.places.len())
            .min()
            .unwrap_or(0);
        let sizes = sizes(available);
        if sizes.train == 0 || sizes.test == 0 || sizes.train + sizes.test > available {
            return Err(DemoError::TooFewReviews {
                available,
                wanted: sizes.train + sizes.test,
            });
        }
        let dictionary = write_dictionary(&data.join("dict.txt"), &self.counts)?;
        let train = self.select(|n| 0..sizes.train.min(n));
        self.write_samples(&data.join("train.txt"), train)?;
        let test = self.select(|n| n.saturating_sub(sizes.test)..n);
        let prediction = test.iter().take(PREDICTION_LINES).copied().collect();
        self.write_samples(&data.join("test.txt"), test)?;
        self.write_texts(&data.join("pred.txt"), prediction)?;
        for (name, content) in LISTS {
            let path = data.join(name);
            std::fs::write(&path, content).map_err(|source| DemoError::write(&path, source))?;
        }
        Ok(Summary {
            sizes,
            words: self.counts.len(),
            dictionary,
        })
    }

    /// A range of each class, mixed in an order of its own.
    fn select(
        &self,
        range: impl Fn(usize) -> std::ops::Range<usize>,
    ) -> Vec<(Sentiment, LineAddress)> {
        let mut chosen = Vec::new();
        for label in [Sentiment::Negative, Sentiment::Positive] {
            let places = &self.classes[label as usize].places;
            chosen.extend(
                places[range(places.len())]
                    .iter()
                    .map(|&place| (label, place)),
            );
        }
        chosen.sort_unstable_by_key(|(label, place)| {
            (
                xxh3_64_with_seed(&place.hash.to_le_bytes(), self.seed),
                *label as u8,
            )
        });
        chosen
    }

    fn write_samples(
        &mut self,
        path: &Path,
        samples: Vec<(Sentiment, LineAddress)>,
    ) -> Result<(), DemoError> {
        self.write_lines(path, samples, |label| match label {
            Sentiment::Negative => "0\t",
            Sentiment::Positive => "1\t",
        })
    }

    fn write_texts(
        &mut self,
        path: &Path,
        samples: Vec<(Sentiment, LineAddress)>,
    ) -> Result<(), DemoError> {
        self.write_lines(path, samples, |_| "")
    }

    fn write_lines(
        &mut self,
        path: &Path,
        samples: Vec<(Sentiment, LineAddress)>,
        prefix: impl Fn(Sentiment) -> &'static str,
    ) -> Result<(), DemoError> {
        let write = || -> io::Result<()> {
            let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
            let mut line = Vec::new();
            for (label, place) in samples {
                self.classes[label as usize].read(place, &mut line)?;
                file.write_all(prefix(label).as_bytes())?;
                file.write_all(&line)?;
                file.write_all(b"\n")?;
            }
            file.flush()
        };
        write().map_err(|source| DemoError::write(path, source))
    }
}

/// The small files that name the others.
const LISTS: [(&str, &str); 4] = [
    ("train.list", "data/train.txt\n"),
    ("test.list", "data/test.txt\n"),
    ("pred.list", "data/pred.txt\n"),
    ("labels.list", "neg\t0\npos\t1\n"),
];

/// `word<TAB>count`, most frequent first, equal counts by word; line 0 is the unknown word.
fn write_dictionary(path: &Path, counts: &HashMap<String, u64>) -> Result<usize, DemoError> {
    let mut words: Vec<(&String, u64)> =
        counts.iter().map(|(word, &count)| (word, count)).collect();
    // The line of the unknown word has been written already.
    words.retain(|(word, _)| word.as_str() != UNKNOWN);
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    words.truncate(DICTIONARY_LINES - 1);
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "{UNKNOWN}\t-1")?;
        for (word, count) in &words {
            writeln!(file, "{word}\t{count}")?;
        }
        file.flush()
    };
    write().map_err(|source| DemoError::write(path, source))?;
    Ok(words.len() + 1)
}

/// The offset of a line in the temporary file, and its position in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LineAddress {
    hash: u128,
    offset: u64,
    length: u32,
}

/// The reviews of one label.
struct Class {
    text: BufWriter<File>,
    end: u64,
    places: Vec<LineAddress>,
}

impl Class {
    fn new(directory: &Path) -> io::Result<Self> {
        let text = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(directory)?);
        Ok(Self {
            text,
            end: 0,
            places: Vec::new(),
        })
    }

    fn add(&mut self, seed: u64, line: &str) -> io::Result<()> {
        let length = u32::try_from(line.len()).map_err(io::Error::other)?;
        self.text.write_all(line.as_bytes())?;
        let hash = xxh3_128_with_seed(line.as_bytes(), seed);
        self.places.push(LineAddress {
            hash,
            offset: self.end,
            length,
        });
        self.end += u64::from(length);
        Ok(())
    }

    fn shuffle_and_drop_doubles(&mut self) {
        self.places.sort_unstable();
        self.places.dedup_by_key(|place| place.hash);
    }

    fn read(&mut self, place: LineAddress, line: &mut Vec<u8>) -> io::Result<()> {
        self.text.flush()?;
        line.resize(place.length as usize, 0);
        let file = self.text.get_mut();
        file.seek(SeekFrom::Start(place.offset))?;
        file.read_exact(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(stars: f64, text: &str) -> Review {
        Review {
            stars,
            text: text.to_owned(),
        }
    }

    fn corpus(directory: &Path, reviews: &[Review]) -> Corpus {
        let mut corpus = Corpus::new(5, directory).unwrap();
        for review in reviews {
            corpus.add(review).unwrap();
        }
        corpus
    }

    fn sample_reviews() -> Vec<Review> {
        let mut reviews = Vec::new();
        for i in 0..20 {
            reviews.push(review(5.0, &format!("good number {i}")));
            reviews.push(review(1.0, &format!("bad number {i}")));
            reviews.push(review(5.0, &format!("extra {i}")));
            reviews.push(review(3.0, "undecided"));
        }
        reviews.push(review(2.0, "Bad number 3"));
        reviews.push(review(5.0, "unk"));
        reviews.push(review(1.0, " \t "));
        reviews
    }

    fn lines(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn classes_are_balanced_distinct_and_split() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let summary = corpus(data, &sample_reviews())
            .finish(data, Sizes::of_real_set)
            .unwrap();
        assert_eq!(summary.sizes, Sizes { train: 18, test: 2 });
        let mut all = lines(&data.join("train.txt"));
        assert_eq!(
            all.iter().filter(|line| line.starts_with("1\t")).count(),
            18
        );
        let test = lines(&data.join("test.txt"));
        assert_eq!(
            test.iter().filter(|line| line.starts_with("0\t")).count(),
            2
        );
        assert_eq!(lines(&data.join("pred.txt")).len(), 4);
        all.extend(test);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40, "no sample twice, none in both files");
    }

    #[test]
    fn the_dictionary_is_ordered_by_count_and_begins_with_the_unknown_word() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        corpus(data, &sample_reviews())
            .finish(data, Sizes::of_real_set)
            .unwrap();
        let dictionary = lines(&data.join("dict.txt"));
        assert_eq!(
            dictionary[..4],
            ["unk\t-1", "number\t41", "bad\t21", "extra\t20"]
        );
        assert!(!dictionary.iter().any(|line| line.starts_with("undecided")));
        assert_eq!(
            dictionary
                .iter()
                .filter(|line| line.starts_with("unk"))
                .count(),
            1
        );
    }

    #[test]
    fn order_of_arrival_does_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let mut reviews = sample_reviews();
        let write = |reviews: &[Review], name: &str| {
            let data = directory.path().join(name);
            std::fs::create_dir(&data).unwrap();
            corpus(&data, reviews)
                .finish(&data, Sizes::of_real_set)
                .unwrap();
            std::fs::read(data.join("train.txt")).unwrap()
        };
        let first = write(&reviews, "first");
        reviews.reverse();
        assert_eq!(first, write(&reviews, "second"));
    }

    #[test]
    fn too_few_reviews_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let error = corpus(data, &[review(5.0, "good"), review(1.0, "bad")])
            .finish(data, Sizes::of_real_set)
            .unwrap_err();
        assert!(
            matches!(
                error,
                DemoError::TooFewReviews {
                    available: 1,
                    wanted: 1
                }
            ),
            "{error:?}"
        );
    }

    #[test]
    fn the_test_part_of_a_large_set_is_limited() {
        assert_eq!(
            Sizes::of_real_set(1_000),
            Sizes {
                train: 900,
                test: 100
            }
        );
        assert_eq!(
            Sizes::of_real_set(190_000),
            Sizes {
                train: 177_500,
                test: 12_500
            }
        );
    }
}
