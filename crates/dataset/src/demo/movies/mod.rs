//! Movies, users and ratings: the data of the recommendation demo.
//!
//! - [`records`]: the lines of MovieLens' `users.dat`, `movies.dat` and `ratings.dat`.
//! - [`generator`], `tastes`: people and movies generated from a seed.
//! - [`movielens`]: the real ones.
//! - [`features`], `pickle`: the features of a movie and of a user that the network gets, as v1's `meta.bin`.
//! - [`ratings`]: ratings for training and for testing.

pub mod features;
pub mod generator;
pub mod movielens;
mod pickle;
pub mod ratings;
pub mod records;
mod tastes;
