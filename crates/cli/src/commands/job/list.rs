//! `canoe job ls`: all jobs, including those of which only the files are left.

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
    print!("{}", table(&jobs, namespace.is_none()));
    Ok(())
}

/// With or without the namespaces.
fn table(jobs: &[ListedJob], with_namespaces: bool) -> TextTable {
    let columns = [
        ("namespace", Align::Left),
        ("job", Align::Left),
        ("state", Align::Left),
        ("nodes", Align::Right),
        ("ready", Align::Right),
        ("since (UTC)", Align::Left),
        ("files on", Align::Left),
    ];
    let first = usize::from(!with_namespaces);
    let mut table = TextTable::new(&columns[first..]);
    for job in jobs {
        let numbers = [job.counts.nodes, job.counts.ready];
        let [nodes, ready] = numbers.map(|number| match job.state {
            JobState::Absent => "-".to_owned(),
            _ => number.to_string(),
        });
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let cells = [
            job.namespace.clone(),
            job.name.clone(),
            word(job).to_owned(),
            nodes,
            ready,
            or_dash(&job.since.as_deref().map(minute)),
            or_dash(&job.claim),
        ];
        table.row(cells.into_iter().skip(first));
    }
    table
}

/// `2026-11-18T14:23:05Z` without the seconds and the letters.
fn minute(time: &str) -> String {
    let minute = time.get(..16).unwrap_or(time);
    minute.replacen('T', " ", 1)
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

#[cfg(test)]
mod tests {
    use k8s::explain::NodeCounts;

    use super::*;

    #[test]
    fn a_list_fits_into_eighty_columns() {
        let job = ListedJob {
            namespace: "machine-learning".to_owned(),
            name: "quick-start-embed".to_owned(),
            state: JobState::Deleting,
            counts: NodeCounts {
                nodes: 1000,
                ready: 1000,
                ..NodeCounts::default()
            },
            since: Some("2026-11-18T14:23:05Z".to_owned()),
            claim: Some("canoe-files".to_owned()),
            is_suspended: false,
        };
        let one = table(std::slice::from_ref(&job), false).to_string();
        assert!(one.lines().all(|line| line.chars().count() <= 80), "{one}");
        assert!(
            one.contains("1000  2026-11-18 14:23  canoe-files") && !one.contains("machine"),
            "{one}"
        );
        let all = table(&[job], true).to_string();
        assert!(all.contains("machine-learning  quick-start"), "{all}");
    }
}
