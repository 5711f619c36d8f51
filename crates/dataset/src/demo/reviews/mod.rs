//! Product reviews: the data of the quick_start demo.
//!
//! - [`review`]: one review and its label.
//! - [`tokenizer`]: text to words.
//! - [`corpus`]: labelled reviews to `train.txt`, `test.txt`, `dict.txt` and their lists.
//! - [`amazon`]: the real reviews.
//! - [`generator`], `lexicon`: reviews generated from a seed.

pub(crate) mod amazon;
pub(crate) mod corpus;
pub(crate) mod generator;
mod lexicon;
pub(crate) mod review;
pub(crate) mod tokenizer;
