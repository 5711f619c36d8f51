//! Samples from text: pieces of input are cut off one after another, and parsed on any thread.
//!
//! Cutting has to be in order and is cheap; parsing is neither. A [`BatchText`] is what one batch is parsed from.

mod csv;
mod direct;
mod json;
mod quotes;
mod text;

use std::io::BufRead;

use quotes::Quotes;

use nn::Batch;

use crate::error::PredictError;
use crate::sample::{FieldError, Filling, InputField};

/// The longest line that is accepted, in bytes.
const LONGEST_LINE: usize = 1 << 28;

/// What some programs put before text in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// How samples are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// One line per sample; the network has one input.
    Text,
    /// With a header whose columns are named after data layers.
    Csv,
    /// One JSON object per line, with the data layers as keys.
    JsonLines,
}

/// The text of one batch.
#[derive(Debug)]
pub struct BatchText {
    /// Name of the input, for messages.
    pub name: String,
    /// What it holds.
    pub content: Content,
}

impl BatchText {
    /// The keys of its first object, in their order; none if that is no object.
    pub fn keys(&self) -> Vec<String> {
        let Content::Lines(_, bytes) = &self.content else {
            return Vec::new();
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.find(|line| !line.trim_ascii().is_empty());
        let members = first.and_then(json::members).unwrap_or_default();
        members.into_iter().map(|(key, _)| key).collect()
    }

    /// Where it starts, for messages.
    pub fn start(&self) -> String {
        let line = match &self.content {
            Content::Lines(first, _) => *first,
            Content::Records(records) => records.first().map_or(0, |(line, _)| *line),
        };
        format!("line {line}")
    }
}

/// What a piece holds.
#[derive(Debug)]
pub enum Content {
    /// Whole lines; the first has this number, from 1.
    Lines(u64, Vec<u8>),
    /// Records of CSV with their line numbers.
    Records(Vec<(u64, ::csv::ByteRecord)>),
}

/// Cuts an input into pieces.
pub struct Cutter<R: BufRead> {
    name: String,
    samples: usize,
    source: Source<R>,
    /// Why the input cannot be read on, after the pieces that it yielded.
    ended: Option<PredictError>,
}

enum Source<R: BufRead> {
    Lines { reader: R, line: u64 },
    Csv(Box<::csv::Reader<Quotes<R>>>),
}

impl<R: BufRead> Cutter<R> {
    /// An input of lines, cut into pieces of a batch's samples.
    pub fn lines(name: &str, reader: R, samples: usize) -> Self {
        Self {
            name: name.to_owned(),
            samples,
            source: Source::Lines { reader, line: 1 },
            ended: None,
        }
    }

    /// An input of CSV; also returns its header.
    pub fn csv(
        name: &str,
        reader: R,
        separator: u8,
        samples: usize,
    ) -> Result<(Self, Vec<String>), PredictError> {
        let mut reader = ::csv::ReaderBuilder::new()
            .delimiter(separator)
            .from_reader(Quotes::new(reader, separator));
        let header = reader
            .byte_headers()
            .map_err(|error| unreadable(name, error))?;
        let header: Vec<String> = header
            .iter()
            .map(|column| String::from_utf8_lossy(column).trim().to_owned())
            .collect();
        if header.iter().all(String::is_empty) {
            let text = "the file is empty: a header that names the data layers is expected";
            let source = std::io::Error::new(std::io::ErrorKind::InvalidData, text);
            let path = name.to_owned();
            return Err(PredictError::Read { path, source });
        }
        let cutter = Self {
            name: name.to_owned(),
            samples,
            source: Source::Csv(Box::new(reader)),
            ended: None,
        };
        Ok((cutter, header))
    }

    /// The next piece; `None` at the end. What comes before something that cannot be read is a piece, too: the error is
    /// that of the next call.
    pub fn next_piece(&mut self) -> Result<Option<BatchText>, PredictError> {
        if let Some(error) = self.ended.take() {
            return Err(error);
        }
        let (content, ended) = match &mut self.source {
            Source::Lines { reader, line } => {
                let (content, ended) = next_lines(reader, line, self.samples);
                let read = |source| PredictError::Read {
                    path: self.name.clone(),
                    source,
                };
                (content, ended.map(read))
            }
            Source::Csv(reader) => {
                let (content, ended) = next_records(reader, self.samples);
                (content, ended.map(|error| unreadable(&self.name, error)))
            }
        };
        match (&content, ended) {
            (None, Some(error)) => return Err(error),
            (_, ended) => self.ended = ended,
        }
        Ok(content.map(|content| BatchText {
            name: self.name.clone(),
            content,
        }))
    }
}

fn unreadable(name: &str, error: ::csv::Error) -> PredictError {
    let text = match error.kind() {
        ::csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => {
            let line = pos.as_ref().map_or(0, ::csv::Position::line);
            format!("line {line}: {len} fields, but the header has {expected_len} columns")
        }
        _ => error.to_string(),
    };
    PredictError::Read {
        path: name.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, text),
    }
}

/// Some lines, and why no more can be read.
fn next_lines(
    reader: &mut impl BufRead,
    line: &mut u64,
    samples: usize,
) -> (Option<Content>, Option<std::io::Error>) {
    let (first, mut bytes) = (*line, Vec::new());
    let mut ended = None;
    for _ in 0..samples {
        let start = bytes.len();
        match next_line(reader, *line, &mut bytes) {
            Ok(true) => *line += 1,
            Ok(false) => break,
            Err(error) => {
                bytes.truncate(start);
                ended = Some(error);
                break;
            }
        }
    }
    (
        (*line > first).then_some(Content::Lines(first, bytes)),
        ended,
    )
}

/// Appends a line; returns false at the end.
fn next_line(reader: &mut impl BufRead, line: u64, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
    if line == 1 && reader.fill_buf()?.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    let start = bytes.len();
    let limit = (LONGEST_LINE + 1) as u64;
    let got = std::io::Read::take(&mut *reader, limit).read_until(b'\n', bytes)?;
    if bytes.len() - start > LONGEST_LINE {
        let text = format!("line {line} is longer than {LONGEST_LINE} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text));
    }
    Ok(got > 0)
}

/// The records up to the first one that cannot be read, and why that one cannot.
fn next_records(
    reader: &mut ::csv::Reader<Quotes<impl BufRead>>,
    samples: usize,
) -> (Option<Content>, Option<::csv::Error>) {
    let mut records = Vec::new();
    let mut record = ::csv::ByteRecord::new();
    let mut ended = None;
    while records.len() < samples {
        let read = reader.read_byte_record(&mut record);
        // What an open quote has swallowed is one strange record, whatever its fields are.
        if let Some(line) = reader.get_ref().unclosed(reader.position().byte()) {
            let text = format!("line {line}: the file ends inside the quotes that open here");
            let cut = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text);
            ended = Some(cut.into());
            break;
        }
        match read {
            Ok(true) => {
                let line = record.position().map_or(0, ::csv::Position::line);
                records.push((line, std::mem::take(&mut record)));
            }
            Ok(false) => break,
            Err(error) => {
                ended = Some(error);
                break;
            }
        }
    }
    let content = (!records.is_empty()).then_some(Content::Records(records));
    (content, ended)
}

/// Parses pieces into batches of a model's inputs.
#[derive(Debug)]
pub struct Parser {
    fields: Vec<InputField>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Text,
    Csv(csv::CsvColumns),
    JsonLines,
}

impl Parser {
    /// A parser of a format; CSV needs its header.
    pub fn new(
        format: InputFormat,
        fields: &[InputField],
        header: Option<&[String]>,
    ) -> Result<Self, FieldError> {
        let form = match format {
            InputFormat::Text => {
                if let [_, other, ..] = fields {
                    return Err(FieldError {
                        field: other.slot.name.clone(),
                        reason: format!(
                            "a line of text holds one field, but the network has {} inputs; give CSV with a header or JSON lines",
                            fields.len()
                        ),
                    });
                }
                Form::Text
            }
            InputFormat::Csv => Form::Csv(csv::CsvColumns::new(fields, header.unwrap_or(&[]))?),
            InputFormat::JsonLines => Form::JsonLines,
        };
        Ok(Self {
            fields: fields.to_vec(),
            form,
        })
    }

    /// Whether lines are objects of JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.form, Form::JsonLines)
    }

    /// The batch of a piece.
    pub fn parse(&self, piece: &BatchText) -> Result<Batch, PredictError> {
        self.parse_first(piece, usize::MAX)
            .map_err(|unusable| unusable.error)
    }

    /// The batch of the first `count` samples of a piece.
    pub(crate) fn parse_first(&self, piece: &BatchText, count: usize) -> Result<Batch, Unusable> {
        let mut filling = Filling::new(&self.fields);
        let mut before = 0;
        let parsed = self.for_each(piece, &mut |line, sample| {
            if before == count {
                return Ok(());
            }
            let done = match (&self.form, sample) {
                (Form::Text, SampleText::Line(line)) => text::fill(line, &mut filling),
                (Form::Csv(columns), SampleText::Record(record)) => {
                    columns.fill(record, &mut filling)
                }
                (_, SampleText::Line(line)) => json::fill(line, &self.fields, &mut filling),
                (_, SampleText::Record(_)) => Ok(()),
            };
            done.map_err(|source| PredictError::Sample {
                place: format!("{} line {line}", piece.name),
                source,
            })?;
            before += 1;
            Ok(())
        });
        match parsed {
            Ok(()) => Ok(filling.finish()),
            Err(error) => Err(Unusable { before, error }),
        }
    }

    /// Calls `each` for every sample of a piece, with its line number. Blank lines of JSON are none.
    pub fn for_each(
        &self,
        piece: &BatchText,
        each: &mut dyn FnMut(u64, SampleText<'_>) -> Result<(), PredictError>,
    ) -> Result<(), PredictError> {
        match &piece.content {
            Content::Records(records) => records
                .iter()
                .try_for_each(|(line, record)| each(*line, SampleText::Record(record))),
            Content::Lines(first, bytes) => {
                let lines = bytes.split_inclusive(|byte| *byte == b'\n');
                for (number, line) in (*first..).zip(lines) {
                    let line = line.strip_suffix(b"\n").unwrap_or(line);
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    let blank = line.iter().all(u8::is_ascii_whitespace);
                    if blank && matches!(self.form, Form::JsonLines) {
                        continue;
                    }
                    each(number, SampleText::Line(line))?;
                }
                Ok(())
            }
        }
    }
}

/// A sample that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    /// Number of samples of the piece before it.
    pub before: usize,
    /// Which one, and why.
    pub error: PredictError,
}

/// The text, if it is UTF-8.
fn utf8(bytes: &[u8]) -> Result<&str, FieldError> {
    std::str::from_utf8(bytes).map_err(|error| FieldError {
        field: String::new(),
        reason: format!(
            "this is not text in UTF-8 (byte {} of it): convert the file, for example with iconv",
            error.valid_up_to() + 1
        ),
    })
}

/// The text of one sample.
#[derive(Debug, Clone, Copy)]
pub enum SampleText<'a> {
    /// A line without its end.
    Line(&'a [u8]),
    /// A record of CSV.
    Record(&'a ::csv::ByteRecord),
}

pub use direct::fill_body;
pub use json::fill_value;
pub(crate) use json::{inner as inside_of_object, members as json_members};

#[cfg(test)]
mod tests {
    use super::*;
    use nn::SlotData;
    use trainer::data::{ElementKind, SlotType};

    fn input(name: &str, kind: ElementKind, level: u8, dim: usize) -> InputField {
        InputField {
            slot: SlotType {
                name: name.into(),
                kind,
                level,
                dim,
                first: 0,
            },
            dictionary: None,
        }
    }

    fn pieces<R: BufRead>(mut cutter: Cutter<R>) -> Vec<BatchText> {
        let mut all = Vec::new();
        while let Some(piece) = cutter.next_piece().unwrap() {
            all.push(piece);
        }
        all
    }

    fn cause(error: &PredictError) -> String {
        std::error::Error::source(error).unwrap().to_string()
    }

    #[test]
    fn lines_are_cut_into_batches_and_numbered() {
        let fields = [input("x", ElementKind::Ids, 1, 10)];
        let parser = Parser::new(InputFormat::Text, &fields, None).unwrap();
        let all = pieces(Cutter::lines("in", &b"1 2\r\n5\n3\n4 x"[..], 2));
        assert_eq!(all.len(), 2);
        let batch = parser.parse(&all[0]).unwrap();
        assert_eq!(batch.samples, 2);
        assert_eq!(batch.slots[0].data, SlotData::Ids(vec![1, 2, 5]));
        assert_eq!(batch.slots[0].sequences.as_deref(), Some(&[0, 2, 3][..]));
        let error = parser.parse(&all[1]).unwrap_err();
        assert_eq!(error.to_string(), "in line 4");
        let blank = pieces(Cutter::lines("in", &b"1 2\n\n"[..], 2)).remove(0);
        let error = parser.parse(&blank).unwrap_err();
        assert_eq!(error.to_string(), "in line 2");
        assert!(cause(&error).contains("the sequence is empty"));
    }

    #[test]
    fn a_record_of_another_length_is_named_by_its_line() {
        let text = &b"a,b\n1,2\n1,2,3\n"[..];
        let (mut cutter, _) = Cutter::csv("in.csv", text, b',', 1).unwrap();
        cutter.next_piece().unwrap();
        let error = cutter.next_piece().unwrap_err();
        let said = "line 3: 3 fields, but the header has 2 columns";
        assert_eq!(cause(&error), said);
    }

    #[test]
    fn what_comes_before_a_record_that_cannot_be_read_is_a_piece() {
        let unequal = "line 4: 1 fields, but the header has 2 columns";
        let open = "line 4: the file ends inside the quotes that open here";
        for (last, said) in [
            ("5\n6,7\n", unequal),
            ("\"5,6\n7,8\n", open),
            ("5,\"6\n7,8\n", open),
        ] {
            let text = format!("a,b\n1,2\n3,4\n{last}");
            for samples in [1, 2, 10] {
                let (mut cutter, _) =
                    Cutter::csv("in.csv", text.as_bytes(), b',', samples).unwrap();
                let mut before = 0;
                let error = loop {
                    match cutter.next_piece() {
                        Ok(Some(piece)) => match piece.content {
                            Content::Records(records) => before += records.len(),
                            Content::Lines(..) => panic!("lines"),
                        },
                        Ok(None) => panic!("no error"),
                        Err(error) => break error,
                    }
                };
                assert_eq!((before, cause(&error)), (2, said.to_owned()), "{last:?}");
            }
        }
    }

    #[test]
    fn columns_of_csv_are_found_by_name() {
        let fields = [
            input("age", ElementKind::Dense, 0, 1),
            input("words", ElementKind::Ids, 1, 10),
            input("pixels", ElementKind::Dense, 0, 2),
        ];
        let text = &b"id,words,age,pixels.1,pixels.0\n7,\"1 2\",3.5,20,10\n8,3,4,0,1\n"[..];
        let (cutter, header) = Cutter::csv("in.csv", text, b',', 10).unwrap();
        let parser = Parser::new(InputFormat::Csv, &fields, Some(&header)).unwrap();
        let all = pieces(cutter);
        let batch = parser.parse(&all[0]).unwrap();
        assert_eq!(batch.samples, 2);
        assert_eq!(batch.slots[1].sequences.as_deref(), Some(&[0, 2, 3][..]));
        let SlotData::Dense { values, .. } = &batch.slots[2].data else {
            panic!("dense");
        };
        assert_eq!(values, &[10.0, 20.0, 1.0, 0.0]);
        let more = [&header[..], &["pixels.2".to_owned()]].concat();
        let surplus = Parser::new(InputFormat::Csv, &fields, Some(&more)).unwrap_err();
        assert_eq!(surplus.field, "pixels.2");
        assert!(surplus.reason.contains("2 numbers"), "{}", surplus.reason);
        let missing = Parser::new(InputFormat::Csv, &fields, Some(&header[..2])).unwrap_err();
        assert_eq!(missing.field, "age");
        assert!(missing.reason.contains("--input-format provider"));
    }

    #[test]
    fn json_lines_name_what_is_missing_and_what_is_no_json() {
        let fields = [
            input("a", ElementKind::Ids, 0, 10),
            input("b", ElementKind::Ids, 1, 10),
        ];
        let parser = Parser::new(InputFormat::JsonLines, &fields, None).unwrap();
        let parse = |text: &'static str| {
            let piece = pieces(Cutter::lines("in", text.as_bytes(), 10)).remove(0);
            parser.parse(&piece)
        };
        assert_eq!(
            parse("{\"a\": 1, \"b\": [4]}\n\n{\"b\": [2], \"a\": 3, \"c\": 1}")
                .unwrap()
                .samples,
            2
        );
        let reason = |text| match parse(text).unwrap_err() {
            PredictError::Sample { source, .. } => source,
            other => panic!("{other}"),
        };
        assert_eq!(reason("{\"a\": 1}").field, "b");
        assert!(reason("{\"a\": 1").reason.contains("JSON"));
        assert!(reason("[1]").reason.contains("object"));
    }
}
