//! `canoe demo`: writes a ready job directory with data.

use std::path::PathBuf;

use anyhow::Result;

use crate::demo::quick_start::{self, Generated};

/// Write a ready job directory, with data.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, clap::Subcommand)]
enum Demo {
    /// Praise or blame? Seven networks on product reviews.
    #[command(name = "quick_start")]
    QuickStart(QuickStartArgs),
}

#[derive(Debug, clap::Args)]
struct QuickStartArgs {
    /// The job directory to write.
    directory: PathBuf,
    /// Training samples to generate.
    #[arg(long, default_value_t = 20_000)]
    train_samples: usize,
    /// Test samples to generate.
    #[arg(long, default_value_t = 2_500)]
    test_samples: usize,
    /// Decides every byte of the generated data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace what an earlier run has written.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: DemoArgs) -> Result<()> {
    match args.demo {
        Demo::QuickStart(args) => quick_start(args),
    }
}

fn quick_start(args: QuickStartArgs) -> Result<()> {
    let wanted = Generated {
        seed: args.seed,
        train_samples: args.train_samples,
        test_samples: args.test_samples,
    };
    let summary = quick_start::write_generated(&args.directory, wanted, args.force)?;
    eprintln!(
        "wrote {} training and {} test reviews, {} words in the dictionary",
        2 * summary.sizes.train,
        2 * summary.sizes.test,
        summary.dictionary
    );
    eprintln!(
        "try: cd {} && canoe train --config=quick_start/trainer_config.lr.py --save_dir=output",
        args.directory.display()
    );
    Ok(())
}
