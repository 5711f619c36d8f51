//! `canoe report JOB_DIR …`: the course of one or several jobs as one HTML file, and on request the curves as an image.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use watch::job::WatchedJob;

use crate::command_output;
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
    command_output::write(Some(path), text)?;
    if !command_output::is_standard(Some(path)) {
        println!("{}", path.display());
    }
    Ok(())
}
