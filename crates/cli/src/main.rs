//! The `canoe` binary.

fn main() {}
