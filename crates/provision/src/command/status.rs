//! `status`: what is there, what it costs, whether it has been changed behind our back.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::sleep;

use super::up::existing;
use super::{CommandError, Pace};
use crate::cloud::Cloud;
use crate::cost;
use crate::lifecycle::next::StackState;
use crate::lifecycle::status::{StackLine, Status};
use crate::spec::ClusterSpec;
use crate::template::Layer;

/// Looks. `drift` also asks AWS to compare every resource with its template, which takes a while.
pub async fn status(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    drift: Option<Pace>,
    now: OffsetDateTime,
) -> Result<Status, CommandError> {
    let mut stacks = Vec::new();
    let mut hours: Option<f64> = None;
    for layer in Layer::ALL {
        let name = layer.stack_name(&spec.name);
        let view = cloud.stack(&name).await?;
        let state = view.as_ref().map_or(StackState::Absent, |view| {
            StackState::from_status(&view.status)
        });
        if let Some(view) = &view {
            let age = age_hours(&view.created, now);
            hours = hours.into_iter().chain(age).reduce(f64::max);
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
            drift,
        });
    }
    let estimate = cost::estimate(spec);
    let mut status = Status {
        name: spec.name.clone(),
        region: spec.region.clone(),
        stacks,
        endpoint: None,
        nodes_ready: None,
        nodes_wanted: spec.workers.count,
        file_system: spec.storage.file_system_id.clone(),
        access_point: None,
        hours,
        cost_hourly: estimate.hourly(),
        cost_so_far: hours.map(|hours| cost::so_far(&estimate, hours)),
        certificate_days: None,
    };
    if let Ok(storage) = existing(cloud, spec, Layer::Storage).await {
        status.file_system = storage.outputs.get("FileSystemId").cloned();
        status.access_point = storage.outputs.get("AccessPointId").cloned();
    }
    if let Ok(cluster) = existing(cloud, spec, Layer::Cluster).await {
        status.endpoint = cluster.outputs.get("Endpoint").cloned();
    }
    Ok(status)
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
            Ok(Some(drift)) => return drift,
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
