//! The requests of the page: all are reads, all responses are JSON except for the drawing of the network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::json;
use watch::job::WatchedJob;
use watch::logs;
use watch::picture::{self, Ask, Nodes};
use watch::series::ChartAxis;
use words::process::Role;

use super::answer;
use super::job_metrics;
use super::query::Query;
use super::site::{PageSource, Site, look};

const JSON: &str = "application/json";

fn not_found(what: &str) -> Response {
    answer(StatusCode::NOT_FOUND, "text/plain", format!("{what}\n"))
}

fn json(value: &serde_json::Value) -> Response {
    answer(StatusCode::OK, JSON, value.to_string())
}

/// Runs code that reads files on a thread of its own, not on the one that serves requests.
async fn reading(act: impl FnOnce() -> Response + Send + 'static) -> Response {
    let broken = || {
        answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain",
            "the record cannot be read\n",
        )
    };
    tokio::task::spawn_blocking(act)
        .await
        .unwrap_or_else(|_| broken())
}

/// `GET /api/jobs`: the jobs that this page shows.
pub(super) async fn jobs(State(site): State<Arc<Site>>) -> Response {
    reading(move || {
        let names = site.jobs().iter().map(|source| match source {
            PageSource::Folder(job) => json!({"name": look(job).name()}),
            PageSource::Page { url, .. } => json!({"name": url}),
        });
        json(&json!({"jobs": names.collect::<Vec<_>>(), "version": env!("CARGO_PKG_VERSION")}))
    })
    .await
}

/// `GET /api/targets`: all processes that serve metrics, for Prometheus' discovery by HTTP.
pub(super) async fn targets(State(site): State<Arc<Site>>) -> Response {
    reading(move || {
        let mut targets = Vec::new();
        for job in site.folders() {
            targets.extend(job_metrics::targets(&job, Instant::now()));
        }
        json(&serde_json::Value::Array(targets))
    })
    .await
}

/// `GET /metrics`: the job and its nodes.
pub(super) async fn metrics(State(site): State<Arc<Site>>) -> Response {
    reading(move || {
        let jobs: Vec<_> = site.folders().collect();
        let text = job_metrics::text(jobs.iter().map(|job| &**job), Instant::now());
        answer(StatusCode::OK, "text/plain; version=0.0.4", text)
    })
    .await
}

/// `GET /api/jobs/<number>/<question>`.
pub(super) async fn of_job(
    State(site): State<Arc<Site>>,
    Path((number, what)): Path<(usize, String)>,
    uri: Uri,
) -> Response {
    reading(move || {
        let Some(source) = site.jobs().get(number) else {
            return not_found("there is no such job");
        };
        let text = uri.query().unwrap_or("");
        note_page(&site, &what, &Query::parse(text));
        match source {
            PageSource::Folder(job) => ask(&look(job), &what, &Query::parse(text)),
            PageSource::Page { .. } => pass_on(source, &what, text),
        }
    })
    .await
}

/// Remembers which pages are open, and which of them have shown the end of the job.
fn note_page(site: &Site, what: &str, query: &Query) {
    let Some(page) = query.number("page") else {
        return;
    };
    match what {
        "update" => {
            let again = Duration::from_secs(query.number("again").unwrap_or(1));
            site.audience().asked(page, again, Instant::now());
        }
        "seen" => site.audience().seen(page),
        _ => {}
    }
}

fn pass_on(source: &PageSource, what: &str, query: &str) -> Response {
    const KNOWN: [&str; 7] = [
        "update",
        "seen",
        "stretch",
        "histograms",
        "log",
        "network.svg",
        "config",
    ];
    if !KNOWN.contains(&what) {
        return not_found("unknown path");
    }
    match source.fetch(&format!("{what}?{query}")) {
        Ok(page) if page.kind.starts_with("image/svg+xml") => {
            answer(StatusCode::OK, "image/svg+xml", page.body)
        }
        Ok(page) => answer(StatusCode::OK, JSON, page.body),
        Err(error) => answer(
            StatusCode::BAD_GATEWAY,
            "text/plain",
            format!("{error:#}\n"),
        ),
    }
}

fn ask(job: &WatchedJob, what: &str, query: &Query) -> Response {
    let now = Instant::now();
    match what {
        "update" => {
            let ask = Ask {
                incarnation: query.number("incarnation").unwrap_or(0),
                since: query.number("since").unwrap_or(0),
                nodes: nodes(query),
            };
            json(&picture::update(job, &ask, now))
        }
        "stretch" => {
            let axis = if query.text("by") == "time" {
                ChartAxis::Time
            } else {
                ChartAxis::Samples
            };
            let range = (
                query.number("from").unwrap_or(0.0),
                query.number("to").unwrap_or(f64::MAX),
            );
            json(&picture::stretch(job, &nodes(query), axis, range))
        }
        "histograms" => {
            let pass = query.number("pass").unwrap_or(0);
            json(&picture::histograms(job, pass))
        }
        "log" => log(job, query),
        "seen" => json(&json!({})),
        "network.svg" => match job.network() {
            Ok(svg) => answer(StatusCode::OK, "image/svg+xml", svg),
            // A job that has just begun has no drawing yet.
            Err(_) => answer(StatusCode::NO_CONTENT, "image/svg+xml", ""),
        },
        "config" => json(&json!({"text": job.config().unwrap_or_default()})),
        _ => not_found("unknown path"),
    }
}

fn nodes(query: &Query) -> Nodes {
    match query.text("nodes") {
        "all" => Nodes::All,
        text => text.parse().map_or(Nodes::First, Nodes::One),
    }
}

fn log(job: &WatchedJob, query: &Query) -> Response {
    let role = match query.text("role") {
        "server" => Role::Pserver,
        _ => Role::Trainer,
    };
    let range = logs::LogRange {
        search: query.text("search").to_owned(),
        before: query.number("before"),
        after: query.number("after"),
    };
    let path = job.log(query.number("node").unwrap_or(0), role);
    match logs::read(&path, &range) {
        Ok(part) => json(&json!(part)),
        Err(error) => not_found(&format!("read {}: {error}", path.display())),
    }
}
