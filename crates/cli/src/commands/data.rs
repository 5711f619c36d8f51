//! `canoe data`: split training data into shards.

use std::path::PathBuf;

use anyhow::Result;

use crate::data::split::sources::Sources;
use crate::data::split::{self, By, Layout, Options};

/// Split, fetch and look at data.
#[derive(Debug, clap::Args)]
pub struct DataArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Split a file, or the training files of a job directory, into one shard for each trainer.
    Split(SplitArgs),
}

#[derive(Debug, clap::Args)]
struct SplitArgs {
    /// A job directory with data/train.list, a data directory with train.list, or one file.
    source: PathBuf,
    /// Number of shards, usually the number of nodes.
    #[arg(long)]
    shards: u32,
    /// Where the shards go; the default is beside the data.
    #[arg(long)]
    out: Option<PathBuf>,
    /// What is equal between shards.
    #[arg(long, value_enum, default_value_t = By::Lines)]
    by: By,
    /// Draw the lines of each shard at random instead of cutting the file into stretches.
    #[arg(long)]
    shuffle: bool,
    /// Seed of the shuffle.
    #[arg(long, default_value_t = 0, requires = "shuffle")]
    seed: u64,
    /// data: data/<id>/; tutorial: <id>/data/, as v1's Kubernetes tutorial.
    #[arg(long, value_enum, default_value_t = Layout::Data)]
    layout: Layout,
    /// Replace shard directories that something else has made.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: DataArgs) -> Result<()> {
    match args.action {
        Action::Split(args) => split(args),
    }
}

fn split(args: SplitArgs) -> Result<()> {
    let sources = if args.source.is_dir() {
        Sources::job(&args.source, args.out.as_deref())?
    } else {
        Sources::file(&args.source, args.out.as_deref())?
    };
    let options = Options {
        shards: args.shards,
        by: args.by,
        shuffle: args.shuffle.then_some(args.seed),
        layout: args.layout,
    };
    let report = split::split(&sources, options, args.force, &|_| ())?;
    let done = if report.unchanged {
        "already split"
    } else {
        "split"
    };
    eprintln!(
        "{done}: {} lines in {} shards",
        report.manifest.lines(),
        options.shards
    );
    Ok(())
}
