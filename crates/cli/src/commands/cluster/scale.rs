//! `canoe cluster scale`: another number of workers, given or as the jobs want it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::api::batch::v1::Job;
use provision::assets::{AssetError, AssetFolder};
use provision::command::{CommandError, counted, is_made, refuse_strangers};
use provision::lifecycle::demand::{self, ScalingAction};
use provision::spec::{self, Capacity, ClusterSpec};

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
    let standing = load_standing(folder)?;
    if let Some(reason) = refused_size(&standing, workers, on_demand) {
        bail!("{reason}; nothing was changed");
    }
    let before = folder.read_spec()?;
    let mut after = spec::write::with_workers(&before, workers)
        .context("cluster.yaml has no line `count: N` to edit")?;
    // Machines on demand are part of the count; fewer workers cannot have more of them.
    let present = standing.workers.on_demand;
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
            "there is no cluster {} yet; `{}` makes it",
            spec.name,
            shown(folder, "up")
        );
    }
    folder.update_spec(&after)?;
    match make(folder, &spec, yes, pace(poll)).await {
        Ok(report) if report.changed.is_empty() && after == before => {
            eprintln!("{workers} workers had been requested before");
            Ok(())
        }
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

/// Why the cluster cannot have the size that the command line asks for, in the words of the command line.
fn refused_size(spec: &ClusterSpec, workers: u32, on_demand: Option<u32>) -> Option<String> {
    let max = spec.workers.max;
    if workers > max {
        return Some(format!(
            "--workers {workers} is more than workers.max in cluster.yaml, which is {max}: ask for {max} at most, or raise workers.max"
        ));
    }
    let on_demand = on_demand?;
    if spec.workers.capacity == Capacity::OnDemand && on_demand > 0 {
        return Some(format!(
            "--on-demand {on_demand}: all workers are on demand anyway, because workers.capacity in cluster.yaml is on-demand; leave it out"
        ));
    }
    (on_demand > workers).then(|| {
        format!(
            "--on-demand {on_demand} is more than --workers {workers}: it counts those of the workers that are on demand"
        )
    })
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
        Duration::from_secs(args.idle_minutes.saturating_mul(60))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The complaint named a line of cluster.yaml that says 3.
    #[test]
    fn a_size_that_cannot_be_is_refused_in_the_words_of_the_command_line() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        assert_eq!(refused_size(&spec, 10, None), None);
        let said = refused_size(&spec, 11, None).unwrap();
        assert!(
            said.contains("--workers 11 is more than workers.max"),
            "{said}"
        );
        let said = refused_size(&spec, 3, Some(1)).unwrap();
        assert!(said.contains("on demand anyway"), "{said}");
        spec.workers.capacity = Capacity::Spot;
        assert_eq!(refused_size(&spec, 3, Some(3)), None);
        let said = refused_size(&spec, 3, Some(4)).unwrap();
        assert!(
            said.contains("--on-demand 4 is more than --workers 3"),
            "{said}"
        );
    }
}
