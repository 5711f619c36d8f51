//! Recognises a table that begins with a line of column names: every part of such a file needs that line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A line longer than this is no header.
const LONGEST: u64 = 1 << 16;

/// Whether all of these files, and at least one, are tables (`.csv`, `.tsv`) that begin with a header.
pub fn all_have_header<'a>(files: impl IntoIterator<Item = &'a Path>) -> io::Result<bool> {
    let mut any = false;
    for path in files {
        if !is_table(path) || !begins_with_header(File::open(path)?)? {
            return Ok(false);
        }
        any = true;
    }
    Ok(any)
}

fn is_table(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ["csv", "tsv"]
        .iter()
        .any(|table| ending.eq_ignore_ascii_case(table))
}

/// Whether the first line has names: none of its fields is a number or a missing value, and a field of the second line
/// is a number.
fn begins_with_header(file: impl Read) -> io::Result<bool> {
    let mut reader = BufReader::new(file);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    reader
        .by_ref()
        .take(LONGEST)
        .read_until(b'\n', &mut first)?;
    reader.take(LONGEST).read_until(b'\n', &mut second)?;
    let (first, second) = (
        String::from_utf8_lossy(&first),
        String::from_utf8_lossy(&second),
    );
    let is_number = |field: &str| field.parse::<f64>().is_ok();
    Ok(first.ends_with('\n')
        && fields(&first).all(|field| !is_missing(field) && !is_number(field))
        && fields(&second).any(is_number))
}

/// Whether a field stands for a missing value; no column has such a name.
fn is_missing(field: &str) -> bool {
    ["", "na", "n/a", "null", "none", "?", "-"]
        .iter()
        .any(|missing| field.eq_ignore_ascii_case(missing))
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start_matches('\u{feff}').trim_end();
    line.split([',', ';', '\t'])
        .map(|field| field.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_above_numbers_are_a_header() {
        for (text, header) in [
            ("width,kind\n0.2,red\n", true),
            ("\u{feff}\"width\";\"kind\"\r\n\"0.2\";\"red\"\r\n", true),
            ("width\tkind\n-1e3\tred\n", true),
            ("0.2,red\n0.3,blue\n", false),
            ("red,blue\ngreen,red\n", false),
            (",kind\n0.2,red\n", false),
            ("NaN,red\n0.2,red\n", false),
            ("red,N/A\nblue,3.5\n", false),
            ("?,red\n0.2,red\n", false),
            ("width,kind\n", false),
            ("width,kind", false),
            ("", false),
        ] {
            assert_eq!(
                begins_with_header(text.as_bytes()).unwrap(),
                header,
                "{text:?}"
            );
        }
    }

    #[test]
    fn only_tables_are_looked_at_and_all_of_them_need_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let with = write("with.csv", "width,kind\n1,2\n");
        let without = write("without.CSV", "3,4\n1,2\n");
        let text = write("text.txt", "width,kind\n1,2\n");
        let look = |files: &[&Path]| all_have_header(files.iter().copied()).unwrap();
        assert!(look(&[&with]) && look(&[&with, &with]));
        assert!(!look(&[&with, &without]) && !look(&[&text]) && !look(&[]));
    }
}
