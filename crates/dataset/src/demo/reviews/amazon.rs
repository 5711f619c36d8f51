//! Reads the Amazon review files: one JSON object per line, compressed with gzip.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::corpus::Corpus;
use super::review::Review;
use crate::demo::DemoError;

/// Longer lines count as damage.
const LONGEST_LINE: u64 = 16 << 20;

/// The fields that matter; the others are skipped.
#[derive(Deserialize)]
struct Line {
    overall: f64,
    #[serde(rename = "reviewText")]
    text: String,
}

/// Adds every review of the file to the corpus. `progress` is called with the number of compressed bytes read.
pub(crate) fn read(
    path: &Path,
    corpus: &mut Corpus,
    progress: &dyn Fn(u64),
) -> Result<(), DemoError> {
    let file = File::open(path).map_err(|source| DemoError::read(path, source))?;
    let mut start = BufReader::with_capacity(1 << 18, Metered { file, progress });
    let compressed = start
        .fill_buf()
        .map_err(|source| DemoError::read(path, source))?
        .starts_with(&[0x1f, 0x8b]);
    let input: Box<dyn Read + '_> = if compressed {
        Box::new(MultiGzDecoder::new(start))
    } else {
        Box::new(start)
    };
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|source| DemoError::read(path, source))? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Line { overall, text } =
            serde_json::from_slice(&line).map_err(|source| DemoError::BadReview {
                path: path.to_owned(),
                line: number,
                source,
            })?;
        corpus
            .add(&Review {
                stars: overall,
                text,
            })
            .map_err(|source| DemoError::write(path, source))?;
    }
    Ok(())
}

/// Reports how much of a file has been read.
struct Metered<'a> {
    file: File,
    progress: &'a dyn Fn(u64),
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::reviews::corpus::Sizes;
    use std::cell::Cell;
    use std::io::Write;

    fn lines() -> String {
        let mut text = String::new();
        for i in 0..30 {
            text += &format!(
                "{{\"reviewerID\": \"A{i}\", \"helpful\": [0, 1], \"reviewText\": \"Works great, no. {i}\", \"overall\": 5.0}}\n"
            );
            text += &format!(
                "{{\"overall\": {}.0, \"reviewText\": \"Broke \\\"at once\\\" {i}\", \"summary\": \"x\"}}\n",
                1 + i % 2
            );
            text += "{\"overall\": 3.0, \"reviewText\": \"so so\"}\n";
            text += "{\"overall\": 5.0, \"reviewText\": \"\"}\n";
        }
        text
    }

    #[test]
    fn compressed_and_plain_files_give_the_same_set() {
        let directory = tempfile::tempdir().unwrap();
        let mut sets = Vec::new();
        for compressed in [true, false] {
            let path = directory.path().join(format!("reviews-{compressed}"));
            let mut content = lines().into_bytes();
            if compressed {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&content).unwrap();
                content = encoder.finish().unwrap();
            }
            std::fs::write(&path, &content).unwrap();
            let data = directory.path().join(format!("data-{compressed}"));
            std::fs::create_dir(&data).unwrap();
            let mut corpus = Corpus::new(1, &data).unwrap();
            let read_bytes = Cell::new(0);
            read(&path, &mut corpus, &|bytes| {
                read_bytes.set(read_bytes.get() + bytes)
            })
            .unwrap();
            assert_eq!(read_bytes.get(), content.len() as u64);
            let summary = corpus.finish(&data, Sizes::of_real_set).unwrap();
            assert_eq!(summary.sizes, Sizes { train: 27, test: 3 });
            sets.push(std::fs::read_to_string(data.join("train.txt")).unwrap());
        }
        assert_eq!(sets[0], sets[1]);
        assert!(
            sets[0]
                .lines()
                .any(|line| line.starts_with("0\tbroke \" at once \" ")),
            "{}",
            sets[0]
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reviews");
        std::fs::write(
            &path,
            "{\"overall\": 5.0, \"reviewText\": \"a\"}\n{'overall': 5.0}\n",
        )
        .unwrap();
        let mut corpus = Corpus::new(1, directory.path()).unwrap();
        let error = read(&path, &mut corpus, &|_| ()).unwrap_err();
        assert!(
            matches!(error, DemoError::BadReview { line: 2, .. }),
            "{error:?}"
        );
    }
}
