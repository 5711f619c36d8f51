//! `canoe cluster upgrade`: what is on offer, and the way there, stage by stage.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use provision::assets::AssetFolder;
use provision::aws::Aws;
use provision::catalog;
use provision::cloud::Cloud as _;
use provision::command::{Pace, Sink as _, counted, refuse_strangers, roll};
use provision::lifecycle::upgrade::{UpgradeStage, UpgradeStep, edited, offered, steps};
use provision::spec::{ClusterSpec, ControlPlaneMode};

use super::args::UpgradeArgs;
use super::files::standing_api_server;
use super::scale::changed_nothing;
use super::terminal::{Terminal, show, tell};
use super::up::make;
use super::{connect, explain, load, load_standing, pace, shown, understood};
use crate::exit::Exit;

/// Every machine is replaced, one after the other, and each may take a quarter of an hour.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

pub(super) async fn run(folder: &AssetFolder, args: UpgradeArgs) -> anyhow::Result<Exit> {
    let spec = load_standing(folder)?;
    let Some(wanted) = &args.to else {
        return offers(folder, &spec).await;
    };
    let all = match steps(&spec, wanted) {
        Ok(all) => all,
        Err(reason) => bail!(reason),
    };
    if all.is_empty() {
        eprintln!(
            "Kubernetes is {} already; nothing to do",
            spec.kubernetes_version
        );
        return Ok(Exit::Success);
    }
    known(&spec, wanted).await?;
    for (number, step) in (1..).zip(&all) {
        show(&format!("{number}. {}", step.words(&spec)));
    }
    if args.plan {
        return Ok(Exit::Success);
    }
    let aws = connect(&spec.region).await?;
    explain(refuse_strangers(&aws, &spec).await)?;
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        if aws.eks_cluster(&spec.name).await?.is_none() {
            bail!(
                "there is no EKS cluster {} yet; set kubernetesVersion in cluster.yaml, then run `{}`",
                spec.name,
                shown(folder, "up")
            );
        }
        if let Err(reason) = offered(wanted, &aws.eks_versions().await.unwrap_or_default()) {
            bail!(reason);
        }
    }
    let question = format!("upgrade to {wanted} in {}?", counted(all.len(), "step"));
    if !(Terminal { yes: args.yes }).confirm(&question) {
        bail!("stopped; nothing was changed");
    }
    let pace = Pace {
        patience: PATIENCE,
        ..pace(args.poll)
    };
    for step in &all {
        tell(&format!("step: {}", step.words(&spec)));
        let before = folder.read_spec()?;
        if let Err(error) = execute(folder, &aws, step, pace).await {
            if changed_nothing(&error) {
                folder.update_spec(&before)?; // or a later `up` would upgrade without being asked to
                return Err(error);
            }
            let again = shown(folder, &format!("upgrade --to {wanted}"));
            let words = format!("the upgrade stopped; run `{again}` again to continue it");
            return Err(error.context(words));
        }
    }
    eprintln!("Kubernetes is {wanted} now");
    Ok(Exit::Success)
}

/// Refuses a version that neither this program nor EKS knows.
async fn known(spec: &ClusterSpec, wanted: &str) -> anyhow::Result<()> {
    let newest = catalog::VERSIONS.1;
    if catalog::minor(wanted).is_none_or(|minor| minor <= newest) {
        return Ok(());
    }
    let asked = async { connect(&spec.region).await?.eks_versions().await };
    let offers = match spec.control_plane.mode {
        ControlPlaneMode::Eks => asked.await.unwrap_or_default(),
        ControlPlaneMode::SelfManaged => Vec::new(),
    };
    if offers.iter().any(|offer| offer.version == wanted) {
        return Ok(());
    }
    bail!(
        "{wanted} is not known: canoe's list of {} ends with 1.{newest}, and EKS does not list it",
        catalog::VERSIONS_AS_OF
    )
}

/// Versions that EKS offers, until when, and the next command.
async fn offers(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<Exit> {
    let running = &spec.kubernetes_version;
    let now = SystemTime::now().into();
    let mut lines: Vec<(String, String)> = Vec::new();
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        let asked = async { connect(&spec.region).await?.eks_versions().await };
        let offers = asked.await.unwrap_or_else(|error| {
            tell(&format!(
                "warning: EKS does not say what it offers: {error}"
            ));
            Vec::new()
        });
        for offer in offers {
            let ends = offer
                .standard_ends
                .or_else(|| catalog::standard_support_ends(&offer.version));
            lines.push((
                offer.version,
                format!("{}, {}", offer.support, catalog::support(ends, now)),
            ));
        }
    }
    if lines.is_empty() {
        let (oldest, newest) = catalog::VERSIONS;
        for minor in (oldest..=newest).rev() {
            let version = format!("1.{minor}");
            let ends = catalog::standard_support_ends(&version);
            lines.push((
                version,
                format!(
                    "known to canoe (list of {}), {}",
                    catalog::VERSIONS_AS_OF,
                    catalog::support(ends, now)
                ),
            ));
        }
    }
    for (version, words) in &lines {
        let mark = if version == running {
            " (this cluster)"
        } else {
            ""
        };
        show(&format!("{version}  {words}{mark}"));
    }
    if let Some(notice) = catalog::support_notice(running, None, now) {
        tell(&format!("warning: {notice}"));
    }
    let versions: Vec<&str> = lines.iter().map(|(version, _)| version.as_str()).collect();
    match next_version(spec, &versions) {
        Some(NextVersion::Unfinished(version)) => eprintln!(
            "the upgrade to {version} is not finished; next: {}",
            shown(folder, &format!("upgrade --to {version}"))
        ),
        Some(NextVersion::Newer(version)) => {
            eprintln!(
                "next: {}",
                shown(folder, &format!("upgrade --to {version}"))
            );
        }
        None => eprintln!("there is no newer version on the list"),
    }
    Ok(Exit::Success)
}

/// The version to go to next.
#[derive(Debug, PartialEq)]
enum NextVersion {
    /// The upgrade to it has begun.
    Unfinished(String),
    /// The one after that of the cluster.
    Newer(String),
}

fn next_version(spec: &ClusterSpec, listed: &[&str]) -> Option<NextVersion> {
    if spec.workers.kubernetes_version.is_some() {
        return Some(NextVersion::Unfinished(spec.kubernetes_version.clone()));
    }
    let next = format!("1.{}", catalog::minor(&spec.kubernetes_version)? + 1);
    let is_listed = listed.contains(&next.as_str());
    is_listed.then_some(NextVersion::Newer(next))
}

/// One stage: the cluster file first, then the cluster. What the file says is what the next run continues with.
async fn execute(
    folder: &AssetFolder,
    aws: &Aws,
    step: &UpgradeStep,
    pace: Pace,
) -> anyhow::Result<()> {
    let before = load(folder)?;
    let mut addons = before.addon_versions.clone();
    if step.stage == UpgradeStage::Addons {
        addons = addon_versions(aws, &before).await?;
    }
    let text = folder.read_spec()?;
    let after = edited(&text, &before, step, &addons)
        .context("cluster.yaml has no line to edit; set kubernetesVersion by hand and run `canoe cluster up`")?;
    let spec = understood(folder, &after)?.spec;
    folder.update_spec(&after)?;
    make(folder, &spec, true, pace).await?;
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        return Ok(());
    }
    let api = standing_api_server(folder, &spec)?;
    let sink = &mut Terminal { yes: true };
    match step.stage {
        UpgradeStage::ControlPlane => {
            explain(roll::await_controller(&api, &spec, pace.poll, sink).await)
        }
        UpgradeStage::Workers => explain(roll::workers(aws, &api, &spec, pace.poll, sink).await),
        UpgradeStage::Addons => Ok(()),
    }
}

/// Default version of every add-on for the cluster's Kubernetes version. One that EKS does not list keeps its own.
async fn addon_versions(aws: &Aws, spec: &ClusterSpec) -> anyhow::Result<BTreeMap<String, String>> {
    let mut versions = spec.addon_versions.clone();
    for addon in &spec.addons {
        match aws.addon_version(addon, &spec.kubernetes_version).await? {
            Some(version) => {
                versions.insert(addon.clone(), version);
            }
            None => tell(&format!(
                "warning: EKS lists no version of {addon} for {}; it stays",
                spec.kubernetes_version
            )),
        }
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It proposed a version that no list has, and the one after a version that it had not finished.
    #[test]
    fn the_next_version_is_on_the_list_and_an_unfinished_one_comes_first() {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.kubernetes_version = "1.35".to_owned();
        let listed = ["1.36", "1.35"];
        assert_eq!(
            next_version(&spec, &listed),
            Some(NextVersion::Newer("1.36".to_owned()))
        );
        spec.kubernetes_version = "1.36".to_owned();
        assert_eq!(next_version(&spec, &listed), None);
        spec.workers.kubernetes_version = Some("1.35".to_owned());
        assert_eq!(
            next_version(&spec, &listed),
            Some(NextVersion::Unfinished("1.36".to_owned()))
        );
    }
}
