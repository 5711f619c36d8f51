//! `canoe report JOB_DIR`.
use crate::exit::Exit;
use clap::Args;
/// Arguments of `canoe report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The job folder.
    job: std::path::PathBuf,
}
/// Runs the command.
pub fn run(_args: ReportArgs) -> anyhow::Result<Exit> {
    Ok(Exit::Success)
}
