//! Generates product reviews whose verdict is partly in the words and partly in their order.
//!
//! A review is a few sentences of talk without opinion and a few opinions. An opinion is said plainly
//! ("the lens is great"), negated ("the lens is not great"), in a long statement whose opening negates it
//! or not ("is anything but what i would call great", "is without doubt what i would call great"), as a change ("went
//! from great to awful"), as a comparison ("the old one is better than this one") or as a contrast ("the lens is awful
//! but the zoom is great": the second half counts).
//! Only the plain form shows in a bag of words, so a bag-of-words model is worse than one that uses order,
//! and long statements need more than a window of three words.

use super::lexicon::{
    ASPECTS, BLAME, INTENSIFIERS, Lexicon, NEGATIONS, PEOPLE, PLACES, PRAISE, PRODUCTS, TIMES,
    WIDE_AFFIRMATIONS, WIDE_MIDDLES, WIDE_NEGATIONS,
};
use super::review::Review;
use crate::random::{SeededRandom, Weighted};

/// Weights of the forms of an opinion; see [`Form`]. The larger the first weight, the easier for a bag of words.
const FORM_WEIGHTS: [f64; 7] = [0.50, 0.12, 0.06, 0.16, 0.06, 0.04, 0.06];
/// How often an opinion that is not the last one agrees with the verdict.
const AGREEMENT: f64 = 0.95;
/// Share of reviews whose stars contradict their text.
const MISRATED: f64 = 0.015;
/// Share of reviews with three or four stars, which preprocessing drops.
const UNDECIDED: f64 = 0.12;
/// Opinions and sentences of plain talk in a review, at least and at most.
const OPINIONS: (usize, usize) = (3, 6);
const TALK: (usize, usize) = (2, 6);

/// The forms of an opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Stock,
    Negated,
    Long,
    Change,
    Comparison,
    Contrast,
}

const FORMS: [Form; 7] = [
    Form::Plain,
    Form::Stock,
    Form::Negated,
    Form::Long,
    Form::Change,
    Form::Comparison,
    Form::Contrast,
];

/// An endless, seeded source of reviews.
pub(crate) struct ReviewGenerator {
    lexicon: Lexicon,
    random: SeededRandom,
    forms: Weighted,
}

impl ReviewGenerator {
    /// The reviews of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            lexicon: Lexicon::new(seed),
            random: SeededRandom::for_part(seed, "reviews"),
            forms: Weighted::new(FORM_WEIGHTS),
        }
    }

    pub(crate) fn next_review(&mut self) -> Review {
        let positive = self.random.chance(0.5);
        let text = self.text(positive);
        let shown = positive ^ self.random.chance(MISRATED);
        let stars = if self.random.chance(UNDECIDED) {
            3 + self.random.below(2)
        } else if shown {
            5
        } else {
            1 + self.random.below(2)
        };
        Review {
            stars: stars as f64,
            text,
        }
    }

    /// Sentences in which the last opinion is the verdict.
    fn text(&mut self, positive: bool) -> String {
        let opinions = self.random.between(OPINIONS.0, OPINIONS.1);
        let talk = self.random.between(TALK.0, TALK.1);
        let mut is_opinion: Vec<bool> = (0..opinions + talk).map(|i| i < opinions).collect();
        self.random.shuffle(&mut is_opinion);
        let mut left = opinions;
        let mut text = String::new();
        for opinion in is_opinion {
            let sentence = if opinion {
                left -= 1;
                let agrees = left == 0 || self.random.chance(AGREEMENT);
                self.opinion(positive == agrees)
            } else {
                self.talk()
            };
            push_sentence(&mut text, &sentence, &mut self.random);
        }
        text
    }

    fn opinion(&mut self, positive: bool) -> String {
        let random = &mut self.random;
        let form = FORMS[self.forms.draw(random)];
        let aspect = *random.pick(ASPECTS);
        let word =
            |positive, random: &mut SeededRandom| self.lexicon.opinion(positive, random).to_owned();
        match form {
            Form::Plain => {
                let strength = intensifier(random);
                format!("the {aspect} is {strength}{}", word(positive, random))
            }
            Form::Stock => (*random.pick(if positive { PRAISE } else { BLAME })).to_owned(),
            Form::Negated => {
                let negation = *random.pick(NEGATIONS);
                let verb = if negation.ends_with("n't") { "" } else { "is " };
                let strength = intensifier(random);
                format!(
                    "the {aspect} {verb}{negation} {strength}{}",
                    word(!positive, random)
                )
            }
            Form::Long => {
                let turned = random.chance(0.5);
                let openings = if turned {
                    WIDE_NEGATIONS
                } else {
                    WIDE_AFFIRMATIONS
                };
                let (opening, middle) = (*random.pick(openings), *random.pick(WIDE_MIDDLES));
                format!(
                    "the {aspect} {opening} {middle} {}",
                    word(positive != turned, random)
                )
            }
            Form::Change => {
                let (before, after) = (word(!positive, random), word(positive, random));
                format!("the {aspect} went from {before} to {after}")
            }
            Form::Comparison => comparison(positive, random),
            Form::Contrast => {
                let (before, after) = (word(!positive, random), word(positive, random));
                let other = *random.pick(ASPECTS);
                format!("the {aspect} is {before} but the {other} is {after}")
            }
        }
    }

    /// A sentence without opinion, with rare words.
    fn talk(&mut self) -> String {
        let random = &mut self.random;
        let product = *random.pick(PRODUCTS);
        let rare = |random: &mut SeededRandom| self.lexicon.tail(random).to_owned();
        let (first, second, third) = (rare(random), rare(random), rare(random));
        match random.below(6) {
            0 => format!(
                "i bought this {first} {product} {} for my {}",
                random.pick(TIMES),
                random.pick(PEOPLE)
            ),
            1 => format!("it came with a {first} {second} and a {third}"),
            2 => format!(
                "we use the {product} in the {} with a {first} {second}",
                random.pick(PLACES)
            ),
            3 => format!(
                "my {} has the {first} {product}, model {second}",
                random.pick(PEOPLE)
            ),
            4 => format!(
                "there is a {first} next to the {} and it says {second} {third}",
                random.pick(ASPECTS)
            ),
            _ => format!(
                "the {first} {second} {} has {} {third}",
                random.pick(ASPECTS),
                random.between(2, 64)
            ),
        }
    }
}

/// "this one beats the other" or the reverse, with the same words.
fn comparison(positive: bool, random: &mut SeededRandom) -> String {
    let old = *random.pick(&[
        "my old one",
        "the store brand",
        "the previous model",
        "the other one",
    ]);
    let (first, second) = if positive {
        ("this one", old)
    } else {
        (old, "this one")
    };
    match random.below(3) {
        0 => format!("{first} is better than {second}"),
        1 => format!("{first} beats {second} in every way"),
        _ => format!("{second} is no match for {first}"),
    }
}

fn intensifier(random: &mut SeededRandom) -> String {
    if random.chance(0.4) {
        format!("{} ", random.pick(INTENSIFIERS))
    } else {
        String::new()
    }
}

/// Appends a sentence with a capital letter and an end mark.
fn push_sentence(text: &mut String, sentence: &str, random: &mut SeededRandom) {
    if !text.is_empty() {
        text.push(' ');
    }
    let mut letters = sentence.chars();
    text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
    text.push_str(letters.as_str());
    text.push(if random.chance(0.1) { '!' } else { '.' });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::reviews::review::Sentiment;
    use crate::demo::reviews::tokenizer::tokenize;
    use xxhash_rust::xxh3::xxh3_64;

    /// Hashed n-grams of up to `longest` words, and the label.
    fn samples(count: usize, longest: usize) -> Vec<(Vec<usize>, f64)> {
        let mut generator = ReviewGenerator::new(1);
        let mut samples = Vec::new();
        while samples.len() < count {
            let review = generator.next_review();
            let Some(label) = review.label() else {
                continue;
            };
            let text = tokenize(&review.text);
            let words: Vec<&str> = text.split(' ').collect();
            let grams = (1..=longest).flat_map(|n| words.windows(n));
            let features = grams
                .map(|gram| xxh3_64(gram.join(" ").as_bytes()) as usize % (1 << 20))
                .collect();
            samples.push((
                features,
                if label == Sentiment::Positive {
                    1.0
                } else {
                    0.0
                },
            ));
        }
        samples
    }

    /// Test error of logistic regression (AdaGrad, three passes) on the features.
    fn logistic_regression(samples: &[(Vec<usize>, f64)]) -> f64 {
        let (train, test) = samples.split_at(samples.len() * 4 / 5);
        let (mut weights, mut squares) = (vec![0.0; 1 << 20], vec![1e-6; 1 << 20]);
        let score =
            |weights: &[f64], features: &[usize]| features.iter().map(|&f| weights[f]).sum::<f64>();
        for _ in 0..3 {
            for (features, label) in train {
                let gradient = 1.0 / (1.0 + libm::exp(-score(&weights, features))) - label;
                for &feature in features {
                    squares[feature] += gradient * gradient;
                    weights[feature] -= 0.1 * gradient / f64::sqrt(squares[feature]);
                }
            }
        }
        let wrong = test
            .iter()
            .filter(|(features, label)| (score(&weights, features) > 0.0) != (*label > 0.5))
            .count();
        wrong as f64 / test.len() as f64
    }

    #[test]
    fn words_alone_tell_most_and_their_order_tells_more() {
        let bag = logistic_regression(&samples(10_000, 1));
        let ordered = logistic_regression(&samples(10_000, 3));
        assert!((0.08..0.2).contains(&bag), "words alone: {bag}");
        assert!(
            ordered < 0.6 * bag,
            "in order: {ordered}, words alone: {bag}"
        );
    }

    #[test]
    fn the_seed_decides_the_text() {
        let first = |seed| ReviewGenerator::new(seed).next_review();
        assert_eq!(first(4), first(4));
        assert_ne!(first(4), first(5));
    }
}
