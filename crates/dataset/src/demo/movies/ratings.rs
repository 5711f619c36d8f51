//! Ratings for training and for testing.
//!
//! Of every user's ratings a tenth, drawn at random, is kept for testing (rounded down, so users with fewer than ten
//! have none); the training file is in random order.

use std::collections::BTreeMap;

use crate::random::SeededRandom;

/// One in this many ratings of a user is for testing.
const TEST_SHARE: usize = 10;

/// Lines of both files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// In random order.
    pub train: Vec<&'a [u8]>,
    /// User by user.
    pub test: Vec<&'a [u8]>,
}

/// Divides the lines, given with their users.
pub(crate) fn divide<'a>(lines: impl Iterator<Item = (u32, &'a [u8])>, seed: u64) -> Parts<'a> {
    let mut by_user: BTreeMap<u32, Vec<&[u8]>> = BTreeMap::new();
    for (user, line) in lines {
        by_user.entry(user).or_default().push(line);
    }
    let mut random = SeededRandom::for_part(seed, "ratings");
    let mut parts = Parts {
        train: Vec::new(),
        test: Vec::new(),
    };
    for mut lines in by_user.into_values() {
        random.shuffle(&mut lines);
        let train = lines.split_off(lines.len() / TEST_SHARE);
        parts.test.extend(lines);
        parts.train.extend(train);
    }
    random.shuffle(&mut parts.train);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_each_user_is_for_testing() {
        let lines: Vec<(u32, Vec<u8>)> = (0..75)
            .map(|i| (i % 3 % 2, format!("{i}").into_bytes()))
            .collect();
        let parts = divide(lines.iter().map(|(user, line)| (*user, line.as_slice())), 1);
        assert_eq!((parts.test.len(), parts.train.len()), (5 + 2, 68));
        let mut all = [parts.train.clone(), parts.test.clone()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 75);
        let again = divide(lines.iter().map(|(user, line)| (*user, line.as_slice())), 1);
        assert_eq!(parts, again);
        assert_ne!(
            parts,
            divide(lines.iter().map(|(user, line)| (*user, line.as_slice())), 2)
        );
    }
}
