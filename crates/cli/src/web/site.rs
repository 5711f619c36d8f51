//! The jobs that a page shows: folders on this machine, and pages of other machines, to which requests are forwarded.

use std::path::Path;
use std::time::Duration;
use words::lock::{Mutex, MutexGuard};

use anyhow::Context;
use watch::job::WatchedJob;

use super::audience::Audience;
use crate::record;

/// A larger response did not come from one of our pages.
const LARGEST: u64 = 64 << 20;

/// One job of a page.
pub(crate) enum PageSource {
    /// The folder of a job.
    Folder(Box<Mutex<WatchedJob>>),
    /// The page of a running job elsewhere.
    Page {
        /// Its address, without a slash at the end.
        url: String,
        /// The token that it requires, if it does.
        token: Option<String>,
    },
}

/// The jobs that a page shows.
pub(crate) struct Site {
    jobs: Vec<PageSource>,
    audience: Audience,
}

impl Site {
    /// A page of these jobs.
    pub(crate) fn new(jobs: Vec<PageSource>) -> Site {
        Site {
            jobs,
            audience: Audience::default(),
        }
    }

    /// The pages that show it.
    pub(crate) fn audience(&self) -> &Audience {
        &self.audience
    }

    /// A page of the job that writes into this output folder.
    pub(crate) fn of_output(output: &Path, folder: &Path) -> Site {
        Site::new(vec![PageSource::Folder(Box::new(Mutex::new(
            WatchedJob::at(output, folder),
        )))])
    }

    pub(crate) fn jobs(&self) -> &[PageSource] {
        &self.jobs
    }

    /// The folders among them, after reading what is new.
    pub(crate) fn folders(&self) -> impl Iterator<Item = MutexGuard<'_, WatchedJob>> {
        self.jobs.iter().filter_map(|source| match source {
            PageSource::Folder(job) => Some(look(job)),
            PageSource::Page { .. } => None,
        })
    }
}

/// A job, after reading what is new.
pub(super) fn look(job: &Mutex<WatchedJob>) -> MutexGuard<'_, WatchedJob> {
    let mut job = job.lock();
    record::look(&mut job);
    job
}

/// What another page replied.
pub(crate) struct FetchedPage {
    /// Its content type.
    pub(crate) kind: String,
    pub(crate) body: Vec<u8>,
}

impl PageSource {
    /// A folder or an address, from the command line.
    pub(crate) fn open(given: &str, token: Option<String>) -> anyhow::Result<PageSource> {
        if given.starts_with("http://") || given.starts_with("https://") {
            let url = given.trim_end_matches('/').to_owned();
            let source = PageSource::Page { url, token };
            source
                .fetch("")
                .with_context(|| format!("reach the page {given}"))?;
            return Ok(source);
        }
        Ok(PageSource::Folder(Box::new(Mutex::new(WatchedJob::open(
            Path::new(given),
        )?))))
    }

    /// Sends a request to another page about its first job; an empty question requests the list of its jobs.
    pub(crate) fn fetch(&self, question: &str) -> anyhow::Result<FetchedPage> {
        let PageSource::Page { url, token } = self else {
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
        Ok(FetchedPage { kind, body })
    }
}
