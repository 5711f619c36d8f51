//! Movies, users and ratings: the data of the recommendation demo.
//!
//! - [`records`]: the lines of MovieLens' `users.dat`, `movies.dat` and `ratings.dat`.
//! - [`generator`], `tastes`: people and movies generated from a seed.
//! - [`movielens`]: the real ones.
//! - [`features`], `pickle`: the features of a movie and of a user that the network gets, as v1's `meta.bin`.
//! - [`ratings`]: ratings for training and for testing.

pub(crate) mod features;
pub mod generator;
pub(crate) mod movielens;
mod pickle;
pub(crate) mod ratings;
pub(crate) mod records;
mod tastes;
