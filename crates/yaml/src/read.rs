//! Reads one YAML document and remembers the line of every value.
//!
//! The values become `serde_json::Value`, from which serde makes typed structures; the lines are kept by
//! path (`workers.count`, `zones[1]`), so that every error can name its line.
//! Scalars follow the YAML 1.2 core schema with one exception: a number with a decimal point stays text,
//! because in our files these are versions and amounts of cores, and `1.30` must not become `1.3`.
//! Aliases and merge keys are refused: our files do not need them, and with them a small file can expand to
//! any size.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

/// Limit for the recursion; our files are not nested so deeply.
const MAX_DEPTH: usize = 16;

/// A parsed document.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The content.
    pub value: Value,
    lines: BTreeMap<String, usize>,
}

impl Document {
    /// The line of the value at `path`, or of the nearest value around it, counted from 1.
    pub fn line(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return Some(*line);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

/// Why a text is not a usable YAML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct YamlError {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// Parses `text`, which must hold exactly one document.
pub fn parse(text: &str) -> Result<Document, YamlError> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        lines: BTreeMap::new(),
    };
    let value = loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd => break Value::Null,
            other => break reader.node(other, span, "", 0)?,
        }
    };
    reader.expect_end()?;
    Ok(Document {
        value,
        lines: reader.lines,
    })
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    lines: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, Span::default())),
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(YamlError {
                line: error.marker().line().max(1),
                message: error.info().to_owned(),
            }),
        }
    }

    fn expect_end(&mut self) -> Result<(), YamlError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentEnd | Event::Nothing => {}
                _ => {
                    return Err(at(span, "a second document begins; keep one per file"));
                }
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        span: Span,
        path: &str,
        depth: usize,
    ) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err(at(span, "nested too deeply"));
        }
        self.lines
            .entry(path.to_owned())
            .or_insert_with(|| line(span));
        match event {
            Event::Scalar(text, style, _, tag) => {
                if tag.is_some() {
                    return Err(at(
                        span,
                        "tags such as !!str are not supported; put text in quotes instead",
                    ));
                }
                Ok(scalar(&text, style))
            }
            Event::SequenceStart(..) => self.sequence(path, depth),
            Event::MappingStart(..) => self.mapping(path, depth),
            Event::Alias(_) => Err(at(span, "aliases are not supported; write the value out")),
            _ => Err(at(span, "unexpected end of the document")),
        }
    }

    fn sequence(&mut self, path: &str, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            let path = format!("{path}[{}]", items.len());
            items.push(self.node(event, span, &path, depth + 1)?);
        }
    }

    fn mapping(&mut self, path: &str, depth: usize) -> Result<Value, YamlError> {
        let mut entries = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(entries)),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(at(span, "a key must be plain text")),
            };
            if key == "<<" {
                return Err(at(
                    span,
                    "merge keys are not supported; write the values out",
                ));
            }
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            self.lines.insert(path.clone(), line(span));
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, &path, depth + 1)?;
            if entries.insert(key, value).is_some() {
                return Err(at(
                    span,
                    &format!("{path} is given twice; keep one of the two"),
                ));
            }
        }
    }
}

fn line(span: Span) -> usize {
    span.start.line().max(1)
}

fn at(span: Span, message: &str) -> YamlError {
    YamlError {
        line: line(span),
        message: message.to_owned(),
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    match text.parse::<i64>() {
        Ok(number) if is_integer => Value::from(number),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_lines_by_path() {
        let document =
            parse("# head\nname: demo\nzones:\n- a\n- b\nworkers:\n  count: 3\ntags: {x: 'y'}\n")
                .unwrap();
        assert_eq!(
            document.value,
            json!({"name": "demo", "zones": ["a", "b"], "workers": {"count": 3}, "tags": {"x": "y"}})
        );
        for (path, line) in [
            ("name", 2),
            ("zones", 3),
            ("zones[1]", 5),
            ("workers.count", 7),
            ("tags.x", 8),
        ] {
            assert_eq!(document.line(path), Some(line), "{path}");
        }
        assert_eq!(
            document.line("workers.missing"),
            Some(6),
            "falls back to the parent"
        );
        assert_eq!(document.line("missing"), None);
    }

    #[test]
    fn scalars_follow_the_core_schema_but_versions_stay_text() {
        let document = parse(
            "a: 1.30\nb: yes\nc: true\nd: ~\ne: 007\nf: -4\ng: '5'\nh: 99999999999999999999\n",
        )
        .unwrap();
        assert_eq!(
            document.value,
            json!({"a": "1.30", "b": "yes", "c": true, "d": null, "e": "007", "f": -4, "g": "5",
                   "h": "99999999999999999999"})
        );
    }

    #[test]
    fn refuses_with_the_line() {
        for (text, line, words) in [
            ("a: 1\nb: [1, 2\n", 2, ""),
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: &x 1\nb: *x\n", 2, "aliases"),
            ("a: 1\n---\nb: 2\n", 2, "second document"),
            ("a: 1\nb: !!str 2\n", 2, "quotes"),
            ("<<: {a: 1}\n", 1, "merge"),
            ("? [a]\n: 1\n", 1, "plain text"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(words), "{text:?}: {error}");
            assert!(error.line.abs_diff(line) <= 1, "{text:?}: {error}");
        }
        assert!(parse(&"[".repeat(1000)).is_err());
        assert_eq!(parse("").unwrap().value, Value::Null);
    }
}
