//! The plan of a Kubernetes upgrade: one minor version at a time, control plane before workers.

use crate::catalog;
use crate::spec::{ClusterSpec, Mode};

/// The steps from the running version to `wanted`, or why there is no way.
pub fn plan(spec: &ClusterSpec, running: &str, wanted: &str) -> Result<Vec<String>, String> {
    let minor = |text: &str| {
        catalog::minor(text).ok_or_else(|| format!("{text:?} is not a version such as 1.34"))
    };
    let (from, to) = (minor(running)?, minor(wanted)?);
    if to < from {
        return Err(format!(
            "{wanted} is older than {running}; Kubernetes cannot go back, make a new cluster instead"
        ));
    }
    if to == from {
        return Ok(vec![format!(
            "Kubernetes is {running} already; nothing to do"
        )]);
    }
    if to > catalog::VERSIONS.1 {
        return Err(format!(
            "{wanted} is not known; the newest version on the list of {} is 1.{}",
            catalog::VERSIONS_AS_OF,
            catalog::VERSIONS.1
        ));
    }
    let mut steps = vec![
        "let running jobs end or save a snapshot: each worker is drained once per version"
            .to_owned(),
    ];
    for minor in from + 1..=to {
        steps.extend(one_version(spec, minor));
    }
    Ok(steps)
}

fn one_version(spec: &ClusterSpec, minor: u32) -> Vec<String> {
    match spec.control_plane.mode {
        Mode::Eks => vec![
            format!("set kubernetesVersion: \"1.{minor}\" in cluster.yaml"),
            format!("canoe cluster up: control plane to 1.{minor} (about 10 minutes, jobs go on)"),
            format!("add-ons to their default version for 1.{minor}"),
            format!("workers to 1.{minor}, one at a time (about 5 minutes each)"),
        ],
        Mode::SelfManaged => vec![
            format!(
                "on the controller: apt-get install kubeadm=1.{minor}.*, kubeadm upgrade apply, then kubelet"
            ),
            format!(
                "set kubernetesVersion: \"1.{minor}\" in cluster.yaml; canoe cluster up gives new workers 1.{minor}"
            ),
            "terminate the old workers one by one; the group replaces them".to_owned(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_through_every_version_and_never_back() {
        let spec = ClusterSpec::new("demo", "us-west-2");
        let steps = plan(&spec, "1.33", "1.35").unwrap();
        assert_eq!(
            steps
                .iter()
                .filter(|step| step.contains("control plane to"))
                .count(),
            2
        );
        assert!(
            steps.iter().position(|s| s.contains("plane to 1.34"))
                < steps.iter().position(|s| s.contains("plane to 1.35"))
        );
        assert_eq!(plan(&spec, "1.34", "1.34").unwrap().len(), 1);
        assert!(
            plan(&spec, "1.34", "1.33")
                .unwrap_err()
                .contains("cannot go back")
        );
        assert!(
            plan(&spec, "1.34", "1.99")
                .unwrap_err()
                .contains("not known")
        );
        assert!(plan(&spec, "1.34", "latest").is_err());
    }
}
