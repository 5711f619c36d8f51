//! Who is who: ids and addresses of all nodes. Pure; whoever asks brings the list of pods.
//!
//! `indexed`: pod i of the Job has the host name `<job>-<i>` and, through the headless Service, the
//! name `<job>-<i>.<job>`. A pod that is replaced has the same id and the same name.
//!
//! `podlist`, as v1 did, with its mistakes mended: exactly the expected number of pods must run, pods
//! that have failed or ended or are being deleted do not count, and the order is the same everywhere.
//! A replaced pod has another address, hence perhaps another id: use `indexed` to survive failures.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All nodes of a job, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// This node's id.
    pub own: u32,
    /// Host names or addresses.
    pub hosts: Vec<String>,
}

/// The nodes of an Indexed Job.
pub fn indexed(job_name: &str, nodes: u32, index: u32) -> Peers {
    let hosts = (0..nodes)
        .map(|id| format!("{job_name}-{id}.{job_name}"))
        .collect();
    Peers { own: index, hosts }
}

/// A list of pods, as far as we read it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PodList {
    #[serde(default)]
    items: Vec<Pod>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

/// Ranks the pods by address, or says what is still missing.
pub fn rank(pods: &PodList, nodes: u32, own_ip: &str) -> Result<Peers, String> {
    let mut running = BTreeMap::new();
    let mut others = Vec::new();
    for pod in &pods.items {
        let is_over = matches!(pod.status.phase.as_str(), "Failed" | "Succeeded")
            || pod.metadata.deletion_timestamp.is_some();
        match &pod.status.pod_ip {
            _ if is_over => {}
            Some(ip) if pod.status.phase == "Running" => {
                drop(running.insert(ip.clone(), pod.metadata.name.clone()))
            }
            _ => others.push(format!("{} is {}", pod.metadata.name, pod.status.phase)),
        }
    }
    let expected = nodes as usize;
    if running.len() != expected {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!("; {}", others.join(", "))
        };
        return Err(format!("{} of {expected} pods run{more}", running.len()));
    }
    // BTreeMap sorts addresses as texts, which is v1's order.
    let hosts: Vec<String> = running.into_keys().collect();
    let own = hosts.iter().position(|ip| ip == own_ip);
    let own = own.ok_or_else(|| {
        format!(
            "this pod's address {own_ip} is not among the running pods {}",
            hosts.join(", ")
        )
    })?;
    Ok(Peers {
        own: u32::try_from(own).unwrap_or(u32::MAX),
        hosts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(list: &[(&str, &str, Option<&str>, bool)]) -> PodList {
        let items: Vec<serde_json::Value> = list
            .iter()
            .map(|(name, phase, ip, deleting)| {
                let deletion = deleting.then_some("2026-11-15T00:00:00Z");
                serde_json::json!({
                    "metadata": {"name": name, "deletionTimestamp": deletion, "labels": {}},
                    "status": {"phase": phase, "podIP": ip},
                })
            })
            .collect();
        serde_json::from_value(serde_json::json!({"kind": "PodList", "items": items})).unwrap()
    }

    #[test]
    fn indexed_names_do_not_depend_on_addresses() {
        let peers = indexed("ctr", 3, 2);
        assert_eq!(
            peers,
            Peers {
                own: 2,
                hosts: vec!["ctr-0.ctr".into(), "ctr-1.ctr".into(), "ctr-2.ctr".into()]
            }
        );
    }

    #[test]
    fn pods_are_ranked_by_address_as_texts() {
        let list = pods(&[
            ("a", "Running", Some("10.0.0.9"), false),
            ("b", "Running", Some("10.0.0.10"), false),
        ]);
        assert_eq!(
            rank(&list, 2, "10.0.0.9").unwrap(),
            Peers {
                own: 1,
                hosts: vec!["10.0.0.10".into(), "10.0.0.9".into()]
            }
        );
    }

    #[test]
    fn an_early_pod_does_not_start_alone() {
        let list = pods(&[("a", "Running", Some("10.0.0.9"), false)]);
        assert_eq!(rank(&list, 3, "10.0.0.9").unwrap_err(), "1 of 3 pods run");
        let list = pods(&[
            ("a", "Running", Some("10.0.0.9"), false),
            ("b", "Pending", None, false),
        ]);
        assert_eq!(
            rank(&list, 3, "10.0.0.9").unwrap_err(),
            "1 of 3 pods run; b is Pending"
        );
    }

    #[test]
    fn pods_that_are_over_do_not_count() {
        let list = pods(&[
            ("a", "Running", Some("10.0.0.1"), false),
            ("b", "Failed", Some("10.0.0.2"), false),
            ("c", "Running", Some("10.0.0.3"), false),
            ("d", "Running", Some("10.0.0.4"), true),
            ("e", "Succeeded", Some("10.0.0.5"), false),
        ]);
        assert_eq!(rank(&list, 2, "10.0.0.3").unwrap().own, 1);
    }

    #[test]
    fn too_many_pods_and_a_strange_address_are_waits_too() {
        let list = pods(&[
            ("a", "Running", Some("10.0.0.1"), false),
            ("b", "Running", Some("10.0.0.2"), false),
        ]);
        assert_eq!(rank(&list, 1, "10.0.0.1").unwrap_err(), "2 of 1 pods run");
        assert!(
            rank(&list, 2, "10.0.0.7")
                .unwrap_err()
                .contains("10.0.0.7 is not among")
        );
        assert!(rank(&PodList::default(), 1, "x").is_err());
    }
}
