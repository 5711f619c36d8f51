//! Where the cluster is, what it is called, and which Kubernetes it runs.

use super::named;
use crate::catalog;
use crate::names;
use crate::partition::Partition;
use crate::spec::{ClusterSpec, ControlPlaneMode, SpecProblem};

pub(super) fn identity(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    named(out, "name", names::CLUSTER, &spec.name);
    match &spec.id {
        Some(id) => named(out, "id", names::CLUSTER_ID, id),
        None => out.push(SpecProblem::warning(
            "id",
            "is missing, so `up`, `scale` and `down` will refuse",
            format!("add the line id: \"{}\"", crate::ownership::fresh_id()),
        )),
    }
    if !catalog::is_region_form(&spec.region) {
        out.push(SpecProblem::error(
            "region",
            format!("{:?} is not a region", spec.region),
            "write one such as us-west-2",
        ));
    } else if catalog::region_factor(&spec.region).is_none() {
        let common = Partition::of(&spec.region).is_common();
        let all = catalog::REGIONS.iter().map(|(name, _)| *name);
        let near = names::nearest(&spec.region, all).filter(|_| common);
        let remedy = match near {
            Some(name) => {
                format!("did you mean {name}? If not, `canoe cluster validate` asks the account")
            }
            None => "`canoe cluster validate` asks the account".to_owned(),
        };
        out.push(SpecProblem::warning(
            "region",
            format!("{} is not in the built-in list", spec.region),
            remedy,
        ));
    }
}

pub(super) fn zones(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    if spec.zones.is_empty() || spec.zones.len() > 3 {
        let message = format!("{} zones are given", spec.zones.len());
        out.push(SpecProblem::error(
            "zones",
            message,
            format!("write one to three, such as [{}a]", spec.region),
        ));
    }
    for (index, zone) in spec.zones.iter().enumerate() {
        let field = format!("zones[{index}]");
        zone_of_region(spec, out, &field, zone);
        if spec.zones[..index].contains(zone) {
            out.push(SpecProblem::error(
                &field,
                format!("{zone} is given twice"),
                "name each zone once",
            ));
        }
    }
    if let Some(zone) = &spec.control_plane.extra_zone {
        let field = "controlPlane.extraZone";
        zone_of_region(spec, out, field, zone);
        if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
            out.push(SpecProblem::warning(
                field,
                "is used by eks only",
                "remove it",
            ));
        } else if spec.zones.contains(zone) {
            out.push(SpecProblem::error(
                field,
                format!("{zone} is already in zones"),
                "name another zone, or remove it",
            ));
        }
    }
}

fn zone_of_region(spec: &ClusterSpec, out: &mut Vec<SpecProblem>, field: &str, zone: &str) {
    let letter = zone.strip_prefix(spec.region.as_str());
    let good =
        letter.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_lowercase()));
    if !good {
        let message = format!("{zone:?} is not a zone of {}", spec.region);
        out.push(SpecProblem::error(
            field,
            message,
            format!("write the region and a letter, such as {}a", spec.region),
        ));
    }
}

/// Workers may be behind, by three minor versions at most, and never ahead (Kubernetes' version skew policy).
fn worker_version(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let Some(text) = &spec.workers.kubernetes_version else {
        return;
    };
    let (plane, workers) = (
        catalog::minor(&spec.kubernetes_version),
        catalog::minor(text),
    );
    let good = match (plane, workers) {
        (Some(plane), Some(workers)) => workers <= plane && plane - workers <= 3,
        _ => false,
    };
    if !good {
        out.push(SpecProblem::error(
            "workers.kubernetesVersion",
            format!(
                "{text:?} does not fit a control plane of {}",
                spec.kubernetes_version
            ),
            "remove it; only an upgrade needs it",
        ));
    }
}

pub(super) fn version(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    worker_version(spec, out);
    let field = "kubernetesVersion";
    let text = &spec.kubernetes_version;
    let (oldest, newest) = catalog::VERSIONS;
    match catalog::minor(text) {
        None => out.push(SpecProblem::error(
            field,
            format!("{text:?} is not a minor version"),
            format!(
                "write one in quotes, such as \"{}\"",
                catalog::DEFAULT_VERSION
            ),
        )),
        Some(minor) if minor < oldest => out.push(SpecProblem::error(
            field,
            format!("{text} is no longer supported"),
            format!("write \"1.{oldest}\" to \"1.{newest}\""),
        )),
        Some(minor) if minor > newest => out.push(SpecProblem::warning(
            field,
            format!(
                "{text} is newer than the built-in list of {}",
                catalog::VERSIONS_AS_OF
            ),
            "`canoe cluster validate` asks the account",
        )),
        Some(_) => {}
    }
}
