//! The tastes from which the ratings of the generated data are computed.
//!
//! A rating is the sum of: how good the movie is, how generous the user is, what people of the user's gender, age and
//! occupation think of the movie's genres, what this user thinks of them, how well the hidden traits of both fit,
//! what the words of the title promise, and chance. A model that knows more of these has a lower error; chance is
//! the floor.

use crate::random::SeededRandom;

/// Number of genres.
pub(super) const GENRES: usize = 18;
/// Number of age groups and of occupations.
pub(super) const AGES: usize = 7;
pub(super) const OCCUPATIONS: usize = 21;
/// Hidden traits of users and movies.
const TRAITS: usize = 5;

/// The mean of all ratings and the deviations of what is added to it, in stars.
const MEAN: f64 = 3.55;
const QUALITY: f64 = 0.45;
const GENEROSITY: f64 = 0.35;
const GROUP_TASTE: f64 = 0.28;
const OWN_TASTE: f64 = 0.30;
const TRAIT_FIT: f64 = 0.40;
/// Chance: no model can get below this.
const CHANCE: f64 = 0.70;

/// What groups of people think of genres.
pub(super) struct Groups {
    gender: Vec<[f64; GENRES]>,
    age: Vec<[f64; GENRES]>,
    occupation: Vec<[f64; GENRES]>,
}

impl Groups {
    pub(super) fn new(random: &mut SeededRandom) -> Self {
        let mut table = |rows: usize| (0..rows).map(|_| normals(random, GROUP_TASTE)).collect();
        Self {
            gender: table(2),
            age: table(AGES),
            occupation: table(OCCUPATIONS),
        }
    }
}

/// What a user likes.
pub(super) struct Taste {
    generosity: f64,
    genres: [f64; GENRES],
    traits: [f64; TRAITS],
}

impl Taste {
    /// The taste of a member of these groups.
    pub(super) fn new(
        groups: &Groups,
        gender: usize,
        age: usize,
        occupation: usize,
        random: &mut SeededRandom,
    ) -> Self {
        let mut genres = normals(random, OWN_TASTE);
        for (genre, taste) in genres.iter_mut().enumerate() {
            *taste += groups.gender[gender][genre]
                + groups.age[age][genre]
                + groups.occupation[occupation][genre];
        }
        Self {
            generosity: GENEROSITY * random.normal(),
            genres,
            traits: normals(random, 1.0),
        }
    }
}

/// What a movie is like.
pub(super) struct MovieNature {
    quality: f64,
    genres: Vec<usize>,
    traits: [f64; TRAITS],
}

impl MovieNature {
    /// A movie of these genres, whose title adds `title` stars to its ratings.
    pub(super) fn new(genres: Vec<usize>, title: f64, random: &mut SeededRandom) -> Self {
        Self {
            quality: title + QUALITY * random.normal(),
            genres,
            traits: normals(random, 1.0),
        }
    }
}

/// How much the user would like the movie, without chance.
pub(super) fn liking(taste: &Taste, nature: &MovieNature) -> f64 {
    let genres: f64 = nature.genres.iter().map(|&genre| taste.genres[genre]).sum();
    let fit: f64 = taste
        .traits
        .iter()
        .zip(&nature.traits)
        .map(|(a, b)| a * b)
        .sum();
    MEAN + nature.quality
        + taste.generosity
        + genres / (nature.genres.len() as f64).sqrt()
        + TRAIT_FIT * fit / (TRAITS as f64).sqrt()
}

/// The stars given for a liking.
pub(super) fn stars(liking: f64, random: &mut SeededRandom) -> u8 {
    (liking + CHANCE * random.normal()).round().clamp(1.0, 5.0) as u8
}

fn normals<const N: usize>(random: &mut SeededRandom, deviation: f64) -> [f64; N] {
    std::array::from_fn(|_| deviation * random.normal())
}
