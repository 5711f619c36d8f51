//! Conditional random fields over sequences: the cost (`crf`) and the best sequence of labels (`crf_decoding`).
//!
//! - [`chain`]: the mathematics on one sequence.
//! - [`cost`], [`decoding`]: the layers.

pub(crate) mod chain;
pub(crate) mod cost;
pub(crate) mod decoding;
