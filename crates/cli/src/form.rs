//! `--json`: the same flag for every command whose result people read as a table.

use clap::{Args, ValueEnum};

/// How a command prints its result.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Form {
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
    /// The former name of --json.
    #[arg(long = "output", value_enum, hide = true)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Table,
    Json,
}

impl Form {
    /// Whether JSON is wanted.
    pub(crate) fn json(self) -> bool {
        self.json || self.format == Some(Format::Json)
    }
}
