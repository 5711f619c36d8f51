//! placeholder head

pub mod data;
