//! `canoe demo`: writes a complete job folder with data.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::data::fetch_with_bar;
use super::progress::bytes_bar;
use dataset::checksum::{Checksum, parse_hex};
use dataset::demo::movies::generator::World;
use dataset::demo::{quick_start, recommendation};
use dataset::fetch;
use dataset::split::sources::Sources;
use dataset::split::{self, By, ShardLayout, SplitOptions};

/// The MovieLens 1M file and the checksum that its publisher states.
const MOVIELENS: &str = "files.grouplens.org/datasets/movielens/ml-1m.zip";
const MOVIELENS_MD5: Checksum = match parse_hex("c4d9eecfca2ab87c1945afe126590906") {
    Some(digest) => Checksum::Md5(digest),
    None => panic!("32 hexadecimal digits"),
};
/// Where downloads are kept, so that a second run needs no network.
const DOWNLOADS: &str = "download";

/// Write a ready job directory, with data.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, clap::Subcommand)]
enum Demo {
    /// Sentiment of product reviews, with seven networks.
    #[command(name = "quick_start")]
    QuickStart(QuickStartArgs),
    /// Movie ratings, predicted from the cosine of user and movie features.
    Recommendation(RecommendationArgs),
}

/// Arguments of both demos.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// The job directory to write.
    directory: PathBuf,
    /// Random seed of everything that is generated or shuffled.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Expected SHA-256 of the file given with --from, 64 hexadecimal digits.
    #[arg(long, requires = "from", value_name = "HEX")]
    sha256: Option<Checksum>,
    /// Also split the training data into shards for this many nodes.
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// Replace the files of an earlier run.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct QuickStartArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Use real reviews: Amazon's reviews_Electronics_5.json.gz (or another category), a file or a URL.
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["train_samples", "test_samples"])]
    from: Option<String>,
    /// Training samples to generate.
    #[arg(long, default_value = "20000", value_name = "N")]
    train_samples: NonZeroUsize,
    /// Test samples to generate.
    #[arg(long, default_value = "2500", value_name = "N")]
    test_samples: NonZeroUsize,
}

#[derive(Debug, clap::Args)]
struct RecommendationArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Use real ratings: MovieLens' ml-1m.zip, a file, the unpacked folder or a URL.
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["users", "movies", "ratings"])]
    from: Option<String>,
    /// Users to generate.
    #[arg(long, default_value_t = 2_000)]
    users: usize,
    /// Movies to generate.
    #[arg(long, default_value_t = 1_500)]
    movies: usize,
    /// Ratings to generate.
    #[arg(long, default_value_t = 100_000)]
    ratings: usize,
}

pub(crate) fn run(args: DemoArgs) -> Result<()> {
    match args.demo {
        Demo::QuickStart(args) => run_quick_start(&args),
        Demo::Recommendation(args) => run_recommendation(&args),
    }
}

fn run_quick_start(args: &QuickStartArgs) -> Result<()> {
    let common = &args.common;
    let summary = match &args.from {
        None => {
            let wanted = quick_start::Generated {
                seed: common.seed,
                train_samples: args.train_samples.get(),
                test_samples: args.test_samples.get(),
            };
            quick_start::write_generated(&common.directory, wanted, common.force)?
        }
        Some(from) => {
            let source = obtain(from, common, None)?;
            let bar = bytes_bar(
                "preparing",
                source.metadata().ok().map(|metadata| metadata.len()),
            );
            let progress = |bytes| bar.inc(bytes);
            let summary = quick_start::write_real(
                &common.directory,
                &source,
                common.seed,
                common.force,
                &progress,
            )?;
            bar.finish_and_clear();
            summary
        }
    };
    eprintln!(
        "wrote {}: {} training and {} test reviews, {} words in the dictionary",
        common.directory.display(),
        2 * summary.sizes.train,
        2 * summary.sizes.test,
        summary.dictionary
    );
    finish(common, "trainer_config.lr.py")
}

fn run_recommendation(args: &RecommendationArgs) -> Result<()> {
    let common = &args.common;
    let summary = match &args.from {
        None => {
            let world = World {
                users: args.users,
                movies: args.movies,
                ratings: args.ratings,
                seed: common.seed,
            };
            recommendation::write_generated(&common.directory, world, common.force)?
        }
        Some(from) => {
            let known = from.ends_with(MOVIELENS).then_some(MOVIELENS_MD5);
            let source = obtain(from, common, known)?;
            recommendation::write_real(&common.directory, &source, common.seed, common.force)?
        }
    };
    eprintln!(
        "wrote {}: {} users, {} movies, {} training and {} test ratings",
        common.directory.display(),
        summary.users,
        summary.movies,
        summary.train,
        summary.test
    );
    finish(common, "trainer_config.py")
}

/// The local path of what `--from` names; it is fetched and checked if necessary.
fn obtain(from: &str, common: &CommonArgs, known: Option<Checksum>) -> Result<PathBuf> {
    let checksum = common.sha256.or(known);
    if fetch::is_url(from) {
        let target = fetch::target(from, Some(&common.directory.join(DOWNLOADS).join("")))?;
        let largest = dataset::archive::ArchiveLimits::default().bytes;
        fetch_with_bar(from, largest, &target, checksum, false)?;
        return Ok(target);
    }
    let path = PathBuf::from(from);
    if let Some(want) = checksum {
        let got = want
            .of_same_kind(&path)
            .with_context(|| format!("read {}", path.display()))?;
        if got != want {
            bail!("{} has checksum {got}, expected {want}", path.display());
        }
    }
    Ok(path)
}

/// Splits if requested, and prints what can be done next.
fn finish(common: &CommonArgs, config: &str) -> Result<()> {
    let mut hint = format!("try: canoe run {}", words::shell::word(&common.directory));
    if let Some(shards) = common.shards {
        split_job(&common.directory, shards)?;
        eprintln!("split the training data into {shards} shards");
        hint.push_str(&format!(" --nodes {shards}"));
    }
    eprintln!("{hint} --config {config}");
    Ok(())
}

fn split_job(directory: &Path, shards: u32) -> Result<()> {
    let options = SplitOptions {
        shards,
        by: By::Lines,
        shuffle: None,
        layout: ShardLayout::Data,
        header: false,
    };
    split::split(&Sources::job(directory, None)?, options, false, &|_| ())?;
    Ok(())
}
