//! Redraws a few lines of a terminal in place, also after the terminal was resized.
//!
//! Creates the text with its control sequences; the caller writes it. A terminal that becomes narrower
//! wraps the lines that are on it, so the number of lines to the top of the old picture depends on the
//! present width, not on the width when it was drawn.

/// Remembers what is on the terminal.
#[derive(Debug, Default)]
pub struct Screen {
    /// Lengths of the lines of the last picture.
    drawn: Vec<usize>,
}

impl Screen {
    /// Nothing has been drawn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the picture on a terminal of this width.
    pub fn draw(&mut self, lines: &[String], width: usize) -> String {
        let text = self.erase(width)
            + &lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>();
        self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        text
    }

    /// Prints lines above the picture, where they stay.
    pub fn above(&mut self, text: &str, lines: &[String], width: usize) -> String {
        let erased = self.erase(width);
        erased + text.trim_end_matches('\n') + "\n" + &self.draw(lines, width)
    }

    /// Removes the picture.
    pub fn erase(&mut self, width: usize) -> String {
        let rows: usize = self
            .drawn
            .iter()
            .map(|length| length.div_ceil(width.max(1)).max(1))
            .sum();
        self.drawn.clear();
        if rows == 0 {
            String::new()
        } else {
            format!("\r\x1b[{rows}A\x1b[J")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_picture_replaces_the_one_before() {
        let mut screen = Screen::new();
        assert_eq!(screen.draw(&lines(&["a", "b"]), 80), "a\nb\n");
        assert_eq!(screen.draw(&lines(&["c"]), 80), "\r\x1b[2A\x1b[Jc\n");
        assert_eq!(
            screen.above("said\n", &lines(&["d"]), 80),
            "\r\x1b[1A\x1b[Jsaid\nd\n"
        );
        assert_eq!(screen.erase(80), "\r\x1b[1A\x1b[J");
        assert_eq!(screen.erase(80), "");
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_wrapped_are_removed_whole() {
        let mut screen = Screen::new();
        screen.draw(&lines(&[&"x".repeat(80), "", "y"]), 80);
        assert_eq!(screen.draw(&[], 30), "\r\x1b[5A\x1b[J");
    }
}
