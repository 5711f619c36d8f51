//! `canoe data follow`: copies the output of a job to an object store while it runs. The pod of `copies` in job.yaml runs it.
//!
//! It only reads the volume: complete passes have the file `done`, and nodes that have finished leave a marker. Files
//! that are already in the store are not sent again, so a replacement of the pod continues where its predecessor
//! stopped.
#![allow(clippy::print_stderr, reason = "a command talks to its user")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use dataset::bucket;
use dataset::pick::{Pick, PickError};
use run::node::finish::Markers;
use run::node::own_output;
use s3::{Client, Location};

use super::progress::{human_bytes, number_of};

/// Interval between two checks of the volume.
const LOOK: Duration = Duration::from_secs(2);

/// When copies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CopyMoment {
    /// After every pass, and all the rest at the end.
    Passes,
    /// At the end.
    End,
}

/// Arguments of `canoe data follow`.
#[derive(Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// The output folder of the job.
    output: PathBuf,
    /// s3://BUCKET/PREFIX.
    to: String,
    /// Number of nodes of the job.
    #[arg(long)]
    nodes: u32,
    /// File with the job's token, which tells this run from earlier ones.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// When copies are made.
    #[arg(long, value_enum, default_value_t = CopyMoment::Passes)]
    at: CopyMoment,
    /// Seconds without a change in the output folder after which the job is given up.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    patience: u64,
}

/// Copies until the job has ended.
pub(crate) fn follow(args: &FollowArgs) -> Result<()> {
    let Some(to) = Location::parse(&args.to) else {
        bail!("{}: s3://BUCKET/PREFIX is expected", args.to);
    };
    let token = fs::read_to_string(&args.token_file)
        .with_context(|| format!("read {}", args.token_file.display()))?;
    let markers = Markers::new(args.output.clone(), args.nodes, token.trim());
    let client = Client::new()?;
    // Without the right to write there, the command fails now and not after the first pass.
    client.list(&to)?;
    let begun = SystemTime::now();
    let mut copied = BTreeSet::new();
    loop {
        let is_over = markers.missing().is_empty();
        if is_over {
            return copy(&client, &args.output, Pick::Output, &to, &mut copied);
        }
        // Until node 0 has begun, the folder may have the results of an earlier run.
        if args.at == CopyMoment::Passes && own_output::is_of(&args.output, token.trim()) {
            copy(&client, &args.output, Pick::All, &to, &mut copied)?;
        }
        let last = newest(&args.output).unwrap_or(begun).max(begun);
        let silent = last.elapsed().unwrap_or_default();
        if silent > Duration::from_secs(args.patience) {
            bail!(
                "nothing has changed in {} for {} s; what was complete until then is in {to}",
                args.output.display(),
                silent.as_secs()
            );
        }
        thread::sleep(LOOK);
    }
}

/// Copies the selected files that are not copied yet. `--keep` may remove old passes meanwhile.
fn copy(
    client: &Client,
    output: &Path,
    pick: Pick,
    to: &Location,
    copied: &mut BTreeSet<String>,
) -> Result<()> {
    let mut names = match pick.files(output) {
        Err(PickError::NoModel | PickError::Read { .. }) if pick == Pick::All => return Ok(()),
        picked => picked?,
    };
    // Logs grow; models do not.
    names.retain(|name| !(name.starts_with("pass-") && copied.contains(name)));
    if names.is_empty() {
        return Ok(());
    }
    match bucket::push_files(client, output, &names, to, &|_| {}) {
        Ok(pushed) => eprintln!(
            "{to}: {}, {}, {} were already there",
            number_of(pushed.files, "file"),
            human_bytes(pushed.bytes),
            human_bytes(pushed.kept)
        ),
        Err(_) if names.iter().any(|name| !output.join(name).exists()) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    copied.extend(names);
    Ok(())
}

/// When a file of a node, or the list of passes, changed last.
fn newest(output: &Path) -> Option<SystemTime> {
    let nodes = fs::read_dir(output).ok()?.flatten();
    let nodes = nodes.filter(|entry| entry.file_name().to_string_lossy().starts_with("node_"));
    let files = nodes.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    files
        .filter_map(|entry| changed(&entry.path()))
        .chain(changed(output))
        .max()
}
