//! `canoe report JOB_DIR`: what a job did, in one HTML file; the curves as a picture too, if asked for.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use watch::job::Job;

use crate::exit::Exit;

/// Arguments of `canoe report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The job folder.
    job: PathBuf,
    /// The file to write (default: report.html in the job's output).
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Also write the curves as a picture, beside the report.
    #[arg(long)]
    png: bool,
}

/// Runs the command.
pub fn run(args: ReportArgs) -> anyhow::Result<Exit> {
    let mut job = Job::open(&args.job)?;
    job.look(Instant::now(), watch::recorder::now());
    let path = args
        .output
        .unwrap_or_else(|| job.output().join("report.html"));
    let write = |path: &PathBuf, bytes: &[u8]| {
        std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
        anyhow::Ok(())
    };
    write(&path, watch::report::html(&job, Instant::now()).as_bytes())?;
    if args.png {
        let charts = watch::report::charts(&job.history);
        anyhow::ensure!(!charts.is_empty(), "the job has no curves yet");
        write(&path.with_extension("png"), &watch::raster::png(&charts))?;
    }
    Ok(Exit::Success)
}
