//! The way to another Kubernetes version: one minor version at a time, each in three stages.
//!
//! Control plane, then add-ons, then workers; each stage is an update of its own, so a stage that fails rolls back
//! alone (a control plane cannot go back). Where an upgrade stands is written in the cluster file:
//! `workers.kubernetesVersion` is there while the workers are behind. So an interrupted upgrade is continued by the
//! same command, and `up` in between does what the file says.

use std::collections::BTreeMap;

use crate::catalog;
use crate::cloud::Offer;
use crate::spec::write::{with_table, with_text, without};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::statuses::VersionSupport;

/// Part of an upgrade by one minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeStage {
    /// The API server and its companions; the workers stay behind.
    ControlPlane,
    /// EKS add-ons, to their default versions.
    Addons,
    /// Every machine, one after the other.
    Workers,
}

/// One stage of one minor version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeStep {
    /// Such as `1.36`.
    pub version: String,
    /// What is upgraded.
    pub stage: UpgradeStage,
}

impl UpgradeStep {
    /// What the step does, for the terminal.
    pub fn words(&self, spec: &ClusterSpec) -> String {
        let version = &self.version;
        match (self.stage, spec.control_plane.mode) {
            (UpgradeStage::ControlPlane, ControlPlaneMode::Eks) => {
                format!("control plane to {version} (about 10 minutes; jobs continue)")
            }
            (UpgradeStage::ControlPlane, ControlPlaneMode::SelfManaged) => format!(
                "controller to {version}, in place (about 5 minutes; etcd is saved first, jobs continue)"
            ),
            (UpgradeStage::Addons, _) => format!("add-ons to their default versions for {version}"),
            (UpgradeStage::Workers, _) => format!(
                "workers to {version}, one at a time (about 5 minutes each; pods are asked to end, order a snapshot, and resume)"
            ),
        }
    }
}

/// The steps from what the file says to `wanted`, or why there is no way. An unfinished upgrade comes first.
pub fn steps(spec: &ClusterSpec, wanted: &str) -> Result<Vec<UpgradeStep>, String> {
    let minor = |text: &str| {
        catalog::minor(text).ok_or_else(|| format!("{text:?} is not a version such as 1.35"))
    };
    let (from, to) = (minor(&spec.kubernetes_version)?, minor(wanted)?);
    if to < from {
        return Err(format!(
            "{wanted} is older than {}; Kubernetes cannot go back, make a new cluster instead",
            spec.kubernetes_version
        ));
    }
    let behind = spec.workers.kubernetes_version.is_some();
    let first = if behind { from } else { from + 1 };
    let stages: &[UpgradeStage] = match spec.control_plane.mode {
        ControlPlaneMode::Eks => &[
            UpgradeStage::ControlPlane,
            UpgradeStage::Addons,
            UpgradeStage::Workers,
        ],
        ControlPlaneMode::SelfManaged => &[UpgradeStage::ControlPlane, UpgradeStage::Workers],
    };
    let step = |minor: u32, stage: &UpgradeStage| UpgradeStep {
        version: format!("1.{minor}"),
        stage: *stage,
    };
    Ok((first..=to)
        .flat_map(|minor| stages.iter().map(move |stage| step(minor, stage)))
        .collect())
}

/// Whether EKS offers the version at the usual price.
pub fn offered(wanted: &str, offers: &[Offer]) -> Result<(), String> {
    let good = |offer: &&Offer| offer.support == VersionSupport::Standard;
    match offers.iter().find(|offer| offer.version == wanted) {
        Some(offer) if good(&offer) => Ok(()),
        _ if offers.is_empty() => Ok(()), // it does not list them; the update itself will tell
        _ => {
            let names: Vec<&str> = offers
                .iter()
                .filter(good)
                .map(|o| o.version.as_str())
                .collect();
            Err(format!(
                "{wanted} is not in standard support; choose one of {}",
                names.join(", ")
            ))
        }
    }
}

/// The cluster file as a step wants it. `None` when it has no line to edit.
pub fn edited(
    text: &str,
    spec: &ClusterSpec,
    step: &UpgradeStep,
    addons: &BTreeMap<String, String>,
) -> Option<String> {
    match step.stage {
        UpgradeStage::ControlPlane => {
            if spec.workers.kubernetes_version.is_some() && spec.kubernetes_version == step.version
            {
                return Some(text.to_owned()); // begun already
            }
            let behind = &spec.kubernetes_version;
            let text = with_text(text, "workers.kubernetesVersion", behind)?;
            with_text(&text, "kubernetesVersion", &step.version)
        }
        UpgradeStage::Addons => with_table(text, "addonVersions", addons),
        UpgradeStage::Workers => Some(without(text, "workers.kubernetesVersion")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{read, write::write};

    fn spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.kubernetes_version = "1.33".to_owned();
        spec
    }

    #[test]
    fn goes_through_every_version_and_never_back() {
        let found = steps(&spec(), "1.35").unwrap();
        let words: Vec<String> = found.iter().map(|step| step.words(&spec())).collect();
        assert_eq!(found.len(), 6);
        assert!(
            words[0].starts_with("control plane to 1.34")
                && words[2].starts_with("workers to 1.34")
        );
        assert!(words[3].starts_with("control plane to 1.35"));
        assert!(steps(&spec(), "1.33").unwrap().is_empty());
        assert!(
            steps(&spec(), "1.32")
                .unwrap_err()
                .contains("cannot go back")
        );
        assert!(steps(&spec(), "latest").is_err());
    }

    /// Killed after any step, the same command does the rest: nothing is skipped, nothing goes back.
    #[test]
    fn an_interrupted_upgrade_is_continued_by_the_same_command() {
        for mode in [ControlPlaneMode::Eks, ControlPlaneMode::SelfManaged] {
            let mut first = spec();
            first.control_plane.mode = mode;
            let all = steps(&first, "1.35").unwrap();
            for done in 0..=all.len() {
                let mut text = write(&first);
                for step in &all[..done] {
                    let spec = read(&text).unwrap().spec;
                    text = edited(&text, &spec, step, &BTreeMap::new()).unwrap();
                }
                let now = read(&text).unwrap().spec;
                let behind = now.workers.kubernetes_version.as_deref();
                assert!(behind.is_none_or(
                    |old| catalog::minor(old) < catalog::minor(&now.kubernetes_version)
                ));
                // The rest brings it to the end, whatever was done before.
                for step in steps(&now, "1.35").unwrap() {
                    let spec = read(&text).unwrap().spec;
                    text = edited(&text, &spec, &step, &BTreeMap::new()).unwrap();
                }
                let last = read(&text).unwrap().spec;
                assert_eq!(
                    (
                        last.kubernetes_version.as_str(),
                        last.workers.kubernetes_version
                    ),
                    ("1.35", None)
                );
            }
        }
    }

    #[test]
    fn only_what_is_in_standard_support_is_a_goal() {
        let offer = |version: &str, support| Offer {
            version: version.to_owned(),
            support,
            standard_ends: None,
        };
        let offers = [
            offer("1.33", VersionSupport::Extended),
            offer("1.35", VersionSupport::Standard),
        ];
        assert!(offered("1.35", &offers).is_ok() && offered("1.35", &[]).is_ok());
        assert!(
            offered("1.33", &offers)
                .unwrap_err()
                .contains("one of 1.35")
        );
    }
}
