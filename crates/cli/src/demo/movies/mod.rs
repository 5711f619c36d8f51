//! Movies, users and ratings: the data of the recommendation demo.
//!
//! - [`records`]: the lines of MovieLens' `users.dat`, `movies.dat` and `ratings.dat`.
//! - [`generator`], `tastes`: people and movies made up from a seed.
//! - [`movielens`]: the real ones.
//! - [`features`], `pickle`: what the network sees of a movie and of a user, as v1's `meta.bin`.
//! - [`ratings`]: ratings for training and for testing.

pub mod features;
pub mod generator;
pub mod movielens;
mod pickle;
pub mod ratings;
pub mod records;
mod tastes;
