//! `status`: what is there, what it costs, whether it has been changed behind our back.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::sleep;

use super::down::enabled_keys;
use super::own::{self, StackOwner};
use super::up::existing;
use super::{CommandError, Pace};
use crate::catalog;
use crate::cloud::Cloud;
use crate::cost::{self, StackAge};
use crate::lifecycle::leftovers::classify;
use crate::lifecycle::next::StackState;
use crate::lifecycle::status::{ClusterStatus, StackLine};
use crate::ownership::{copied_from, own_ids, stranger};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::StackLayer;
use crate::template::base::IMAGES_OUTPUT;

/// Looks. `drift` also asks AWS to compare every resource with its template, which takes a while.
pub async fn status(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    drift: Option<Pace>,
    now: OffsetDateTime,
) -> Result<ClusterStatus, CommandError> {
    let mut stacks = Vec::new();
    let mut ages = Vec::new();
    for layer in StackLayer::ALL {
        let name = layer.stack_name(&spec.name);
        let (view, foreign) = match own::find(cloud, spec, layer).await? {
            StackOwner::Nothing => (None, None),
            StackOwner::Ours(view) => (Some(view), None),
            StackOwner::Stranger(words) => (None, Some(words)),
        };
        let state = view.as_ref().map_or(StackState::Absent, |view| {
            StackState::from_status(view.status.clone())
        });
        if let Some(view) = &view {
            ages.extend(age_hours(&view.created, now).map(|hours| StackAge { layer, hours }));
        }
        let drift = match drift {
            Some(pace) if matches!(state, StackState::Ready(_)) => {
                Some(drift_of(cloud, &name, pace).await)
            }
            _ => None,
        };
        stacks.push(StackLine {
            layer,
            name,
            state,
            foreign,
            drift,
        });
    }
    let estimate = cost::estimate_at(spec, now);
    let hours = ages.iter().map(|age| age.hours).reduce(f64::max);
    let present = stacks
        .iter()
        .filter(|line| line.state != StackState::Absent);
    let cost_hourly = present.map(|line| estimate.hourly_of(line.layer)).sum();
    let (tagged, copy) = tagged(cloud, spec).await?;
    // What stacks that are there have made is not left over.
    let absent = stacks.iter().all(|line| line.state == StackState::Absent);
    let kept = if absent { tagged } else { Vec::new() };
    let mut status = ClusterStatus {
        name: spec.name.clone(),
        region: spec.region.clone(),
        stacks,
        endpoint: None,
        nodes_ready: None,
        nodes_wanted: spec.all_workers(),
        file_system: spec.storage.file_system_id.clone(),
        access_point: None,
        images: None,
        hours,
        cost_hourly,
        cost_so_far: hours.map(|_| cost::so_far(&estimate, &ages)),
        passes: Vec::new(),
        support: match spec.control_plane.mode {
            ControlPlaneMode::Eks => catalog::support_notice(&spec.kubernetes_version, None, now),
            ControlPlaneMode::SelfManaged => None,
        },
        addons: addons(spec),
        kept,
        copy,
        upgrading: spec
            .workers
            .kubernetes_version
            .as_ref()
            .map(|_| spec.kubernetes_version.clone()),
        certificate_days: None,
    };
    if let Ok(base) = existing(cloud, spec, StackLayer::Base).await {
        status.images = base.outputs.get(IMAGES_OUTPUT).cloned();
    }
    if let Ok(storage) = existing(cloud, spec, StackLayer::Storage).await {
        status.file_system = storage.outputs.get("FileSystemId").cloned();
        status.access_point = storage.outputs.get("AccessPointId").cloned();
    }
    if let Ok(cluster) = existing(cloud, spec, StackLayer::Cluster).await {
        status.endpoint = cluster.outputs.get("Endpoint").cloned();
    }
    Ok(status)
}

/// What carries the id and costs, and whose copy the cluster file is. Without the right to ask nothing is known.
async fn tagged(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<(Vec<String>, Option<String>), CommandError> {
    let things = match &spec.id {
        Some(id) => match cloud.tagged(id).await {
            Err(error) if !error.is_denied() => return Err(error.into()),
            answer => answer.unwrap_or_default(),
        },
        None => Vec::new(),
    };
    let named = |arn: &str| format!("{} {arn}", classify(arn).what);
    let copy = things
        .iter()
        .find(|thing| copied_from(&thing.tags, spec).is_some())
        .map(|thing| stranger(&named(&thing.id), &thing.tags, spec));
    let ours = own_ids(things, spec);
    let mut kept = enabled_keys(cloud, ours.clone()).await?;
    kept.extend(
        ours.into_iter()
            .filter(|arn| !arn.contains(":kms:") && classify(arn).costs),
    );
    Ok((kept.iter().map(|arn| named(arn)).collect(), copy))
}

fn addons(spec: &ClusterSpec) -> Vec<String> {
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        return Vec::new();
    }
    let named = spec
        .addons
        .iter()
        .map(|name| match spec.addon_versions.get(name) {
            Some(version) => format!("{name} {version}"),
            None => name.clone(),
        });
    named.collect()
}

/// Hours since a time in RFC 3339.
fn age_hours(created: &str, now: OffsetDateTime) -> Option<f64> {
    let created = OffsetDateTime::parse(created, &Rfc3339).ok()?;
    Some((now - created).as_seconds_f64() / 3600.0)
}

async fn drift_of(cloud: &impl Cloud, stack: &str, pace: Pace) -> String {
    let detection = match cloud.detect_drift(stack).await {
        Ok(detection) => detection,
        Err(error) => return format!("unknown ({error})"),
    };
    for _ in 0..60 {
        match cloud.drift(&detection).await {
            Ok(Some(drift)) => return drift.to_string(),
            Ok(None) => sleep(pace.poll).await,
            Err(error) => return format!("unknown ({error})"),
        }
    }
    "unknown (still being looked at)".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_counted_from_the_creation_time() {
        let now = OffsetDateTime::parse("2026-01-02T12:00:00Z", &Rfc3339).expect("a valid time");
        assert_eq!(age_hours("2026-01-02T10:30:00Z", now), Some(1.5));
        assert_eq!(age_hours("2026-01-02T10:30:00.000Z", now), Some(1.5));
        assert_eq!(age_hours("yesterday", now), None);
    }
}
