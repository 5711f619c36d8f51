//! The words of the generated reviews.
//!
//! A few hundred words carry the grammar and the opinion; a long tail of made-up but pronounceable words
//! (stem + ending, or a model number) gives the vocabulary the size and the Zipf frequencies of real text.

use crate::random::{SeededRandom, Weighted};

/// Rare words in the vocabulary; with the default number of reviews most of them occur.
const TAIL_WORDS: usize = 60_000;
/// One in this many rare words is a model number.
const MODEL_NUMBER_EVERY: u64 = 9;
/// Made-up words that carry an opinion, per side: rare cues that reward a model which generalises well.
const TAIL_OPINIONS: usize = 150;

pub(super) const LIKED: &[&str] = &[
    "great",
    "good",
    "excellent",
    "perfect",
    "amazing",
    "solid",
    "sturdy",
    "crisp",
    "reliable",
    "bright",
    "fast",
    "comfortable",
    "impressive",
    "clear",
    "easy",
    "wonderful",
    "fantastic",
    "accurate",
    "smooth",
    "quiet",
    "durable",
    "sharp",
    "lovely",
    "brilliant",
    "superb",
    "responsive",
    "handy",
    "flawless",
    "elegant",
    "outstanding",
    "pleasant",
    "useful",
    "rugged",
    "snappy",
    "affordable",
    "splendid",
    "precise",
    "stylish",
    "dependable",
    "awesome",
];
pub(super) const DISLIKED: &[&str] = &[
    "bad",
    "terrible",
    "awful",
    "poor",
    "cheap",
    "flimsy",
    "useless",
    "defective",
    "noisy",
    "slow",
    "blurry",
    "unreliable",
    "horrible",
    "disappointing",
    "broken",
    "weak",
    "fragile",
    "grainy",
    "clumsy",
    "annoying",
    "dreadful",
    "faulty",
    "loose",
    "dim",
    "shoddy",
    "painful",
    "confusing",
    "bulky",
    "wobbly",
    "mediocre",
    "sluggish",
    "crooked",
    "scratchy",
    "unstable",
    "overpriced",
    "laughable",
    "brittle",
    "muddy",
    "worthless",
    "pathetic",
];
pub(super) const PRAISE: &[&str] = &[
    "i love it",
    "highly recommended",
    "five stars from me",
    "best purchase this year",
    "i would buy it again",
    "my family enjoys it",
    "worth every penny",
    "exceeded my expectations",
];
pub(super) const BLAME: &[&str] = &[
    "i want a refund",
    "save your money",
    "stay away from it",
    "it died after a week",
    "i returned it the next day",
    "customer support ignored me",
    "a waste of money",
    "one star is too much",
];
pub(super) const ASPECTS: &[&str] = &[
    "battery",
    "screen",
    "sound",
    "picture",
    "cable",
    "button",
    "keyboard",
    "lens",
    "case",
    "charger",
    "setup",
    "menu",
    "volume",
    "bass",
    "microphone",
    "signal",
    "range",
    "price",
    "design",
    "build",
    "software",
    "manual",
    "remote",
    "hinge",
    "plug",
    "zoom",
    "focus",
    "display",
    "stand",
    "strap",
    "handle",
    "cover",
    "fan",
    "driver",
    "speaker",
    "touchpad",
    "warranty",
    "packaging",
];
pub(super) const PRODUCTS: &[&str] = &[
    "camera",
    "headphones",
    "router",
    "tablet",
    "monitor",
    "mouse",
    "keyboard",
    "tripod",
    "adapter",
    "flash drive",
    "radio",
    "speaker",
    "webcam",
    "phone",
    "laptop",
    "printer",
    "projector",
    "receiver",
    "antenna",
    "scanner",
    "recorder",
    "player",
    "watch",
    "lamp",
];
pub(super) const PEOPLE: &[&str] = &[
    "wife", "husband", "son", "daughter", "brother", "sister", "father", "mother", "friend",
    "boss", "neighbor", "roommate",
];
pub(super) const PLACES: &[&str] = &[
    "office",
    "kitchen",
    "car",
    "bedroom",
    "garage",
    "classroom",
    "studio",
    "garden",
    "truck",
    "cabin",
];
pub(super) const TIMES: &[&str] = &[
    "last week",
    "in march",
    "two months ago",
    "for christmas",
    "yesterday",
    "over a year ago",
    "during the sale",
    "on friday",
];
/// Negations directly before the word that they negate.
pub(super) const NEGATIONS: &[&str] = &["not", "never", "hardly", "isn't", "wasn't"];
/// Openings of a long statement that negate the word at its end, and openings that do not.
pub(super) const WIDE_NEGATIONS: &[&str] = &[
    "is not at all",
    "is anything but",
    "was never in any way",
    "is far from",
];
pub(super) const WIDE_AFFIRMATIONS: &[&str] = &[
    "is by all means",
    "is without doubt",
    "was always in every way",
    "is exactly",
];
/// What comes between such an opening and the word: more than a window of three words spans.
pub(super) const WIDE_MIDDLES: &[&str] = &[
    "what i would call",
    "what my friends and i mean by",
    "a thing that people describe as",
    "what the box promised to be",
];
/// Words that strengthen and do not negate.
pub(super) const INTENSIFIERS: &[&str] = &[
    "very",
    "really",
    "so",
    "quite",
    "truly",
    "pretty",
    "extremely",
    "rather",
];

const STEMS: &[&str] = &[
    "bat", "bel", "bor", "brin", "cal", "cam", "cast", "cel", "chan", "clar", "clin", "cor",
    "cran", "crel", "dal", "dan", "dar", "del", "den", "dor", "dram", "drel", "fal", "fan", "fel",
    "fen", "fil", "flan", "flor", "for", "fran", "gal", "gar", "gen", "glan", "gol", "gran",
    "grel", "hal", "han", "har", "hel", "hol", "hor", "jan", "jel", "kan", "kel", "kin", "kor",
    "lam", "lan", "lar", "len", "lin", "lor", "mal", "man", "mar", "mel", "men", "mil", "mon",
    "mor", "nal", "nar", "nel", "nor", "pal", "pan", "par", "pel", "pen", "pin", "plan", "pol",
    "por", "pran", "quel", "quin", "ral", "ran", "rel", "ren", "rin", "rol", "ron", "sal", "san",
    "sar", "sel", "sen", "shal", "sil", "sol", "sor", "spar", "stan", "stel", "stor", "tal", "tan",
    "tar", "tel", "ten", "thel", "tin", "tol", "tor", "tran", "trel", "val", "van", "var", "vel",
    "ven", "vin", "vol", "vor", "wal", "wan", "wel", "wen", "win", "wor", "yan", "yel", "zan",
    "zel", "zor",
];
const MIDDLES: &[&str] = &[
    "", "a", "e", "i", "o", "u", "ster", "der", "mi", "ta", "ve", "lo", "ri", "ca", "tu",
];
const ENDINGS: &[&str] = &[
    "", "s", "ed", "er", "ers", "ing", "ings", "ly", "al", "ic", "ish", "ment", "ness", "tion",
    "able", "ful", "ware", "or", "age", "et", "ette", "ive", "ism", "ist", "ty",
];

/// Every word a generated review may use.
pub(super) struct Lexicon {
    /// Made-up words, most frequent first.
    tail: Vec<String>,
    tail_weights: Weighted,
    /// Opinion words: the fixed ones, then made-up ones, most frequent first.
    liked: Vec<String>,
    disliked: Vec<String>,
    opinion_weights: Weighted,
}

impl Lexicon {
    /// The lexicon of `seed`: the same seed yields the same words with the same frequencies.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = SeededRandom::for_part(seed, "lexicon");
        let mut made_up = all_made_up_words();
        random.shuffle(&mut made_up);
        let mut opinions = |fixed: &[&str]| {
            let start = made_up.len() - TAIL_OPINIONS;
            let mut words: Vec<String> = fixed.iter().map(ToString::to_string).collect();
            words.extend(made_up.drain(start..));
            words
        };
        let (liked, disliked) = (opinions(LIKED), opinions(DISLIKED));
        made_up.truncate(TAIL_WORDS);
        for word in &mut made_up {
            if random.below(MODEL_NUMBER_EVERY) == 0 {
                *word = model_number(&mut random);
            }
        }
        Self {
            tail_weights: Weighted::zipf(made_up.len(), 20.0, 1.05),
            tail: made_up,
            opinion_weights: Weighted::zipf(liked.len(), 8.0, 1.0),
            liked,
            disliked,
        }
    }

    /// A rare word without opinion.
    pub(super) fn tail(&self, random: &mut SeededRandom) -> &str {
        &self.tail[self.tail_weights.draw(random)]
    }

    /// A positive or negative word.
    pub(super) fn opinion(&self, positive: bool, random: &mut SeededRandom) -> &str {
        let words = if positive {
            &self.liked
        } else {
            &self.disliked
        };
        &words[self.opinion_weights.draw(random)]
    }
}

fn all_made_up_words() -> Vec<String> {
    let mut words = Vec::with_capacity(STEMS.len() * MIDDLES.len() * ENDINGS.len());
    for stem in STEMS {
        for middle in MIDDLES {
            for ending in ENDINGS {
                words.push(format!("{stem}{middle}{ending}"));
            }
        }
    }
    for (first, second) in STEMS.iter().flat_map(|a| STEMS.iter().map(move |b| (a, b))) {
        words.push(format!("{first}{second}"));
    }
    words.sort_unstable();
    words.dedup();
    words.retain(|word| !LIKED.contains(&word.as_str()) && !DISLIKED.contains(&word.as_str()));
    words
}

fn model_number(random: &mut SeededRandom) -> String {
    let letters: String = (0..random.between(1, 3))
        .map(|_| (b'a' + random.below(26) as u8) as char)
        .collect();
    format!("{letters}{}", random.between(10, 9_999))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_tail_is_as_large_as_promised_and_has_no_opinion_words() {
        let lexicon = Lexicon::new(1);
        assert!(lexicon.tail.len() > 40_000, "{}", lexicon.tail.len());
        let opinions: HashSet<&String> = lexicon.liked.iter().chain(&lexicon.disliked).collect();
        assert_eq!(
            opinions.len(),
            LIKED.len() + DISLIKED.len() + 2 * TAIL_OPINIONS
        );
        assert!(lexicon.tail.iter().all(|word| !opinions.contains(word)));
    }

    #[test]
    fn seeds_decide_the_words() {
        let first = |seed| Lexicon::new(seed).tail[..50].to_vec();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
