//! What region and zones offer: services, Kubernetes versions, zones, instance types.

use super::{Check, CheckVerdict, check};
use time::OffsetDateTime;

use crate::catalog;
use crate::cloud::{Cloud, CloudError, Offer, TypeOffer, ZoneView};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::statuses::VersionSupport;

/// EFS, and EKS with its versions. A region that lacks one has no host of its name.
pub(super) async fn services(cloud: &impl Cloud, spec: &ClusterSpec) -> Vec<Check> {
    let mut checks = Vec::new();
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        let found = cloud.eks_versions().await;
        let remedy = "choose another region, or controlPlane.mode self-managed";
        checks.push(service("EKS", spec, found, remedy, |offered| {
            version(
                &spec.kubernetes_version,
                &offered,
                OffsetDateTime::now_utc(),
            )
        }));
    }
    let found = cloud.file_systems().await;
    let remedy = "choose another region; the shared files need it";
    checks.push(service("EFS", spec, found, remedy, |_| {
        Ok("available in this region".to_owned())
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
            verdict: CheckVerdict::Fail,
            text: format!("{} does not have it: {error}; {remedy}", spec.region),
        },
        other => check(what, other.map(judge)),
    }
}

fn version(wanted: &str, offered: &[Offer], now: OffsetDateTime) -> Result<String, String> {
    match offered.iter().find(|offer| offer.version == wanted) {
        Some(offer) if offer.support == VersionSupport::Unsupported => Err(format!(
            "{wanted} is no longer supported; {}",
            good(offered)
        )),
        Some(offer) if offer.support == VersionSupport::Extended => Err(format!(
            "{wanted} is in extended support only, which would cost {:.2} USD per hour instead of {:.2}, and the cluster \
             asks for standard support; {}",
            crate::prices::EKS_EXTENDED,
            crate::prices::EKS,
            good(offered)
        )),
        Some(offer) => {
            let notice = catalog::support_notice(wanted, offer.standard_ends, now);
            let notice = notice.map_or(String::new(), |words| format!("; {words}"));
            Ok(format!("offers Kubernetes {wanted}{notice}"))
        }
        None if offered.is_empty() => {
            Ok("available in this region; it does not list its versions".to_owned())
        }
        None => Err(format!("{wanted} is not available; {}", good(offered))),
    }
}

fn good(offered: &[Offer]) -> String {
    let good = offered
        .iter()
        .filter(|offer| offer.support == VersionSupport::Standard);
    let names: Vec<&str> = good.map(|offer| offer.version.as_str()).collect();
    format!("set kubernetesVersion to one of {}", names.join(", "))
}

pub(super) async fn zones(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let result = cloud.zones().await.map(|offered| {
        let eks = spec.control_plane.mode == ControlPlaneMode::Eks;
        let (without, good): (Vec<ZoneView>, Vec<ZoneView>) = offered
            .into_iter()
            .partition(|zone| eks && zone.lacks_eks());
        let names = |zones: &[ZoneView]| -> Vec<String> {
            zones.iter().map(|zone| zone.name.clone()).collect()
        };
        let (good, without) = (names(&good), names(&without));
        let wanted = spec.subnet_zones();
        let not_good = |zone: &&String| !good.contains(zone);
        let (lacking, missing): (Vec<&String>, Vec<&String>) = wanted
            .iter()
            .filter(not_good)
            .partition(|zone| without.contains(zone));
        let choose = format!("choose from {}", good.join(", "));
        if let Some(zone) = lacking.first() {
            Err(format!(
                "{zone} is a zone in which EKS puts no control plane; {choose}"
            ))
        } else if missing.is_empty() {
            Ok(wanted.join(", "))
        } else {
            let missing: Vec<&str> = missing.into_iter().map(String::as_str).collect();
            Err(format!(
                "{} not available to this account; {choose}",
                missing.join(", ")
            ))
        }
    });
    check("zones", result)
}

pub(super) async fn types(cloud: &impl Cloud, spec: &ClusterSpec) -> Check {
    let types = &spec.all_instance_types();
    let result = cloud.offered_types(types).await.map(|offers| {
        let offered = |zone: &String, name: &String| {
            let wanted = |offer: &TypeOffer| offer.zone == *zone && offer.instance_type == *name;
            offers.iter().any(wanted)
        };
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
                "not available: {}; choose other types or zones",
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
        let offer = |version: &str, support| Offer {
            version: version.to_owned(),
            support,
            standard_ends: None,
        };
        let offered = [
            offer("1.30", VersionSupport::Unsupported),
            offer("1.33", VersionSupport::Extended),
            offer("1.34", VersionSupport::Standard),
        ];
        let now = OffsetDateTime::from_unix_timestamp(1_780_000_000).unwrap();
        assert!(version("1.34", &offered, now).unwrap().ends_with("1.34"));
        assert!(version("1.33", &offered, now).unwrap_err().contains("0.60"));
        for wanted in ["1.30", "1.33", "1.99"] {
            let text = version(wanted, &offered, now).unwrap_err();
            assert!(text.contains("one of 1.34"), "{text}");
        }
        let later = OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap();
        assert!(
            version("1.34", &offered, later)
                .unwrap()
                .contains("2026-12-02")
        );
        assert!(version("1.34", &[], now).is_ok());
    }
}
