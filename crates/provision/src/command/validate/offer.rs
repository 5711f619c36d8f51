//! What region and zones offer: services, Kubernetes versions, zones, instance types.

use super::{Check, Verdict, check};
use crate::cloud::{Cloud, CloudError};
use crate::spec::{ClusterSpec, Mode};

/// EFS, and EKS with its versions. A region that lacks one has no host of its name.
pub(super) async fn services(cloud: &impl Cloud, spec: &ClusterSpec) -> Vec<Check> {
    let mut checks = Vec::new();
    if spec.control_plane.mode == Mode::Eks {
        let found = cloud.eks_versions().await;
        let remedy = "choose another region, or controlPlane.mode self-managed";
        checks.push(service("EKS", spec, found, remedy, |offered| {
            version(&spec.kubernetes_version, &offered)
        }));
    }
    let found = cloud.file_systems(&spec.name).await;
    let remedy = "choose another region; the shared files need it";
    checks.push(service("EFS", spec, found, remedy, |_| {
        Ok("on offer".to_owned())
    }));
    checks
}

fn service<T>(
    what: &'static str,
    spec: &ClusterSpec,
    found: Result<T, CloudError>,
    remedy: &str,
    judge: impl FnOnce(T) -> Result<String, String>,
) -> Check {
    match found {
        Err(error) if error.is_absent_service() => Check {
            what,
            verdict: Verdict::Fail,
            text: format!("{} does not have it: {error}; {remedy}", spec.region),
        },
        other => check(what, other.map(judge)),
    }
}

fn version(wanted: &str, offered: &[(String, String)]) -> Result<String, String> {
    match offered.iter().find(|(version, _)| version == wanted) {
        Some((_, status)) if status.starts_with("EXTENDED") => Ok(format!(
            "offers {wanted}, in extended support: 0.60 USD an hour instead of 0.10"
        )),
        Some((_, status)) if status.starts_with("UNSUPPORTED") => Err(format!(
            "{wanted} is no longer supported; {}",
            good(offered)
        )),
        Some(_) => Ok(format!("offers Kubernetes {wanted}")),
        None if offered.is_empty() => Ok("on offer; it does not list its versions".to_owned()),
        None => Err(format!("{wanted} is not on offer; {}", good(offered))),
    }
}

fn good(offered: &[(String, String)]) -> String {
    let good = offered
        .iter()
        .filter(|(_, status)| !status.starts_with("UNSUPPORTED"));
    let names: Vec<&str> = good.map(|(version, _)| version.as_str()).collect();
    format!("set kubernetesVersion to one of {}", names.join(", "))
}

pub(super) async fn zones(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let result = cloud.zones().await.map(|offered| {
        let missing: Vec<String> = spec
            .subnet_zones()
            .into_iter()
            .filter(|zone| !offered.contains(zone))
            .collect();
        if missing.is_empty() {
            Ok(spec.subnet_zones().join(", "))
        } else {
            Err(format!(
                "{} not open to this account; choose from {}",
                missing.join(", "),
                offered.join(", ")
            ))
        }
    });
    check("zones", result)
}

pub(super) async fn types(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let types = &spec.workers.instance_types;
    let result = cloud.offered_types(types).await.map(|offers| {
        let offered =
            |zone: &String, name: &String| offers.iter().any(|(z, n)| z == zone && n == name);
        let mut missing = Vec::new();
        for zone in &spec.zones {
            missing.extend(
                types
                    .iter()
                    .filter(|name| !offered(zone, name))
                    .map(|name| format!("{name} in {zone}")),
            );
        }
        if missing.is_empty() {
            Ok(format!("{} in every zone", types.join(", ")))
        } else {
            Err(format!(
                "not on offer: {}; choose other types or zones",
                missing.join(", ")
            ))
        }
    });
    check("instance types", result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged_by_what_eks_says() {
        let offered = [
            ("1.30".to_owned(), "UNSUPPORTED".to_owned()),
            ("1.33".to_owned(), "EXTENDED_SUPPORT".to_owned()),
            ("1.34".to_owned(), "STANDARD_SUPPORT".to_owned()),
        ];
        assert!(version("1.34", &offered).unwrap().contains("1.34"));
        assert!(version("1.33", &offered).unwrap().contains("0.60"));
        for wanted in ["1.30", "1.99"] {
            let text = version(wanted, &offered).unwrap_err();
            assert!(text.contains("one of 1.33, 1.34"), "{text}");
        }
        assert!(version("1.34", &[]).is_ok());
    }
}
