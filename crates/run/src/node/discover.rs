//! Finds the ids and addresses of all nodes. Pure: the caller provides the list of pods.
//!
//! `indexed`: pod i of the Job has the host name `<job>-<i>` and, through the headless Service, the
//! name `<job>-<i>.<job>`. A pod that is replaced has the same id and the same name.
//!
//! `podlist`, as in v1 but stricter: exactly the expected number of pods must run, pods
//! that have failed or ended or are being deleted do not count, and the order is the same everywhere.
//! A replaced pod has a new address, and so perhaps another id: use `indexed` to survive failures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::patience::NotYet;

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

/// The job whose pods are listed, and how to reach the API server.
#[derive(Debug, Clone)]
pub struct PodsOptions {
    /// Host of the API server, from the environment.
    pub host: String,
    /// Its port, from the environment.
    pub port: u16,
    /// The job's namespace.
    pub namespace: String,
    /// Name of the Job.
    pub job: String,
    /// Folder with `token` and `ca.crt` of the pod's service account.
    pub account_dir: PathBuf,
}

/// The fields of a pod that `podlist` needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedPod {
    /// For messages.
    pub name: String,
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub phase: String,
    /// Its address, once it has one.
    pub ip: Option<String>,
    /// The pod is being deleted.
    pub is_ending: bool,
}

/// Lists pods. This crate does not speak to an API server, so the caller implements it.
pub trait PodSource: std::fmt::Debug + Send + Sync {
    /// The pods of a Job. The error says whether another attempt can succeed.
    fn pods(&self, options: &PodsOptions) -> Result<Vec<ListedPod>, NotYet>;
}

/// Ranks the pods by address; the error says what is still missing.
pub fn rank(pods: &[ListedPod], nodes: u32, own_ip: &str) -> Result<Peers, String> {
    let mut running = BTreeMap::new();
    let mut others = Vec::new();
    for pod in pods {
        let is_over = matches!(pod.phase.as_str(), "Failed" | "Succeeded") || pod.is_ending;
        match &pod.ip {
            _ if is_over => {}
            Some(ip) if pod.phase == "Running" => {
                drop(running.insert(ip.clone(), pod.name.clone()))
            }
            _ => others.push(format!("{} is {}", pod.name, pod.phase)),
        }
    }
    let expected = nodes as usize;
    if running.len() != expected {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!("; {}", others.join(", "))
        };
        return Err(format!(
            "{} of {expected} pods are running{more}",
            running.len()
        ));
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

    fn pods(list: &[(&str, &str, Option<&str>, bool)]) -> Vec<ListedPod> {
        let listed = |(name, phase, ip, is_ending): &(&str, &str, Option<&str>, bool)| ListedPod {
            name: (*name).to_owned(),
            phase: (*phase).to_owned(),
            ip: ip.map(str::to_owned),
            is_ending: *is_ending,
        };
        list.iter().map(listed).collect()
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
        assert_eq!(
            rank(&list, 3, "10.0.0.9").unwrap_err(),
            "1 of 3 pods are running"
        );
        let list = pods(&[
            ("a", "Running", Some("10.0.0.9"), false),
            ("b", "Pending", None, false),
        ]);
        assert_eq!(
            rank(&list, 3, "10.0.0.9").unwrap_err(),
            "1 of 3 pods are running; b is Pending"
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
        assert_eq!(
            rank(&list, 1, "10.0.0.1").unwrap_err(),
            "2 of 1 pods are running"
        );
        assert!(
            rank(&list, 2, "10.0.0.7")
                .unwrap_err()
                .contains("10.0.0.7 is not among")
        );
        assert!(rank(&[], 1, "x").is_err());
    }
}
