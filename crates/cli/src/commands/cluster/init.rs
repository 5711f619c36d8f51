//! `canoe cluster init`: flags, or questions on a terminal, to a commented cluster.yaml.

use std::io::{self, IsTerminal as _, Stderr, StdinLock, stderr, stdin};
use std::time::Duration;

use anyhow::{Context as _, bail};
use provision::assets::{AssetFolder, write_whole};
use provision::cloud::{Cloud as _, ZoneView};
use provision::ownership::fresh_id;
use provision::spec::lasting::{Lasting, read_lasting};
use provision::spec::{self, Capacity, ClusterSpec, ControlPlaneMode, Egress, Throughput};

use super::args::{EgressArg, InitArgs, ThroughputArg};
use super::questions::{Dialogue, unknown_zone};
use super::terminal::tell;
use super::{connect, settings, shown};
use crate::exit::Exit;

/// How long to wait for the account's list of zones; `validate` asks again.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn init_file(folder: &AssetFolder, init: InitArgs) -> anyhow::Result<Exit> {
    let force = init.force;
    if !force && folder.path("cluster.yaml").exists() {
        folder.write_spec("", false)?; // says that it exists, before anything is asked
    }
    let mut spec = described(init).await?;
    let old = folder.read_spec().unwrap_or_default();
    let lasting = match lasting(folder, &old, &spec) {
        Ok(lasting) => lasting,
        Err(reason) => bail!(
            "{}: {reason:#}; correct that, or move the file away; nothing was written",
            folder.path("cluster.yaml").display()
        ),
    };
    take_over(&mut spec, lasting);
    let text = spec::write::write(&spec);
    match spec::read(&text) {
        Err(problems) => {
            for problem in problems {
                eprintln!(
                    "error: {}: {}; {}",
                    problem.field, problem.message, problem.remedy
                );
            }
            bail!("these options do not describe a valid cluster (see above); nothing was written");
        }
        Ok(good) => {
            // Of the reach of the API server more has been said, or asked for with --inside-only.
            let said = "controlPlane.allowedCidrs";
            for warning in good.warnings.iter().filter(|one| one.field != said) {
                tell(&format!(
                    "warning: {}: {}; {}",
                    warning.field, warning.message, warning.remedy
                ));
            }
        }
    }
    let path = folder.write_spec(&text, force)?;
    eprintln!("wrote {}", path.display());
    eprintln!("next steps:");
    eprintln!("  1. read the file: it explains every option");
    eprintln!("  2. {}", shown(folder, "validate"));
    eprintln!("     checks it and your account, and estimates the cost");
    let mut number = 3;
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        eprintln!("  3. {}", shown(folder, "render credentials --generate-ca"));
        number += 1;
    }
    eprintln!("  {number}. {}", shown(folder, "up"));
    Ok(Exit::Success)
}

/// What a cluster keeps when its file is written anew: its id, and the names of its data. The file of another cluster is kept
/// whole, beside the new one: without it nobody could take that cluster down.
fn lasting(folder: &AssetFolder, old: &str, spec: &ClusterSpec) -> anyhow::Result<Lasting> {
    let lasting = read_lasting(old).map_err(anyhow::Error::msg)?;
    let same = lasting.name.as_deref().is_none_or(|name| name == spec.name)
        && lasting
            .region
            .as_deref()
            .is_none_or(|region| region == spec.region);
    if same {
        return Ok(lasting);
    }
    if let (Some(id), Some(name)) = (&lasting.id, &lasting.name) {
        let short = id.split('-').next().unwrap_or(id);
        let kept = folder.path(&format!("cluster-{short}.yaml"));
        write_whole(&kept, old.as_bytes(), 0o644)
            .with_context(|| format!("write {}", kept.display()))?;
        tell(&format!(
            "note: the file that is replaced is of cluster {name}, which nobody can take down without it: it is kept as {}; to take \
             that cluster down, put it into another folder, as cluster.yaml",
            kept.display()
        ));
    }
    Ok(Lasting::default())
}

/// Puts what lasts into the new description, unless a flag says otherwise.
fn take_over(spec: &mut ClusterSpec, lasting: Lasting) {
    let kept = lasting.id.is_some();
    spec.id = Some(lasting.id.unwrap_or_else(fresh_id));
    let places = [
        (&mut spec.storage.file_system_id, lasting.file_system_id),
        (&mut spec.kms_key_arn, lasting.kms_key_arn),
        (
            &mut spec.control_plane.etcd_volume_id,
            lasting.etcd_volume_id,
        ),
    ];
    let mut words = Vec::new();
    for (place, old) in places {
        if let (None, Some(value)) = (&place, old) {
            words.push(value.clone());
            *place = Some(value);
        }
    }
    if kept {
        let data = if words.is_empty() {
            String::new()
        } else {
            format!(", and {}", words.join(", "))
        };
        tell(&format!(
            "note: the id of the file that is replaced is kept{data}"
        ));
    }
}

/// Questions are asked on a terminal when nothing but the name was given.
fn guided(init: &InitArgs) -> bool {
    let untouched = init.zones.is_empty()
        && init.region.is_none()
        && init.workers.is_none()
        && init.instance_types.is_empty()
        && !init.spot
        && init.kubernetes_version.is_none()
        && !init.self_managed
        && init.allow.is_empty()
        && !init.inside_only
        && init.kms_key_arn.is_none()
        && init.ssh_key.is_none()
        && init.external_dns_name.is_none();
    untouched && stdin().is_terminal() && stderr().is_terminal()
}

async fn described(init: InitArgs) -> anyhow::Result<ClusterSpec> {
    let region = init.region.clone().or_else(|| {
        ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
    });
    if guided(&init) {
        return questioned(init, region).await;
    }
    let region = region.context("which region? pass --region, or set AWS_REGION")?;
    let mut spec = ClusterSpec::new(&init.name, &region);
    let offered = offered_zones(&region).await;
    if !init.zones.is_empty() {
        spec.zones.clone_from(&init.zones);
        if let Some(complaint) = unknown_zone(&spec.zones, &offered) {
            bail!("--zones: {complaint}");
        }
    } else {
        default_zones(&mut spec, &offered);
    }
    let (allow, inside) = (init.allow.clone(), init.inside_only);
    flags(&mut spec, init)?;
    spec.control_plane.allowed_cidrs = allow;
    if spec.control_plane.allowed_cidrs.is_empty() && !inside {
        match own_address().await {
            Some(address) => spec.control_plane.allowed_cidrs = vec![format!("{address}/32")],
            None => tell(
                "so the API server can be reached from inside the VPC only; name who else may reach it with --allow ADDRESS/32, or in controlPlane.allowedCidrs",
            ),
        }
    }
    Ok(spec)
}

async fn questioned(init: InitArgs, region: Option<String>) -> anyhow::Result<ClusterSpec> {
    eprintln!("a few questions; press Enter for the default in brackets");
    let default = region.unwrap_or_else(|| "us-west-2".to_owned());
    let mut spec = ClusterSpec::new(&init.name, &default);
    ask(|dialogue| dialogue.region(&mut spec, &default))?;
    let offered = offered_zones(&spec.region).await;
    default_zones(&mut spec, &offered);
    let own = own_address().await;
    ask(|dialogue| dialogue.rest(&mut spec, own.as_deref(), &offered))?;
    let asked = (spec.control_plane.mode, spec.workers.clone());
    let keys = (spec.kms_key_arn.clone(), spec.ssh_key_name.clone());
    let dns = spec.dns.clone();
    flags(&mut spec, init)?;
    (spec.control_plane.mode, spec.workers) = asked;
    (spec.kms_key_arn, spec.ssh_key_name) = keys;
    spec.dns = dns;
    Ok(spec)
}

/// Asks on the terminal; the lock on it is not held across an await.
fn ask(
    questions: impl FnOnce(&mut Dialogue<StdinLock<'_>, Stderr>) -> io::Result<()>,
) -> io::Result<()> {
    questions(&mut Dialogue {
        input: stdin().lock(),
        output: stderr(),
    })
}

/// What the flags say, except for region, zones and reach.
fn flags(spec: &mut ClusterSpec, init: InitArgs) -> anyhow::Result<()> {
    if let Some(count) = init.workers {
        spec.workers.count = count;
        spec.workers.max = spec.workers.max.max(count);
    }
    if !init.instance_types.is_empty() {
        spec.workers.instance_types = init.instance_types;
    }
    if init.spot {
        spec.workers.capacity = Capacity::Spot;
    }
    if let Some(version) = init.kubernetes_version {
        spec.kubernetes_version = version;
    }
    if init.self_managed {
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    }
    spec.network.egress = match init.egress {
        EgressArg::Nat => Egress::Nat,
        EgressArg::NatPerZone => Egress::NatPerZone,
        EgressArg::Public => Egress::Public,
        EgressArg::Endpoints => Egress::Endpoints,
    };
    spec.network.vpc_id = init.vpc_id;
    spec.network.private_subnet_ids = init.private_subnets;
    spec.network.public_subnet_ids = init.public_subnets;
    if let Some(cidr) = init.vpc_cidr {
        spec.network.vpc_cidr = cidr;
    }
    spec.image_repository = init.image_repository;
    spec.storage.buckets = init.buckets;
    if init.addons == ["none"] {
        spec.addons.clear();
    } else if !init.addons.is_empty() {
        spec.addons = init.addons;
    }
    spec.ssh_key_name = init.ssh_key;
    spec.kms_key_arn = init.kms_key_arn;
    spec.storage.throughput = match init.efs_throughput {
        ThroughputArg::Elastic => Throughput::Elastic,
        ThroughputArg::Bursting => Throughput::Bursting,
    };
    spec.storage.file_system_id = init.file_system_id;
    spec.dns.external_name = init.external_dns_name;
    spec.dns.hosted_zone_id = init.hosted_zone_id;
    for tag in init.tags {
        let (key, value) = tag
            .split_once('=')
            .with_context(|| format!("--tag {tag}: write KEY=VALUE"))?;
        spec.tags.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

/// The account's zones, those in which EKS has no control plane last; empty, with a word about it, when they cannot be asked for.
async fn offered_zones(region: &str) -> Vec<String> {
    let asked = async { connect(region).await?.zones().await };
    let reason = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(mut zones)) => {
            zones.sort_by_key(ZoneView::lacks_eks);
            return zones.into_iter().map(|zone| zone.name).collect();
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no response within 5 s".to_owned(),
    };
    tell(&format!("note: zones are not checked yet: {reason}"));
    Vec::new()
}

/// The first two zones that the account has; not every account has `a` and `b`.
fn default_zones(spec: &mut ClusterSpec, offered: &[String]) {
    let own = |zone: &&String| zone.starts_with(&spec.region);
    let first: Vec<String> = offered.iter().filter(own).take(2).cloned().collect();
    if first.len() == 2 {
        spec.zones = first;
    }
}

async fn own_address() -> Option<String> {
    match provision::aws::address::own_address(&settings()).await {
        Ok(address) => Some(address.to_string()),
        Err(error) => {
            tell(&format!("warning: your own address is not known: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11";

    fn replaced(old: &str) -> anyhow::Result<ClusterSpec> {
        let place = tempfile::tempdir().unwrap();
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        let lasting = lasting(&AssetFolder::new(place.path()), old, &spec)?;
        take_over(&mut spec, lasting);
        Ok(spec)
    }

    /// `init other --force` in the folder of a cluster that is up: its file, with its id, was gone.
    #[test]
    fn the_file_of_another_cluster_is_kept_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        for (name, region) in [("other", "us-west-2"), ("demo", "eu-west-1")] {
            let old = format!("id: \"{ID}\"\nname: {name}\nregion: {region}\n# mine\n");
            let kept = lasting(&folder, &old, &ClusterSpec::new("demo", "us-west-2")).unwrap();
            assert_eq!(kept.id, None, "another cluster gets an id of its own");
            let path = folder.path("cluster-6f1c2f6e.yaml");
            assert_eq!(std::fs::read_to_string(path).unwrap(), old);
        }
    }

    /// A file with one mistake got a new id, and its running cluster could no longer be taken down.
    #[test]
    fn a_file_that_does_not_pass_its_checks_keeps_what_lasts() {
        let mut before = ClusterSpec::new("demo", "us-west-2");
        before.id = Some(ID.to_owned());
        before.storage.file_system_id = Some("fs-0123456789abcdef0".to_owned());
        before.kms_key_arn = Some("arn:aws:kms:us-west-2:123456789012:key/1".to_owned());
        let good = spec::write::write(&before);
        for old in [
            good.clone(),
            good.replace("zones:", "zoness:"),
            format!("{good}\nworkers: [unclosed\n"),
        ] {
            let spec = replaced(&old).unwrap();
            assert_eq!(spec.id, before.id);
            assert_eq!(spec.storage.file_system_id, before.storage.file_system_id);
            assert_eq!(spec.kms_key_arn, before.kms_key_arn);
        }
    }

    #[test]
    fn an_id_that_cannot_be_read_is_never_replaced() {
        for old in ["id: 6f1c\nname: demo\n", "\u{0}\u{1}", "name: [demo\n"] {
            assert!(replaced(old).is_err(), "{old:?}");
        }
        let fresh = replaced("").unwrap().id.unwrap();
        assert_ne!(fresh, ID);
        let other = replaced(&format!("id: \"{ID}\"\nname: other\nregion: us-west-2\n")).unwrap();
        assert_ne!(other.id.as_deref(), Some(ID));
    }
}
