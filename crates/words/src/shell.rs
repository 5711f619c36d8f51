//! Commands that are proposed to a person: each can be copied into a shell as it stands.

use std::borrow::Cow;
use std::ffi::OsStr;

/// A path, name or value as one word of a command.
pub fn word<T: AsRef<OsStr> + ?Sized>(text: &T) -> Cow<'_, str> {
    let text = text.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''")).into()
}

/// A command of these words.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<Cow<'_, str>> = words.into_iter().map(word).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_word_is_quoted_if_a_shell_would_take_it_apart() {
        for plain in ["a/b-c_d.e", "file:///x", "Key=a,Value=b", "ü"] {
            assert_eq!(word(plain), plain);
        }
        assert_eq!(word(Path::new("my folder")), "'my folder'");
        assert_eq!(word("it's"), "'it'\\''s'");
        for special in ["", "a;b", "$HOME", "~", "a*", "(x)"] {
            assert_eq!(word(special), format!("'{special}'"));
        }
        assert_eq!(line(["aws", "s3", "my file"]), "aws s3 'my file'");
    }
}
