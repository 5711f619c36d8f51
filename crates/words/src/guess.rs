//! Suggests the known word that is closest to a misspelt one.

/// The word of `known` that `typed` most likely misspells; `None` if none is close.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    // The distance of a word; a word that begins with what was typed is at distance 1, the shortest first.
    let steps = |word: &str| {
        let word = word.to_lowercase();
        let begun = typed.chars().count() > 2 && word.starts_with(&typed);
        if begun {
            (1, word.len() - typed.len())
        } else {
            (distance(&typed, &word), 0)
        }
    };
    let distances = known.into_iter().map(|word| (steps(word), word));
    let ((steps, _), word) = distances.min_by_key(|(steps, _)| *steps)?;
    let shorter = typed.chars().count().min(word.chars().count());
    // A word of three letters may differ in one step, one of nine in three.
    (steps <= 1.max(shorter / 3)).then_some(word)
}

/// serde's message about an unknown key, with a guess in place of the list of all keys, if there is one.
pub fn unknown_key(message: &str) -> String {
    let guessed = || {
        let (start, rest) = message.split_once("unknown field `")?;
        let (typed, rest) = rest.split_once("`, expected ")?;
        // The list ends before the position, which follows a blank and no comma.
        let end = rest.rfind('`')? + 1;
        let (list, position) = rest.split_at(end);
        let known = list.split('`').skip(1).step_by(2);
        let word = nearest(typed, known)?;
        Some(format!(
            "{start}unknown field `{typed}`: did you mean `{word}`?{position}"
        ))
    };
    guessed().unwrap_or_else(|| message.to_owned())
}

/// Number of letters to insert, delete, replace, or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["run", "train", "report", "completions"];
        for (typed, meant) in [
            ("rnu", Some("run")),
            ("runn", Some("run")),
            ("TRAIN", Some("train")),
            ("tarin", Some("train")),
            ("completion", Some("completions")),
            ("comp", Some("completions")),
            ("zebra", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
        assert_eq!(nearest("a", []), None);
        let begun = ["config.lr-native.py", "config.lr.py", "config.lstm.py"];
        assert_eq!(nearest("config.lr", begun), Some("config.lr.py"));
    }

    #[test]
    fn an_unknown_key_is_named_with_a_guess() {
        let message = "volume: unknown field `sever`, expected one of `server`, `path`, `claim` at line 2 column 3";
        assert_eq!(
            unknown_key(message),
            "volume: unknown field `sever`: did you mean `server`? at line 2 column 3"
        );
        let two = "unknown field `nod`, expected `nodes` or `name`";
        assert_eq!(
            unknown_key(two),
            "unknown field `nod`: did you mean `nodes`?"
        );
        let far = "unknown field `zzzzz`, expected one of `server`, `path`";
        assert_eq!(unknown_key(far), far);
        assert_eq!(unknown_key("other"), "other");
    }
}
