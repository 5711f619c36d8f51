//! `canoe data`: fetch, split and look at training data.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde_json::json;

use super::progress::{bytes_bar, human_bytes, set_total};
use crate::data::archive::{self, Limits};
use crate::data::carry;
use crate::data::checksum::Checksum;
use crate::data::fetch::{self, Fetched, Patience, Request};
use crate::data::show::{self, Amount, Shown};
use crate::data::split::manifest::Manifest;
use crate::data::split::sources::Sources;
use crate::data::split::{self, By, Layout, Options, Report};

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
    /// Bring a file here from a URL or a path: resumed if it was interrupted, checked, unpacked.
    Fetch(FetchArgs),
    /// Take in a folder that comes on standard input; the other end of `canoe job submit --data`.
    #[command(hide = true)]
    Receive {
        /// Where it goes.
        folder: PathBuf,
    },
    /// Show files, shards, sizes, lines and the first samples of a job directory, folder or file.
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct SplitArgs {
    /// A job directory with data/train.list, a data directory with train.list, or one file.
    source: PathBuf,
    /// Number of shards, usually the number of nodes.
    #[arg(long, value_name = "N")]
    shards: u32,
    /// Where the shards go; the default is beside the data.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is equal between shards.
    #[arg(long, value_enum, default_value_t = Even::Lines)]
    by: Even,
    /// Draw the lines of each shard at random instead of cutting the file into stretches.
    #[arg(long)]
    shuffle: bool,
    /// Seed of the shuffle.
    #[arg(long, default_value_t = 0, requires = "shuffle")]
    seed: u64,
    /// Where the shard of a node is put.
    #[arg(long, value_enum, default_value_t = Place::Data)]
    layout: Place,
    /// Replace shard directories that something else has made.
    #[arg(long)]
    force: bool,
    /// Print what each shard got as text or JSON.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct FetchArgs {
    /// http://…, https://… or a path.
    source: String,
    /// A folder (ending with / if it does not exist yet) or a file name; the default is here, under the source's name.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// What the file must be, 64 hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    sha256: Option<Checksum>,
    /// Unpack a zip, tar.gz, tar or gz file beside itself.
    #[arg(long)]
    unpack: bool,
    /// Refuse to unpack more bytes than this.
    #[arg(long, default_value_t = Limits::default().bytes, requires = "unpack", value_name = "BYTES")]
    max_bytes: u64,
    /// Fetch again and replace what is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// A job directory, a folder or a file.
    path: PathBuf,
    /// First lines to show of each file.
    #[arg(long, default_value_t = 2)]
    lines: usize,
    /// Characters to show of each line.
    #[arg(long, default_value_t = 100)]
    width: usize,
    /// Text or JSON.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Even {
    /// The number of lines, up to one.
    Lines,
    /// The number of bytes, up to a line.
    Bytes,
}

/// `--layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Place {
    /// data/ID/.
    Data,
    /// ID/data/, as in v1's Kubernetes tutorial.
    Tutorial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Runs the command.
pub fn run(args: DataArgs) -> Result<()> {
    match args.action {
        Action::Split(args) => run_split(&args),
        Action::Fetch(args) => run_fetch(&args),
        Action::Receive { folder } => Ok(carry::receive(
            &folder,
            &mut std::io::stdin().lock(),
            &mut std::io::stdout().lock(),
        )?),
        Action::Show(args) => run_show(&args),
    }
}

fn run_split(args: &SplitArgs) -> Result<()> {
    let sources = if args.source.is_dir() {
        Sources::job(&args.source, args.out.as_deref())?
    } else {
        Sources::file(&args.source, args.out.as_deref())?
    };
    let options = Options {
        shards: args.shards,
        by: match args.by {
            Even::Lines => By::Lines,
            Even::Bytes => By::Bytes,
        },
        shuffle: args.shuffle.then_some(args.seed),
        layout: match args.layout {
            Place::Data => Layout::Data,
            Place::Tutorial => Layout::Tutorial,
        },
    };
    let bar = bytes_bar("splitting", Some(sources.split_bytes()));
    let report = split::split(&sources, options, args.force, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    match args.output {
        Output::Text => print_split(&report),
        Output::Json => println!(
            "{}",
            serde_json::to_string_pretty(&json!({
                "unchanged": report.unchanged,
                "shards": report.shards,
                "manifest": report.manifest,
            }))?
        ),
    }
    Ok(())
}

fn print_split(report: &Report) {
    let Manifest { files, shared, .. } = &report.manifest;
    for (id, directory) in report.shards.iter().enumerate() {
        for file in files {
            let part = file.parts[id];
            let size = human_bytes(part.bytes);
            println!(
                "{}\t{} lines\t{size}",
                directory.join(&file.name).display(),
                part.lines
            );
        }
    }
    let done = if report.unchanged {
        "already split, nothing to do"
    } else {
        "split and read back"
    };
    eprintln!(
        "{done}: {} lines in {} shards, {} other files in each",
        report.manifest.lines(),
        report.shards.len(),
        shared.len()
    );
}

fn run_fetch(args: &FetchArgs) -> Result<()> {
    let target = fetch::target(&args.source, args.out.as_deref())?;
    let fetched = fetch_with_bar(&args.source, &target, args.sha256, args.force)?;
    println!(
        "{}\t{}\t{}",
        target.display(),
        fetched.bytes,
        fetched.checksum
    );
    if args.unpack {
        let limits = Limits {
            bytes: args.max_bytes,
            ..Limits::default()
        };
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let unpacked = archive::unpack_once(&target, folder, fetched.checksum, limits, args.force)?;
        if unpacked.unchanged {
            eprintln!("{}: was unpacked already", target.display());
        }
        for path in unpacked.paths {
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Fetches with a progress bar and says what happened.
pub(super) fn fetch_with_bar(
    source: &str,
    target: &Path,
    checksum: Option<Checksum>,
    force: bool,
) -> Result<Fetched> {
    let bar = bytes_bar("fetching", None);
    let request = Request {
        source,
        target,
        checksum,
        force,
    };
    let fetched = fetch::fetch(&request, Patience::default(), &|arrived| {
        if let Some(total) = arrived.total {
            set_total(&bar, total);
        }
        bar.set_position(arrived.bytes);
    })?;
    bar.finish_and_clear();
    let how = match (fetched.unchanged, fetched.resumed_from) {
        (true, _) => "was there already".to_owned(),
        (false, 0) => "fetched".to_owned(),
        (false, from) => format!("fetched, going on after {}", human_bytes(from)),
    };
    let proof = if checksum.is_some() {
        "checksum is right"
    } else {
        "no checksum was given to compare with"
    };
    eprintln!(
        "{}: {how}, {}, {proof}",
        target.display(),
        human_bytes(fetched.bytes)
    );
    Ok(fetched)
}

fn run_show(args: &ShowArgs) -> Result<()> {
    let shown = show::show(
        &args.path,
        Amount {
            lines: args.lines,
            width: args.width,
        },
    )?;
    match args.output {
        Output::Text => print_shown(&shown),
        Output::Json => println!("{}", serde_json::to_string_pretty(&shown)?),
    }
    match shown.split {
        Some(split) if split.interrupted => {
            bail!("a split was interrupted; run it again to finish it")
        }
        Some(split) if !split.damaged.is_empty() => {
            let names: Vec<String> = split
                .damaged
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "not what the split wrote: {}; split again to repair",
                names.join(", ")
            )
        }
        _ => Ok(()),
    }
}

fn print_shown(shown: &Shown) {
    let width = shown
        .files
        .iter()
        .map(|file| file.name.len())
        .max()
        .unwrap_or(0);
    for file in &shown.files {
        let lines = file
            .lines
            .map_or_else(|| "binary".to_owned(), |lines| format!("{lines} lines"));
        println!(
            "{:width$}  {:>12}  {:>16}",
            file.name,
            human_bytes(file.bytes),
            lines
        );
        for line in &file.first {
            println!("    {line}");
        }
    }
    if let Some(split) = &shown.split {
        let state = if split.damaged.is_empty() && !split.interrupted {
            "whole"
        } else {
            "not whole"
        };
        eprintln!("{} shards, {state}", split.shards);
    }
}
