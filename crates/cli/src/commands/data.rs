//! `canoe data`: fetch, split and look at training data.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::form::Form;
use crate::{record, run_checks};

use super::follow::{self, FollowArgs};
use super::progress::{bytes_bar, human_bytes, number_of, set_total};
use dataset::archive::{self, ArchiveLimits};
use dataset::bucket;
use dataset::carry::{self, Existing};
use dataset::checksum::Checksum;
use dataset::fetch::{self, FetchPatience, FetchRequest, Fetched};
use dataset::pick::Pick;
use dataset::show::{self, Amount, ShownData};
use dataset::split::manifest::SplitManifest;
use dataset::split::sources::Sources;
use dataset::split::{self, By, ShardLayout, SplitOptions, SplitReport};
use run::local::lease;
use s3::Location;

/// Split, fetch and look at data.
#[derive(Debug, clap::Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Split a file, or the training files of a job directory, into one shard per trainer.
    Split(SplitArgs),
    /// Download or copy a file from a URL or a path, or all files below s3://…: resumed after an interruption, verified, unpacked.
    Fetch(FetchArgs),
    /// Copy the files of a folder to s3://…; files that are there already are not sent again.
    Push {
        /// The folder.
        folder: PathBuf,
        /// s3://BUCKET/PREFIX.
        to: String,
    },
    /// Copy what a job makes to s3://… while it runs; what the pod of `copies` in job.yaml runs.
    #[command(hide = true)]
    Follow(FollowArgs),
    /// Receive a folder on standard input; the counterpart of `canoe job submit --data`.
    #[command(hide = true)]
    Receive {
        /// Target folder.
        folder: PathBuf,
    },
    /// Send what is picked of an output folder on standard output; the counterpart of `canoe job get`.
    #[command(hide = true)]
    Send {
        /// The output folder.
        folder: PathBuf,
        /// What of it.
        #[arg(long)]
        pick: Pick,
    },
    /// Show files, shards, sizes, lines and the first samples of a job directory, folder or file.
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct SplitArgs {
    /// A job directory with data/train.list, a data directory with train.list, one file, or s3://… (fetched to --to first).
    source: PathBuf,
    /// Number of shards, usually the number of nodes.
    #[arg(long, value_name = "N")]
    shards: u32,
    /// Directory for the shards (default: next to the data).
    #[arg(short = 'o', long, alias = "out", value_name = "DIR")]
    to: Option<PathBuf>,
    /// What each shard gets the same amount of.
    #[arg(long, value_enum, default_value_t = Even::Lines)]
    by: Even,
    /// Assign lines to shards at random instead of cutting the file into contiguous parts.
    #[arg(long)]
    shuffle: bool,
    /// Seed of the shuffle.
    #[arg(long, default_value_t = 0, requires = "shuffle")]
    seed: u64,
    /// The first line of each training file is a header: every shard gets it (default: if all are .csv or .tsv files that
    /// begin with the names of their columns).
    #[arg(long)]
    header: bool,
    /// The first line of each training file is like the others.
    #[arg(long, conflicts_with = "header")]
    no_header: bool,
    /// Folder layout of the shards.
    #[arg(long, value_enum, default_value_t = LayoutName::Data)]
    layout: LayoutName,
    /// Replace shard directories that an earlier split did not create.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct FetchArgs {
    /// http://…, https://…, s3://BUCKET/KEY, s3://BUCKET/PREFIX/ or a path.
    source: String,
    /// A folder (ending with / if it does not exist yet) or a file name (default: the current directory, under the source's name).
    #[arg(short = 'o', long, alias = "out", value_name = "PATH")]
    to: Option<PathBuf>,
    /// Expected SHA-256 of the file, 64 hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    sha256: Option<Checksum>,
    /// Unpack a zip, tar.gz, tar or gz file into the same folder.
    #[arg(long)]
    unpack: bool,
    /// Refuse a file with more bytes than this, and to unpack more than this.
    #[arg(long, default_value_t = ArchiveLimits::default().bytes, value_name = "BYTES")]
    max_bytes: u64,
    /// Fetch again and replace existing files.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// A job directory, a folder or a file.
    path: PathBuf,
    /// How many lines of each file to show.
    #[arg(long, default_value_t = 2)]
    lines: usize,
    /// How many characters of each line to show.
    #[arg(long, default_value_t = 76)]
    width: usize,
    #[command(flatten)]
    form: Form,
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Even {
    /// Lines; shards differ by at most one.
    Lines,
    /// Bytes; shards differ by at most one line.
    Bytes,
}

/// `--layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LayoutName {
    /// data/ID/.
    Data,
    /// ID/data/, as in v1's Kubernetes tutorial.
    Tutorial,
}

pub(crate) fn run(args: DataArgs) -> Result<()> {
    match args.action {
        Action::Split(args) => run_split(&args),
        Action::Fetch(args) => run_fetch(&args),
        Action::Follow(args) => follow::follow(&args),
        Action::Push { folder, to } => {
            let Some(to) = Location::parse(&to) else {
                bail!("{to:?} is not an address of an object store; write s3://BUCKET/PREFIX");
            };
            push(&folder, &to)
        }
        Action::Receive { folder } => {
            let (input, output) = (std::io::stdin(), std::io::stdout());
            let (mut input, mut output) = (input.lock(), output.lock());
            let existing = Existing::Replace;
            carry::receive(&folder, existing, &mut input, &mut output, &|_, _| {})?;
            Ok(())
        }
        Action::Send { folder, pick } => {
            let (input, output) = (std::io::stdin(), std::io::stdout());
            let mut output = std::io::BufWriter::new(output.lock());
            carry::send_picked(&folder, pick, &mut input.lock(), &mut output)?;
            Ok(())
        }
        Action::Show(args) => run_show(&args),
    }
}

fn run_split(args: &SplitArgs) -> Result<()> {
    let fetched = match args.source.to_str().and_then(Location::parse) {
        None => None,
        Some(from) => {
            let Some(out) = &args.to else {
                bail!("{from} is fetched before it is split; name the folder for it with --to DIR");
            };
            let files = fetch_objects(&from, out, false)?;
            Some(match files.as_slice() {
                [only] => only.path.clone(),
                _ => out.clone(),
            })
        }
    };
    let source = fetched.as_ref().unwrap_or(&args.source);
    // Fetched data are split in the folder to which they were fetched.
    let out = args.to.as_deref().filter(|_| fetched.is_none());
    let sources = if source.is_dir() {
        Sources::job(source, out)?
    } else {
        Sources::file(source, out)?
    };
    let target = out.unwrap_or(if source.is_dir() {
        source
    } else {
        source.parent().unwrap_or(Path::new("."))
    });
    check_unused(target)?;
    let tables = sources.split.iter().map(|file| file.path.as_path());
    let named = !args.header && !args.no_header && split::all_have_header(tables)?;
    let options = SplitOptions {
        shards: args.shards,
        by: match args.by {
            Even::Lines => By::Lines,
            Even::Bytes => By::Bytes,
        },
        shuffle: args.shuffle.then_some(args.seed),
        layout: match args.layout {
            LayoutName::Data => ShardLayout::Data,
            LayoutName::Tutorial => ShardLayout::Tutorial,
        },
        header: args.header || named,
    };
    let bar = bytes_bar("splitting", Some(sources.split_bytes()));
    let report = split::split(&sources, options, args.force, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    if args.form.json() {
        let value = json!({
            "unchanged": report.unchanged,
            "shards": report.shards,
            "manifest": report.manifest,
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print_split(&report);
    }
    if named {
        eprintln!(
            "the first line names the columns, so every shard has it; --no-header splits it like the others"
        );
    }
    Ok(())
}

/// Fails while a run trains on the data in a folder: a job folder, or the data folder of one, under any of their names.
pub(in crate::commands) fn check_unused(folder: &Path) -> Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let folders = [real(folder), real(&folder.join("data"))];
    let jobs = folders
        .iter()
        .flatten()
        .flat_map(|folder| folder.ancestors().take(2));
    let outputs: BTreeSet<PathBuf> = jobs.map(|job| job.join("output")).collect();
    // The runner itself splits the data of its job.
    let own = run_checks::lease();
    for output in outputs {
        if own.as_ref().is_none_or(|lease| !lease.is_of(&output)) {
            lease::check_free(&output, &record::host())
                .context("the data are those of a run that reads them again in every pass")?;
        }
    }
    Ok(())
}

fn print_split(report: &SplitReport) {
    let SplitManifest { files, shared, .. } = &report.manifest;
    for (id, directory) in report.shards.iter().enumerate() {
        let parts = files.iter().flat_map(|file| {
            let here = file.present_parts().find(|(shard, _)| *shard == id);
            here.map(|(_, part)| (file, part))
        });
        for (file, part) in parts {
            let amount = match file.whole {
                Some(_) => "whole".to_owned(),
                None => format!("{} lines", part.lines),
            };
            println!(
                "{}\t{amount}\t{}",
                directory.join(&file.name).display(),
                human_bytes(part.bytes)
            );
        }
    }
    let done = if report.unchanged {
        "already split, nothing to do"
    } else {
        "split and verified"
    };
    let what = if report.manifest.is_whole() {
        format!("{} whole files, because not all are text,", files.len())
    } else {
        format!("{} lines", report.manifest.lines())
    };
    eprintln!(
        "{done}: {what} in {} shards, {} other files in each",
        report.shards.len(),
        shared.len()
    );
}

fn run_fetch(args: &FetchArgs) -> Result<()> {
    if let Some(from) = Location::parse(&args.source) {
        return fetch_from_store(&from, args);
    }
    let target = fetch::target(&args.source, args.to.as_deref())?;
    if args.force {
        check_unused(target.parent().unwrap_or(Path::new(".")))?;
    }
    let fetched = fetch_with_bar(
        &args.source,
        args.max_bytes,
        &target,
        args.sha256,
        args.force,
    )?;
    println!(
        "{}\t{}\t{}",
        target.display(),
        fetched.bytes,
        fetched.checksum
    );
    if args.unpack {
        let limits = ArchiveLimits {
            bytes: args.max_bytes,
            ..ArchiveLimits::default()
        };
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let unpacked = archive::unpack_once(&target, folder, fetched.checksum, limits, args.force)?;
        if unpacked.unchanged {
            eprintln!("{}: already unpacked", target.display());
        }
        for path in unpacked.paths {
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Copies a folder to an object store and prints what happened.
fn push(folder: &Path, to: &Location) -> Result<()> {
    let bar = bytes_bar("pushing", None);
    let pushed = bucket::push(&s3::Client::new()?, folder, to, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    eprintln!(
        "{to}: {}, {}, {} were already there",
        number_of(pushed.files, "file"),
        human_bytes(pushed.bytes),
        human_bytes(pushed.kept)
    );
    Ok(())
}

fn fetch_objects(from: &Location, folder: &Path, force: bool) -> Result<Vec<bucket::Fetched>> {
    let bar = bytes_bar("fetching", None);
    let client = s3::Client::new()?;
    let files = bucket::fetch(&client, from, folder, force, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    let total: u64 = files.iter().map(|file| file.bytes).sum();
    let unchanged = files.iter().filter(|file| file.unchanged).count();
    let resumed: u64 = files.iter().map(|file| file.resumed_from).sum();
    let how = match resumed {
        0 => String::new(),
        bytes => format!(", resumed after {}", human_bytes(bytes)),
    };
    eprintln!(
        "{from}: {}, {}, {unchanged} were already there{how}",
        number_of(files.len(), "file"),
        human_bytes(total)
    );
    Ok(files)
}

/// Fetches the objects below a prefix into a folder, and unpacks archives among them.
fn fetch_from_store(from: &Location, args: &FetchArgs) -> Result<()> {
    let folder = args.to.clone().unwrap_or_else(|| PathBuf::from("."));
    let files = fetch_objects(from, &folder, args.force)?;
    if args.sha256.is_some() && files.len() != 1 {
        bail!(
            "--sha256 is the checksum of one file, and {from} has {}",
            files.len()
        );
    }
    for file in files {
        let checksum = dataset::checksum::sha256(&file.path)?;
        if let Some(want) = args.sha256.filter(|want| *want != checksum) {
            bail!(
                "{} has checksum {checksum}, expected {want}",
                file.path.display()
            );
        }
        println!("{}\t{}\t{checksum}", file.path.display(), file.bytes);
        let name = file.path.to_string_lossy();
        let is_archive = ARCHIVES.iter().any(|ending| name.ends_with(ending));
        if args.unpack && is_archive {
            let limits = ArchiveLimits {
                bytes: args.max_bytes,
                ..ArchiveLimits::default()
            };
            let target = file.path.parent().unwrap_or(&folder);
            let unpacked = archive::unpack_once(&file.path, target, checksum, limits, args.force)?;
            for path in unpacked.paths {
                println!("{}", path.display());
            }
        }
    }
    Ok(())
}

/// How names of files end that can be unpacked.
const ARCHIVES: [&str; 5] = [".zip", ".tar.gz", ".tgz", ".tar", ".gz"];

/// Fetches with a progress bar and prints what happened.
pub(super) fn fetch_with_bar(
    source: &str,
    largest: u64,
    target: &Path,
    checksum: Option<Checksum>,
    force: bool,
) -> Result<Fetched> {
    // Of a link, the target is replaced.
    let target = &target.canonicalize().unwrap_or_else(|_| target.to_owned());
    if target.exists() && !target.is_file() {
        bail!("{} is not a file; choose another name", target.display());
    }
    let bar = bytes_bar("fetching", None);
    let request = FetchRequest {
        source,
        target,
        checksum,
        force,
        largest,
    };
    let fetched = fetch::fetch(&request, FetchPatience::default(), &|arrived| {
        if let Some(total) = arrived.total {
            set_total(&bar, total);
        }
        bar.set_position(arrived.bytes);
    })?;
    bar.finish_and_clear();
    let how = match (fetched.unchanged, fetched.resumed_from) {
        (true, _) => "already there".to_owned(),
        (false, 0) => "fetched".to_owned(),
        (false, from) => format!("fetched, resumed after {}", human_bytes(from)),
    };
    let proof = if checksum.is_some() {
        "checksum matches"
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
    if !args.path.exists() {
        let path = args.path.display();
        bail!("{path} does not exist; give a job folder, a folder with data or a file");
    }
    let shown = show::show(
        &args.path,
        Amount {
            lines: args.lines,
            width: args.width,
        },
    )?;
    if args.form.json() {
        println!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        print_shown(&shown);
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

fn print_shown(shown: &ShownData) {
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
            "incomplete"
        };
        eprintln!("{} shards, {state}", split.shards);
    }
}
