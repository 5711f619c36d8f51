//! `canoe dashboard JOB_DIR|URL …`: the page of running and finished jobs, of several together to compare them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use run::local::{self, Shutdown};

use crate::exit::Exit;
use crate::web::{self, PageAccess, PageSource, Site};

/// Arguments of `canoe dashboard`.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Job folders, or addresses of pages of running jobs.
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Address to serve the page at; if it is not on loopback, the page asks for the job's token (`CANOE_JOB_TOKEN`).
    #[arg(long)]
    address: Option<SocketAddr>,
}

pub(crate) fn run(args: DashboardArgs) -> anyhow::Result<Exit> {
    let token = std::env::var(local::plan::TOKEN_VARIABLE).ok();
    let jobs: anyhow::Result<Vec<PageSource>> = args
        .jobs
        .iter()
        .map(|job| PageSource::open(job, token.clone()))
        .collect();
    // Checked before the page is served, so that no address is printed for a folder without a job.
    let jobs = jobs?;
    let address = args.address.unwrap_or(([127, 0, 0, 1], web::PORT).into());
    let listener = web::listen(address, args.address.is_none())?;
    let address = listener.local_addr()?;
    let secret = match token {
        Some(token) => token,
        None => local::token::generate()?,
    };
    println!(
        "{}",
        Invitation {
            address,
            token: &secret
        }
    );
    let access = PageAccess::at(address.ip(), vec![secret.clone()]);
    web::serve(listener, Arc::new(Site::new(jobs)), access)?;
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    while shutdown.requests() == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Exit::Success)
}

/// Address and token of a page.
pub(crate) struct Invitation<'a> {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// Required to open the page if the address is not on loopback.
    pub token: &'a str,
}

impl std::fmt::Display for Invitation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "watch it at http://{}/", self.address)?;
        if !self.address.ip().is_loopback() {
            write!(f, " (it asks for the token {})", self.token)?;
        }
        Ok(())
    }
}
