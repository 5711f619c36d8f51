//! Tables for people: columns as wide as their widest cell, numbers on the right.

use std::fmt;

/// Alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table that prints itself.
#[derive(Debug, Clone)]
pub(crate) struct TextTable {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these column heads.
    pub(crate) fn new(columns: &[(&str, Align)]) -> TextTable {
        TextTable {
            align: columns.iter().map(|(_, a)| *a).collect(),
            rows: vec![columns.iter().map(|(n, _)| (*n).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|c| c.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.align) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text that begins in a column and continues there where the line is full; `None` as width for one line.
pub(crate) fn wrapped(text: &str, column: usize, width: Option<usize>) -> String {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(column).max(20));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > room
        {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines.join(&format!("\n{:column$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_line_continues_in_its_column() {
        let text = "one two three four five six";
        assert_eq!(
            wrapped(text, 4, Some(24)),
            "one two three four\n    five six"
        );
        assert_eq!(wrapped(text, 4, None), text);
    }

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["long name".to_owned(), "100".to_owned()]);
        assert_eq!(
            table.to_string(),
            "name         n\na            1\nlong name  100\n"
        );
    }
}
