//! Training data as files: split it into shards.
//!
//! - [`split`]: shards for the trainers, nothing lost or doubled.
//! - [`random`]: the seeded random numbers behind shuffles and generated data.
//! - `parallel`: a few threads for a few files.

mod parallel;
pub mod random;
pub mod split;
