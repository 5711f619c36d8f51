//! Cuts English review text into words.
//!
//! The result is comparable with the Moses tokenizer for English: lower case, punctuation stands alone,
//! "don't" becomes "don 't", "1,000.5" and "e.g." and "..." stay whole. Two deliberate differences: a full stop
//! is cut off even if the next word starts with a small letter (after lower-casing every word does), and
//! nothing is written as an HTML entity. Words never contain white space or control characters, so
//! that every reader of the files splits the lines in the same way.

/// Short forms that keep their full stop.
const ABBREVIATIONS: &[&str] = &[
    "approx", "co", "corp", "dr", "ed", "est", "etc", "fig", "inc", "jr", "ltd", "mr", "mrs", "ms",
    "no", "prof", "sr", "st", "vol", "vs",
];

/// The words of `text`, in lower case, separated by single blanks.
pub(crate) fn tokenize(text: &str) -> String {
    let text: Vec<char> = text
        .chars()
        .flat_map(char::to_lowercase)
        .filter_map(printable)
        .collect();
    let mut out = Tokens::default();
    let mut at = 0;
    while at < text.len() {
        at += out.take(&text, at);
    }
    out.text
}

/// White space of every kind becomes a blank; other control characters vanish.
fn printable(c: char) -> Option<char> {
    if c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c) {
        Some(' ')
    } else if c.is_control() {
        None
    } else {
        Some(c)
    }
}

#[derive(Default)]
struct Tokens {
    text: String,
    /// The last character belongs to a word that may continue.
    open: bool,
    /// Start of the word that may continue.
    start: usize,
}

impl Tokens {
    /// Handles the character at `at` and returns how many were used.
    fn take(&mut self, text: &[char], at: usize) -> usize {
        let c = text[at];
        let before = at.checked_sub(1).map(|i| text[i]);
        let after = text.get(at + 1).copied();
        let digits_around =
            before.is_some_and(char::is_numeric) && after.is_some_and(char::is_numeric);
        match c {
            ' ' => self.open = false,
            '.' => return self.take_dots(text, at),
            ',' if digits_around => self.extend(c),
            '\'' if before.is_some_and(char::is_alphanumeric)
                && after.is_some_and(char::is_alphabetic) =>
            {
                // The ending of a short form: starts a new word with its apostrophe.
                self.open = false;
                self.extend(c);
            }
            '-' | '_'
                if before.is_some_and(char::is_alphanumeric)
                    && after.is_some_and(char::is_alphanumeric) =>
            {
                self.extend(c)
            }
            c if c.is_alphanumeric() => self.extend(c),
            c => self.alone(&[c]),
        }
        1
    }

    /// One full stop or several: an ellipsis is one word, a stop inside a number or a short form stays.
    fn take_dots(&mut self, text: &[char], at: usize) -> usize {
        let dots = text[at..].iter().take_while(|&&c| c == '.').count();
        let next = text.get(at + dots);
        if dots > 1 {
            self.alone(&text[at..at + dots]);
        } else if self.open
            && (next.is_some_and(|c| c.is_alphanumeric()) || self.keeps_its_stop(next))
        {
            self.extend('.');
        } else {
            self.alone(&['.']);
        }
        dots
    }

    /// Whether the open word is a short form whose full stop is its own; at the end of the text it never is.
    fn keeps_its_stop(&self, next: Option<&char>) -> bool {
        let word = &self.text[self.start..];
        let lettered = word.contains('.') && word.chars().any(char::is_alphabetic);
        next.is_some() && (lettered || ABBREVIATIONS.contains(&word))
    }

    fn extend(&mut self, c: char) {
        if !self.open {
            self.separate();
            self.start = self.text.len();
            self.open = true;
        }
        self.text.push(c);
    }

    fn alone(&mut self, characters: &[char]) {
        self.separate();
        self.text.extend(characters);
        self.open = false;
    }

    fn separate(&mut self) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn review_text_is_cut_like_this() {
        let cases = [
            ("It's GREAT!", "it 's great !"),
            ("I don't like it, at all.", "i don 't like it , at all ."),
            ("costs $1,000.50 (wow)", "costs $ 1,000.50 ( wow )"),
            ("works great. i love it", "works great . i love it"),
            ("e.g. the u.s.b. port", "e.g. the u.s.b. port"),
            (
                "mr. smith bought no. 5 etc.",
                "mr. smith bought no. 5 etc .",
            ),
            ("well...ok", "well ... ok"),
            ("a well-made plug - nice", "a well-made plug - nice"),
            ("the '90s \"sound\"", "the ' 90s \" sound \""),
            ("5\" screen, 3.5mm", "5 \" screen , 3.5mm"),
            (
                "  spaces\tand\u{a0}more\u{2028}lines \r\n",
                "spaces and more lines",
            ),
            ("bell\u{7} and \u{1c}separator", "bell and separator"),
            ("café ÜBER", "café über"),
            ("", ""),
            ("...", "..."),
        ];
        for (text, want) in cases {
            assert_eq!(tokenize(text), want, "{text:?}");
        }
    }

    #[test]
    fn cutting_twice_changes_no_word_borders_of_plain_words() {
        let once = tokenize("The lens isn't sharp, but it's OK (3.5mm).");
        assert!(once.split(' ').all(|word| !word.is_empty()));
        assert_eq!(once, "the lens isn 't sharp , but it 's ok ( 3.5mm ) .");
    }
}
