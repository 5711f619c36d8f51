//! `canoe cluster up`: stacks, then nodes, then the volume.

use std::time::{Duration, SystemTime};

use provision::assets::AssetFolder;
use provision::command::api_server::{ApiServer, ApiServerError};
use provision::command::stack::ChangeReview;
use provision::command::up::{UpOptions, UpReport, up};
use provision::command::{Pace, Sink as _, counted};
use provision::spec::{self, Capacity, ClusterSpec};
use provision::{cost, manifests, prices};
use serde_json::Value;

use super::files::{api_server, merge_kubeconfig};
use super::terminal::{Terminal, tell};
use super::{connect, explain, own_path, root, shown, understood};
use crate::exit::Exit;

/// Time for all nodes to become Ready.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(super) async fn make(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    yes: bool,
    pace: Pace,
) -> anyhow::Result<UpReport> {
    let estimate = cost::estimate_at(spec, SystemTime::now().into());
    eprintln!(
        "cluster {} in {}: about {:.2} USD per hour (estimate, prices of {})",
        spec.name,
        spec.region,
        estimate.hourly(),
        prices::AS_OF
    );
    let aws = connect(&spec.region).await?;
    let options = UpOptions {
        program: own_path(),
        review: ChangeReview::Ask,
        pace,
    };
    let report = explain(up(&aws, spec, folder, options, &mut Terminal { yes }).await)?;
    match report.changed.len() {
        0 => eprintln!("nothing to change"),
        count => eprintln!("{} changed", counted(count, "stack")),
    }
    eprintln!("API server  {}", report.endpoint);
    eprintln!("file system {}", report.file_system);
    if let Some(images) = &report.images {
        eprintln!("images      {images}: canoe image push {images}");
    }
    Ok(report)
}

/// What comes after the stacks; the volume is installed if it is given.
pub(super) async fn finish(
    folder: &AssetFolder,
    spec: ClusterSpec,
    merge: bool,
    volume: Option<&[Value]>,
    yes: bool,
    pace: Pace,
) -> anyhow::Result<Exit> {
    eprintln!("wrote {}", folder.path("kubeconfig").display());
    if merge {
        merge_kubeconfig(folder, &spec)?;
    }
    if let Some(volume) = volume {
        install(folder, spec, volume, yes, pace).await?;
    }
    eprintln!("next steps:");
    eprintln!("  1. {}", shown(folder, "status"));
    eprintln!(
        "  2. canoe job submit JOB_FOLDER --cluster {}",
        words::shell::word(&root(folder))
    );
    eprintln!("  3. {}", shown(folder, "down"));
    eprintln!("     when you are done: it costs money every hour");
    Ok(Exit::Success)
}

/// Waits for the nodes and installs the volume.
async fn install(
    folder: &AssetFolder,
    spec: ClusterSpec,
    volume: &[Value],
    yes: bool,
    pace: Pace,
) -> anyhow::Result<()> {
    let api = api_server(folder.path("kubeconfig"));
    if spec.control_plane.allowed_cidrs.is_empty()
        && let Err(ApiServerError::Passing(words)) = api.ready_nodes().await
    {
        // Waiting would not help: nobody outside the VPC ever gets an answer.
        tell(&format!(
            "warning: the API server can be reached from inside the VPC only: {words}"
        ));
        tell(&format!(
            "warning: the volume is not installed; run `{}` on a machine in the VPC, or add your address to \
             controlPlane.allowedCidrs",
            shown(folder, "up")
        ));
        return Ok(());
    }
    ready(folder, spec, &api, yes, pace).await?;
    api.apply(volume).await?;
    eprintln!("installed the volume and the claim {}", manifests::CLAIM);
    Ok(())
}

/// Waits for the nodes. Spot machines that do not come are asked for on demand, if the user agrees.
async fn ready(
    folder: &AssetFolder,
    mut spec: ClusterSpec,
    api: &ApiServer,
    yes: bool,
    pace: Pace,
) -> anyhow::Result<()> {
    loop {
        let wanted = usize::try_from(spec.all_workers()).unwrap_or(usize::MAX);
        let patience = node_patience();
        let waited = api
            .wait_for_nodes(wanted, patience, pace.poll, &mut Terminal { yes: true })
            .await;
        let (ready, wanted) = match waited {
            Ok(()) => return Ok(()),
            Err(ApiServerError::Patience { ready, wanted, .. }) => (ready, wanted),
            Err(error) => return Err(error.into()),
        };
        let missing = u32::try_from(wanted - ready).unwrap_or(u32::MAX);
        let fallback = (spec.workers.on_demand + missing).min(spec.workers.count);
        let error = ApiServerError::Patience {
            ready,
            wanted,
            minutes: patience.as_secs() / 60,
        };
        if spec.workers.capacity != Capacity::Spot || fallback == spec.workers.on_demand {
            return Err(error.into());
        }
        let question = format!(
            "only {ready} of {wanted} machines have come; start {missing} on demand in the place of spot ones?"
        );
        if !(Terminal { yes }).confirm(&question) {
            return Err(error.into());
        }
        spec = with_on_demand(folder, fallback)?;
        make(folder, &spec, true, pace).await?;
    }
}

/// How long to wait for nodes; a variable shortens it, for tests and for the impatient.
fn node_patience() -> Duration {
    let seconds = std::env::var("CANOE_NODE_PATIENCE").ok();
    let asked = seconds.and_then(|text| text.parse().ok());
    asked.map_or(PATIENCE, Duration::from_secs)
}

/// Writes the number of machines on demand into cluster.yaml, and reads it again.
pub(super) fn with_on_demand(folder: &AssetFolder, count: u32) -> anyhow::Result<ClusterSpec> {
    let text = folder.read_spec()?;
    let edited = spec::write::with_number(&text, "workers.onDemand", count);
    let Some(edited) = edited else {
        anyhow::bail!("cluster.yaml has no place for workers.onDemand: {count}; add it by hand");
    };
    let spec = understood(folder, &edited)?.spec;
    folder.update_spec(&edited)?;
    eprintln!("cluster.yaml: workers.onDemand: {count}");
    Ok(spec)
}
