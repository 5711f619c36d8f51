//! `canoe report JOB_DIR …`: what jobs did, in one HTML file; the curves also as an image, if requested.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use watch::job::WatchedJob;

use crate::exit::Exit;
use crate::record;

/// Arguments of `canoe report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The job folder; several are compared.
    #[arg(required = true)]
    jobs: Vec<PathBuf>,
    /// The file to write (default: report.html in the output of the first job).
    #[arg(short = 'o', long, alias = "out", value_name = "FILE")]
    to: Option<PathBuf>,
    /// Also write the curves of the first job as an SVG image next to the report.
    #[arg(long)]
    svg: bool,
}

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<Exit> {
    let mut jobs = Vec::new();
    for folder in &args.jobs {
        let mut job = WatchedJob::open(folder)?;
        record::look(&mut job);
        jobs.push(job);
    }
    let beside = jobs[0].output().join("report.html");
    let path = args.to.unwrap_or(beside);
    write(&path, &watch::report::html(&jobs, Instant::now()))?;
    if args.svg {
        let charts = watch::report::charts(&jobs[0].history);
        anyhow::ensure!(!charts.is_empty(), "the job has no curves yet");
        write(
            &path.with_extension("svg"),
            &watch::chart::svg_file(&charts),
        )?;
    }
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text).with_context(|| format!("write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Writes a file as a whole: if that fails, what was there stays.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link, a pipe or a terminal is written to, not replaced.
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}
