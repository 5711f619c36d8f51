//! `canoe job ls`: all jobs, those too of which only the files are left.

use k8s::cluster::Cluster;
use k8s::cluster::listing::ListedJob;
use k8s::explain::JobState;
use serde_json::json;

use crate::table::{Align, TextTable};

/// Prints a row for each job of a namespace, or of the cluster.
pub(super) async fn list(
    cluster: &Cluster,
    namespace: Option<&str>,
    as_json: bool,
) -> anyhow::Result<()> {
    let jobs = cluster.jobs(namespace).await?;
    if as_json {
        let rows: Vec<_> = jobs.iter().map(as_value).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    if jobs.is_empty() {
        let place = namespace.map_or("the cluster".to_owned(), |name| format!("namespace {name}"));
        eprintln!("there are no jobs in {place}");
        return Ok(());
    }
    let mut table = TextTable::new(&[
        ("namespace", Align::Left),
        ("job", Align::Left),
        ("state", Align::Left),
        ("nodes", Align::Right),
        ("ready", Align::Right),
        ("since", Align::Left),
        ("files on", Align::Left),
    ]);
    for job in &jobs {
        let numbers = [job.counts.nodes, job.counts.ready];
        let [nodes, ready] = numbers.map(|number| match job.state {
            JobState::Absent => "-".to_owned(),
            _ => number.to_string(),
        });
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            job.namespace.clone(),
            job.name.clone(),
            word(job).to_owned(),
            nodes,
            ready,
            or_dash(&job.since),
            or_dash(&job.claim),
        ]);
    }
    print!("{table}");
    Ok(())
}

fn word(job: &ListedJob) -> &'static str {
    match job.state {
        JobState::Absent => "only files",
        JobState::Deleting => "being deleted",
        JobState::Complete => "finished",
        JobState::Failed => "failed",
        _ if job.is_suspended => "paused",
        JobState::Starting => "starting",
        JobState::Running => "running",
    }
}

fn as_value(job: &ListedJob) -> serde_json::Value {
    json!({
        "namespace": job.namespace,
        "name": job.name,
        "state": word(job),
        "nodes": job.counts.nodes,
        "ready": job.counts.ready,
        "since": job.since,
        "claim": job.claim,
    })
}
