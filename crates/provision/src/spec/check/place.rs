//! Where the cluster is, what it is called, and which Kubernetes it runs.

use super::named;
use crate::catalog;
use crate::names;
use crate::spec::{ClusterSpec, Mode, Problem};

pub(super) fn identity(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    named(out, "name", names::CLUSTER, &spec.name);
    if !catalog::is_region_form(&spec.region) {
        out.push(Problem::error(
            "region",
            format!("{:?} is not a region", spec.region),
            "write one such as us-west-2",
        ));
    } else if catalog::region_factor(&spec.region).is_none() {
        let near = names::nearest(&spec.region, catalog::REGIONS.iter().map(|(name, _)| *name));
        let remedy = match near {
            Some(name) => {
                format!("did you mean {name}? If not, `canoe cluster validate` asks the account")
            }
            None => "`canoe cluster validate` asks the account".to_owned(),
        };
        out.push(Problem::warning(
            "region",
            format!("{} is not in the built-in list", spec.region),
            remedy,
        ));
    }
}

pub(super) fn zones(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    if spec.zones.is_empty() || spec.zones.len() > 3 {
        let message = format!("{} zones are given", spec.zones.len());
        out.push(Problem::error(
            "zones",
            message,
            format!("write one to three, such as [{}a]", spec.region),
        ));
    }
    for (index, zone) in spec.zones.iter().enumerate() {
        let field = format!("zones[{index}]");
        zone_of_region(spec, out, &field, zone);
        if spec.zones[..index].contains(zone) {
            out.push(Problem::error(
                &field,
                format!("{zone} is given twice"),
                "name each zone once",
            ));
        }
    }
    if let Some(zone) = &spec.control_plane.extra_zone {
        let field = "controlPlane.extraZone";
        zone_of_region(spec, out, field, zone);
        if spec.control_plane.mode == Mode::SelfManaged {
            out.push(Problem::warning(field, "is used by eks only", "remove it"));
        } else if spec.zones.contains(zone) {
            out.push(Problem::error(
                field,
                format!("{zone} is already in zones"),
                "name another zone, or remove it",
            ));
        }
    }
}

fn zone_of_region(spec: &ClusterSpec, out: &mut Vec<Problem>, field: &str, zone: &str) {
    let letter = zone.strip_prefix(spec.region.as_str());
    let good =
        letter.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_lowercase()));
    if !good {
        let message = format!("{zone:?} is not a zone of {}", spec.region);
        out.push(Problem::error(
            field,
            message,
            format!("write the region and a letter, such as {}a", spec.region),
        ));
    }
}

pub(super) fn version(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let field = "kubernetesVersion";
    let text = &spec.kubernetes_version;
    let (oldest, newest) = catalog::VERSIONS;
    match catalog::minor(text) {
        None => out.push(Problem::error(
            field,
            format!("{text:?} is not a minor version"),
            format!(
                "write one in quotes, such as \"{}\"",
                catalog::DEFAULT_VERSION
            ),
        )),
        Some(minor) if minor < oldest => out.push(Problem::error(
            field,
            format!("{text} is no longer supported"),
            format!("write \"1.{oldest}\" to \"1.{newest}\""),
        )),
        Some(minor) if minor > newest => out.push(Problem::warning(
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
