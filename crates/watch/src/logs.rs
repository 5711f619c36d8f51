//! Reads a few lines of a log of any size: its last lines, those before or after an offset, or those that contain a word.
//! Reads are bounded.
//!
//! Lines may contain anything. They are cut to a length that a screen can show, and bytes that are not text are made
//! visible.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Serialize;

/// Most lines in one result.
pub const LINES: usize = 400;

/// Characters of a line that are shown.
const WIDEST: usize = 2000;

/// Bytes read for one page of lines.
const PAGE: u64 = 256 * 1024;

/// Bytes read for one search.
const SEARCH: u64 = 64 << 20;

/// A part of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogExcerpt {
    /// The lines, in the order of the file.
    pub lines: Vec<String>,
    /// Offset of the first line.
    pub from: u64,
    /// Offset after the last line.
    pub to: u64,
    /// Bytes in the file.
    pub size: u64,
}

/// Which part of a log to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRange {
    /// Only lines that contain this; case is ignored.
    pub search: String,
    /// Only what comes before this offset; `None`: the end of the file.
    pub before: Option<u64>,
    /// Only what comes after this offset.
    pub after: Option<u64>,
}

/// Reads a part of a log; an empty one if there is no log.
pub fn read(path: &Path, range: &LogRange) -> io::Result<LogExcerpt> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LogExcerpt::default()),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let end = range.before.unwrap_or(size).min(size);
    let room = if range.search.is_empty() {
        PAGE
    } else {
        SEARCH
    };
    // The file may have been truncated since the reader got its offset.
    let after = range.after.filter(|after| *after <= size);
    let start = end.saturating_sub(room).max(after.unwrap_or(0));
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(end.saturating_sub(start))
        .read_to_end(&mut bytes)?;
    let inside = start > 0 && after != Some(start);
    Ok(cut(&bytes, start, inside, size, &range.search))
}

/// Lines of a piece of the file that begins at `start`, perhaps inside a line.
fn cut(bytes: &[u8], start: u64, inside: bool, size: u64, search: &str) -> LogExcerpt {
    let wanted = search.to_lowercase();
    let mut skipped = 0;
    if inside {
        // A line that is longer than the whole piece is shown from the beginning of the piece.
        skipped = memchr::memchr(b'\n', bytes).map_or(0, |at| at + 1);
    }
    let mut part = LogExcerpt {
        from: start + skipped as u64,
        to: start + bytes.len() as u64,
        size,
        ..LogExcerpt::default()
    };
    if skipped == bytes.len() {
        return part;
    }
    let body = &bytes[skipped..];
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let mut begin = skipped + body.len();
    for line in body.rsplit(|byte| *byte == b'\n') {
        begin -= line.len();
        let text = shown(line);
        if wanted.is_empty() || holds(line, &text, &wanted) {
            part.lines.push(text);
        }
        if part.lines.len() == LINES {
            part.from = start + begin as u64;
            break;
        }
        begin = begin.saturating_sub(1);
    }
    part.lines.reverse();
    part
}

fn holds(bytes: &[u8], shown: &str, wanted: &str) -> bool {
    if bytes.len() <= WIDEST {
        return shown.to_lowercase().contains(wanted);
    }
    String::from_utf8_lossy(bytes)
        .to_lowercase()
        .contains(wanted)
}

/// A line as it can be shown: cut, and without characters that control a terminal or hide text.
pub fn shown(bytes: &[u8]) -> String {
    let most = bytes.len().min(WIDEST * 4);
    let text = String::from_utf8_lossy(&bytes[..most]);
    let mut line = String::with_capacity(text.len());
    for character in text.trim_end_matches('\r').chars().take(WIDEST) {
        match character {
            '\t' => line.push('\t'),
            c if (c as u32) < 0x20 => line.push(char::from_u32(0x2400 + c as u32).unwrap_or('?')),
            '\u{7f}' => line.push('\u{2421}'),
            c if c.is_control() || is_hidden(c) => line.push('\u{fffd}'),
            c => line.push(c),
        }
    }
    if text.chars().count() > WIDEST || bytes.len() > most {
        line.push_str(&format!(" … ({} bytes in all)", bytes.len()));
    }
    line
}

/// Characters that change the direction of text or are invisible.
pub(crate) fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_end_and_what_lies_before() {
        let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let file = log(text.as_bytes());
        let end = read(file.path(), &LogRange::default()).unwrap();
        assert_eq!(end.lines.len(), LINES);
        assert_eq!((&*end.lines[0], &*end.lines[399]), ("line 600", "line 999"));
        let before = LogRange {
            before: Some(end.from),
            ..LogRange::default()
        };
        let before = read(file.path(), &before).unwrap();
        assert_eq!(before.lines.last().unwrap(), "line 599");
        let new = LogRange {
            after: Some(end.to - 18),
            ..LogRange::default()
        };
        assert_eq!(
            read(file.path(), &new).unwrap().lines,
            ["line 998", "line 999"]
        );
        let none = LogRange {
            after: Some(end.to),
            ..LogRange::default()
        };
        assert_eq!(
            read(file.path(), &none).unwrap().lines,
            Vec::<String>::new()
        );
        assert_eq!(
            read(Path::new("/nowhere"), &none).unwrap(),
            LogExcerpt::default()
        );
    }

    #[test]
    fn a_search_finds_lines_whatever_their_case() {
        let mut text: String = (0..5000).map(|n| format!("INFO nothing {n}\n")).collect();
        text.insert_str(0, "Error: first\n");
        text += "an error, last\n";
        let file = log(text.as_bytes());
        let range = LogRange {
            search: "eRRor".into(),
            ..LogRange::default()
        };
        let found = read(file.path(), &range).unwrap();
        assert_eq!(found.lines, ["Error: first", "an error, last"]);
    }

    #[test]
    fn monsters_are_cut_and_made_visible() {
        let mut text = vec![b'x'; 10 << 20];
        text.extend_from_slice(b"\n<script>alert(1)</script>\x1b[31m\x00\xff\xe2\x80\xae\n");
        let file = log(&text);
        let part = read(file.path(), &LogRange::default()).unwrap();
        assert_eq!(part.lines.len(), 1);
        assert_eq!(
            part.lines[0],
            "<script>alert(1)</script>␛[31m␀\u{fffd}\u{fffd}"
        );
        let file = log(&text[..10 << 20]);
        let part = read(file.path(), &LogRange::default()).unwrap();
        assert!(part.lines[0].len() < 2100, "{}", part.lines[0].len());
        let range = LogRange {
            search: "alert".into(),
            ..LogRange::default()
        };
        assert_eq!(read(log(&text).path(), &range).unwrap().lines.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn every_byte_is_in_some_line(text in proptest::collection::vec(proptest::sample::select(b"ab\n".to_vec()), 0..60)) {
            let file = log(&text);
            let part = read(file.path(), &LogRange::default()).unwrap();
            let want: Vec<String> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
            proptest::prop_assert_eq!(part.lines, want);
        }
    }
}
