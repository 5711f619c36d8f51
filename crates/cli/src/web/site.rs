//! The jobs that a page shows: folders on this machine, and pages of other machines that are passed on.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use watch::job::Job;

/// An answer of another page that is larger than this is none of ours.
const LARGEST: u64 = 64 << 20;

/// One job of a page.
pub enum Source {
    /// A folder.
    Folder(Box<Mutex<Job>>),
    /// The page of a running job elsewhere.
    Page {
        /// Its address, without a slash at the end.
        url: String,
        /// What it asks for.
        token: Option<String>,
    },
}

/// The jobs that a page shows.
pub struct Site {
    jobs: Vec<Source>,
}

impl Site {
    /// A page of these jobs.
    pub fn new(jobs: Vec<Source>) -> Site {
        Site { jobs }
    }

    /// A page of the job that writes into this output folder.
    pub fn of_output(output: &Path, folder: &Path) -> Site {
        Site::new(vec![Source::Folder(Box::new(Mutex::new(Job::at(
            output, folder,
        ))))])
    }

    /// All of them.
    pub fn jobs(&self) -> &[Source] {
        &self.jobs
    }

    /// The folders among them, with what is new.
    pub fn folders(&self) -> impl Iterator<Item = MutexGuard<'_, Job>> {
        self.jobs.iter().filter_map(|source| match source {
            Source::Folder(job) => Some(look(job)),
            Source::Page { .. } => None,
        })
    }
}

/// A job with what is new.
pub fn look(job: &Mutex<Job>) -> MutexGuard<'_, Job> {
    let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
    job.look(Instant::now(), watch::recorder::now());
    job
}

impl Source {
    /// A folder or an address, as the command line names it.
    pub fn open(given: &str, token: Option<String>) -> anyhow::Result<Source> {
        if given.starts_with("http://") || given.starts_with("https://") {
            let url = given.trim_end_matches('/').to_owned();
            let source = Source::Page { url, token };
            source
                .fetch("")
                .with_context(|| format!("reach the page {given}"))?;
            return Ok(source);
        }
        Ok(Source::Folder(Box::new(Mutex::new(Job::open(Path::new(
            given,
        ))?))))
    }

    /// Asks another page about its first job; the list of its jobs for no question.
    pub fn fetch(&self, question: &str) -> anyhow::Result<(String, Vec<u8>)> {
        let Source::Page { url, token } = self else {
            anyhow::bail!("a folder is read, not asked");
        };
        let address = match question {
            "" => format!("{url}/api/jobs"),
            question => format!("{url}/api/jobs/0/{question}"),
        };
        let mut request = ureq::get(&address)
            .config()
            .timeout_global(Some(Duration::from_secs(10)))
            .build();
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.call()?;
        let kind = response
            .headers()
            .get("content-type")
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/json").to_owned();
        let body = response
            .body_mut()
            .with_config()
            .limit(LARGEST)
            .read_to_vec()?;
        Ok((kind, body))
    }
}
