//! `canoe python-worker`: the process behind `py_paddle`, which v1's predict scripts import.

use std::io::{self, BufReader, BufWriter};

use crate::exit::Exit;

/// Replies to requests from standard input until it ends.
pub(crate) fn run() -> anyhow::Result<Exit> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    predict::python_worker::serve(&mut input, &mut output)?;
    Ok(Exit::Success)
}
