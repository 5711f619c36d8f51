//! `canoe cluster scale`: another number of workers, given or as the jobs want it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::api::batch::v1::Job;
use provision::assets::{AssetError, AssetFolder};
use provision::command::{CommandError, counted, is_made, refuse_strangers};
use provision::lifecycle::demand::{self, ScalingAction};
use provision::spec;

use super::args::ScaleArgs;
use super::files::standing_api_server;
use super::terminal::tell;
use super::up::make;
use super::{connect, explain, load, load_standing, pace, shown, understood};
use crate::exit::Exit;

/// Between two looks at the jobs.
const LOOK: Duration = Duration::from_secs(30);

pub(super) async fn run(folder: &AssetFolder, args: ScaleArgs) -> anyhow::Result<Exit> {
    match (args.workers, args.auto) {
        (Some(workers), _) => to(folder, workers, args.on_demand, args.yes, args.poll).await?,
        (None, true) => by_jobs(folder, &args).await?,
        (None, false) => {
            bail!("how many workers? pass --workers N, or --auto for as many as the jobs want")
        }
    }
    Ok(Exit::Success)
}

async fn to(
    folder: &AssetFolder,
    workers: u32,
    on_demand: Option<u32>,
    yes: bool,
    poll: f64,
) -> anyhow::Result<()> {
    let before = folder.read_spec()?;
    let mut after = spec::write::with_workers(&before, workers)
        .context("cluster.yaml has no line `count: N` to edit")?;
    // Machines on demand are part of the count; fewer workers cannot have more of them.
    let present = load_standing(folder)?.workers.on_demand;
    let on_demand = on_demand.unwrap_or(present.min(workers));
    if on_demand != present {
        after = spec::write::with_number(&after, "workers.onDemand", on_demand)
            .context("cluster.yaml has no place for workers.onDemand; add it by hand")?;
    }
    let spec = understood(folder, &after)?.spec;
    let aws = connect(&spec.region).await?;
    explain(refuse_strangers(&aws, &spec).await)?;
    if !explain(is_made(&aws, &spec).await)? {
        bail!(
            "there is no cluster {} yet; {} makes it",
            spec.name,
            shown(folder, "up")
        );
    }
    folder.update_spec(&after)?;
    match make(folder, &spec, yes, pace(poll)).await {
        Ok(_) => {
            eprintln!("requested {workers} workers; cluster.yaml is updated");
            eprintln!("follow their progress with {}", shown(folder, "status"));
            Ok(())
        }
        Err(error) if changed_nothing(&error) => {
            folder.update_spec(&before)?;
            Err(error)
        }
        Err(error) => Err(error.context(format!(
            "cluster.yaml now has {workers} workers; `canoe cluster up` applies it"
        ))),
    }
}

/// Whether a command ended before it changed anything.
pub(super) fn changed_nothing(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(CommandError::Declined(made)) => made.is_empty(),
        Some(
            CommandError::NotOurs(_)
            | CommandError::Fixed(_)
            | CommandError::Asset(AssetError::Foreign(_)),
        ) => true,
        _ => false,
    }
}

fn nodes(count: u32) -> String {
    counted(count as usize, "node")
}

fn workers(count: u32) -> String {
    counted(count as usize, "worker")
}

/// Workers for this many nodes of jobs, if there are fewer, up to workers.max. Never fewer than there are: that is for
/// `scale --auto`, when the jobs have ended.
pub(crate) async fn grow(folder: &Path, wanted: u32, yes: bool) -> anyhow::Result<()> {
    let folder = AssetFolder::new(folder);
    let spec = load(&folder)?;
    let (have, max) = (spec.workers.count, spec.workers.max);
    if wanted > max {
        tell(&format!(
            "jobs want {}, workers.max is {max}: some will wait",
            nodes(wanted)
        ));
    }
    if let ScalingAction::Now(goal) =
        demand::decide(have, wanted, max, Duration::ZERO, Duration::MAX)
    {
        tell(&format!(
            "jobs want {}, there are {}: {goal} from now on",
            nodes(wanted),
            workers(have)
        ));
        to(&folder, goal, None, yes, 5.0).await?;
        tell(&format!(
            "when no job runs: {}",
            shown(&folder, "scale --auto")
        ));
    }
    Ok(())
}

/// As many workers as the jobs want, down to none; with `--follow` until it is interrupted.
async fn by_jobs(folder: &AssetFolder, args: &ScaleArgs) -> anyhow::Result<()> {
    let api = standing_api_server(folder, &load_standing(folder)?)?;
    let patience = if args.follow {
        Duration::from_secs(args.idle_minutes * 60)
    } else {
        Duration::ZERO
    };
    let mut enough_since = Instant::now();
    let mut told = String::new();
    loop {
        let spec = load(folder)?;
        let wanted = demand::wanted(&api.list::<Job>().await?);
        let (have, max) = (spec.workers.count, spec.workers.max);
        if wanted >= have {
            enough_since = Instant::now();
        }
        let words = match demand::decide(have, wanted, max, enough_since.elapsed(), patience) {
            ScalingAction::Stay => {
                format!(
                    "jobs want {}, there are {}: nothing to do",
                    nodes(wanted),
                    workers(have)
                )
            }
            ScalingAction::Later(goal) => format!(
                "jobs want {}, there are {}: {goal} in {} minutes unless another job comes",
                nodes(wanted),
                workers(have),
                args.idle_minutes
            ),
            ScalingAction::Now(goal) => {
                tell(&format!(
                    "jobs want {}, there are {}: {goal} from now on",
                    nodes(wanted),
                    workers(have)
                ));
                to(folder, goal, None, args.yes, args.poll).await?;
                String::new()
            }
        };
        if words != told && !words.is_empty() {
            tell(&words);
        }
        told = words;
        if !args.follow {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}
