//! Generates users, movies and ratings in the form of MovieLens' files.

use std::collections::HashSet;
use std::fmt::Write;

use super::tastes::{AGES, GENRES, Groups, MovieNature, OCCUPATIONS, Taste, liking, stars};
use crate::random::{SeededRandom, Weighted};

/// Every user has rated at least this many movies, as in MovieLens.
pub(crate) const FEWEST_RATINGS: usize = 20;
/// Nobody has rated more than this share of the movies.
const MOST_RATED: f64 = 0.5;
/// Deviation of the value of a word in the title, and what a sequel loses, in stars.
const TITLE_WORTH: f64 = 0.30;
const SEQUEL_LOSS: f64 = 0.35;
/// Share of sequels.
const SEQUELS: f64 = 0.12;

const GENRE_NAMES: [&str; GENRES] = [
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
];
const GENRE_WEIGHTS: [f64; GENRES] = [
    13.0, 7.0, 2.5, 6.0, 30.0, 5.0, 3.0, 40.0, 2.0, 1.0, 9.0, 3.0, 3.0, 12.0, 7.0, 12.0, 4.0, 2.0,
];
const AGE_CODES: [u32; AGES] = [1, 18, 25, 35, 45, 50, 56];
const AGE_WEIGHTS: [f64; AGES] = [4.0, 18.0, 35.0, 20.0, 9.0, 8.0, 6.0];
const MEN: f64 = 0.72;
const FIRST_WORDS: &[&str] = &[
    "Silent", "Golden", "Broken", "Midnight", "Lost", "Burning", "Secret", "Crimson", "Hidden",
    "Distant", "Frozen", "Wild", "Last", "Electric", "Hollow", "Paper", "Velvet", "Savage",
    "Gentle", "Endless", "Sudden", "Bitter", "Glass", "Iron", "Quiet", "Stolen",
];
const SECOND_WORDS: &[&str] = &[
    "River",
    "Summer",
    "Promise",
    "Street",
    "Garden",
    "Soldier",
    "Dream",
    "Harbor",
    "Letter",
    "Mirror",
    "Kingdom",
    "Stranger",
    "Winter",
    "Journey",
    "Shadow",
    "Orchestra",
    "Planet",
    "Detective",
    "Wedding",
    "Monster",
    "Highway",
    "Island",
    "Machine",
    "Dancer",
    "Verdict",
    "Circus",
    "Voyage",
    "Neighbor",
    "Empire",
    "Orchard",
];

/// Size and seed of the generated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Number of users.
    pub users: usize,
    /// Number of movies.
    pub movies: usize,
    /// Number of ratings.
    pub ratings: usize,
    /// Every byte is a function of it.
    pub seed: u64,
}

/// The text of the three files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovieFiles {
    /// `users.dat`.
    pub users: String,
    /// `movies.dat`.
    pub movies: String,
    /// `ratings.dat`.
    pub ratings: String,
}

/// Why data of this size are not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ratings} ratings do not fit: {users} users rate between {FEWEST_RATINGS} and {most} of {movies} movies each"
)]
pub struct Impossible {
    users: usize,
    movies: usize,
    ratings: usize,
    most: usize,
}

impl World {
    /// Generates the files.
    pub fn generate(&self) -> Result<MovieFiles, Impossible> {
        let most = (self.movies as f64 * MOST_RATED) as usize;
        let fits = (self.users * FEWEST_RATINGS..=self.users * most).contains(&self.ratings);
        if self.users == 0 || !fits {
            return Err(Impossible {
                users: self.users,
                movies: self.movies,
                ratings: self.ratings,
                most,
            });
        }
        let mut random = SeededRandom::for_part(self.seed, "movies");
        let movies = make_movies(self.movies, &mut random);
        let mut random = SeededRandom::for_part(self.seed, "users");
        let users = make_users(self.users, &mut random);
        let mut random = SeededRandom::for_part(self.seed, "ratings");
        let counts = ratings_per_user(self.ratings, self.users, most, &mut random);
        let ratings = make_ratings(&users.traits, &movies.traits, &counts, &mut random);
        Ok(MovieFiles {
            users: users.text,
            movies: movies.text,
            ratings,
        })
    }
}

/// A generated file, and the hidden traits from which ratings are computed.
struct Population<T> {
    text: String,
    /// One per line.
    traits: Vec<T>,
}

fn make_movies(count: usize, random: &mut SeededRandom) -> Population<MovieNature> {
    let worth = |words: &[&str], random: &mut SeededRandom| -> Vec<f64> {
        words
            .iter()
            .map(|_| TITLE_WORTH * random.normal())
            .collect()
    };
    let (first_worth, second_worth) = (worth(FIRST_WORDS, random), worth(SECOND_WORDS, random));
    let genre_weights = Weighted::new(GENRE_WEIGHTS);
    let (mut text, mut natures) = (String::new(), Vec::with_capacity(count));
    for id in 1..=count {
        let first = random.below(FIRST_WORDS.len() as u64) as usize;
        let second = random.below(SECOND_WORDS.len() as u64) as usize;
        let mut promise = first_worth[first] + second_worth[second];
        let mut title = format!("{} {}", FIRST_WORDS[first], SECOND_WORDS[second]);
        if random.chance(SEQUELS) {
            promise -= SEQUEL_LOSS;
            let number = *random.pick(&[" II", " III", " IV"]);
            title.push_str(number);
        }
        if random.chance(0.2) {
            title.push_str(", The");
        }
        let year = random.between(1930, 2000);
        let mut genres: Vec<usize> = (0..random.between(1, 3))
            .map(|_| genre_weights.draw(random))
            .collect();
        genres.sort_unstable();
        genres.dedup();
        let names: Vec<&str> = genres.iter().map(|&genre| GENRE_NAMES[genre]).collect();
        writeln!(text, "{id}::{title} ({year})::{}", names.join("|"))
            .expect("writing to memory cannot fail");
        natures.push(MovieNature::new(genres, promise, random));
    }
    Population {
        text,
        traits: natures,
    }
}

fn make_users(count: usize, random: &mut SeededRandom) -> Population<Taste> {
    let groups = Groups::new(random);
    let ages = Weighted::new(AGE_WEIGHTS);
    let (mut text, mut tastes) = (String::new(), Vec::with_capacity(count));
    for id in 1..=count {
        let man = random.chance(MEN);
        let age = ages.draw(random);
        let occupation = random.below(OCCUPATIONS as u64) as usize;
        let (gender, zip) = (if man { 'M' } else { 'F' }, random.between(10_000, 99_999));
        writeln!(
            text,
            "{id}::{gender}::{}::{occupation}::{zip}",
            AGE_CODES[age]
        )
        .expect("writing to memory cannot fail");
        tastes.push(Taste::new(
            &groups,
            usize::from(man),
            age,
            occupation,
            random,
        ));
    }
    Population {
        text,
        traits: tastes,
    }
}

/// A few users rate many movies, most rate few; each between [`FEWEST_RATINGS`] and `most`, `total` together.
fn ratings_per_user(
    total: usize,
    users: usize,
    most: usize,
    random: &mut SeededRandom,
) -> Vec<usize> {
    let mut counts = vec![FEWEST_RATINGS; users];
    let eagerness = Weighted::new((0..users).map(|_| libm::exp(1.1 * random.normal())));
    let mut left = total - users * FEWEST_RATINGS;
    // Mostly in proportion to eagerness; the excess goes to the next user with room.
    while left > 0 {
        let mut user = eagerness.draw(random);
        while counts[user] == most {
            user = (user + 1) % users;
        }
        counts[user] += 1;
        left -= 1;
    }
    counts
}

fn make_ratings(
    tastes: &[Taste],
    natures: &[MovieNature],
    counts: &[usize],
    random: &mut SeededRandom,
) -> String {
    let popularity = Weighted::zipf(natures.len(), 15.0, 0.9);
    let mut ranks: Vec<usize> = (0..natures.len()).collect();
    random.shuffle(&mut ranks);
    let mut text = String::new();
    let mut time = 956_700_000u64;
    for (user, (taste, &count)) in tastes.iter().zip(counts).enumerate() {
        let mut seen = HashSet::with_capacity(count);
        while seen.len() < count {
            let movie = ranks[popularity.draw(random)];
            let liked = liking(taste, &natures[movie]);
            // People choose what they expect to like.
            if random.chance(0.25 + 0.15 * liked.clamp(0.0, 5.0)) && seen.insert(movie) {
                time += random.below(90);
                let stars = stars(liked, random);
                writeln!(text, "{}::{}::{stars}::{time}", user + 1, movie + 1)
                    .expect("writing to memory cannot fail");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::movies::records::{Movie, Rating, User};

    const SMALL: World = World {
        users: 150,
        movies: 200,
        ratings: 6_000,
        seed: 1,
    };

    #[test]
    fn the_files_have_the_size_and_form_asked_for() {
        let files = SMALL.generate().unwrap();
        let movies: Vec<Movie> = files
            .movies
            .lines()
            .map(|line| Movie::parse(line).unwrap())
            .collect();
        let users: Vec<User> = files
            .users
            .lines()
            .map(|line| User::parse(line).unwrap())
            .collect();
        let ratings: Vec<Rating> = files
            .ratings
            .lines()
            .map(|line| Rating::parse(line).unwrap())
            .collect();
        assert_eq!(
            (users.len(), movies.len(), ratings.len()),
            (150, 200, 6_000)
        );
        let pairs: HashSet<(u32, u32)> = ratings
            .iter()
            .map(|rating| (rating.user, rating.movie))
            .collect();
        assert_eq!(pairs.len(), ratings.len(), "nobody rates a movie twice");
        assert!((1..=150).all(
            |user| ratings.iter().filter(|rating| rating.user == user).count() >= FEWEST_RATINGS
        ));
    }

    #[test]
    fn the_seed_decides_everything() {
        assert_eq!(SMALL.generate(), SMALL.generate());
        assert_ne!(SMALL.generate(), World { seed: 2, ..SMALL }.generate());
    }

    #[test]
    fn worlds_that_cannot_be_are_refused() {
        assert!(
            World {
                ratings: 100,
                ..SMALL
            }
            .generate()
            .is_err()
        );
        assert!(
            World {
                ratings: 1_000_000,
                ..SMALL
            }
            .generate()
            .is_err()
        );
        assert!(
            World {
                users: 0,
                ratings: 0,
                ..SMALL
            }
            .generate()
            .is_err()
        );
    }

    /// Root mean square error when every rating is predicted by `predict`.
    fn rmse(ratings: &[Rating], predict: impl Fn(&Rating) -> f64) -> f64 {
        let sum: f64 = ratings
            .iter()
            .map(|rating| (predict(rating) - f64::from(rating.stars)).powi(2))
            .sum();
        (sum / ratings.len() as f64).sqrt()
    }

    #[test]
    fn knowing_movie_and_user_lowers_the_error() {
        let world = World {
            users: 600,
            movies: 400,
            ratings: 40_000,
            seed: 3,
        };
        let files = world.generate().unwrap();
        let mut ratings: Vec<Rating> = files
            .ratings
            .lines()
            .map(|line| Rating::parse(line).unwrap())
            .collect();
        SeededRandom::new(1).shuffle(&mut ratings);
        let (train, test) = ratings.split_at(36_000);
        let mean = train
            .iter()
            .map(|rating| f64::from(rating.stars))
            .sum::<f64>()
            / train.len() as f64;
        let offsets = |key: &dyn Fn(&Rating) -> u32, base: &dyn Fn(&Rating) -> f64| {
            let mut sums = vec![(0.0, 0.0); 1_000];
            for rating in train {
                let entry = &mut sums[key(rating) as usize];
                *entry = (
                    entry.0 + f64::from(rating.stars) - base(rating),
                    entry.1 + 1.0,
                );
            }
            sums.into_iter()
                .map(|(sum, count)| sum / (count + 5.0))
                .collect::<Vec<f64>>()
        };
        let movie = offsets(&|rating| rating.movie, &|_| mean);
        let user = offsets(&|rating| rating.user, &|rating| {
            mean + movie[rating.movie as usize]
        });
        let constant = rmse(test, |_| mean);
        let with_movie = rmse(test, |rating| mean + movie[rating.movie as usize]);
        let with_both = rmse(test, |rating| {
            mean + movie[rating.movie as usize] + user[rating.user as usize]
        });
        assert!(constant - with_movie > 0.05, "{constant} {with_movie}");
        assert!(with_movie - with_both > 0.03, "{with_movie} {with_both}");
        assert!(
            with_both > 0.80,
            "tastes are left to be learned: {with_both}"
        );
    }
}
