//! `canoe cluster init`: flags to a commented cluster.yaml.

use anyhow::{Context as _, bail};
use provision::assets::AssetFolder;
use provision::spec::{self, Capacity, ClusterSpec, Egress, Mode};

use super::args::{EgressArg, InitArgs};
use crate::exit::Exit;

pub(super) async fn init_file(folder: &AssetFolder, init: InitArgs) -> anyhow::Result<Exit> {
    let force = init.force;
    let spec = described(init).await?;
    let text = spec::write::write(&spec);
    if let Err(problems) = spec::read(&text) {
        for problem in problems {
            eprintln!(
                "error: {}: {}; {}",
                problem.field, problem.message, problem.remedy
            );
        }
        bail!("these options do not make a cluster; nothing was written");
    }
    let path = folder.write_spec(&text, force)?;
    eprintln!("wrote {}", path.display());
    eprintln!("next steps:");
    eprintln!("  1. look through the file: every option is explained in it");
    eprintln!("  2. canoe cluster validate    checks it and your account, and estimates the cost");
    if spec.control_plane.mode == Mode::SelfManaged {
        eprintln!("  3. canoe cluster render credentials --generate-ca");
    }
    eprintln!("  then canoe cluster up");
    Ok(Exit::Success)
}

async fn described(init: InitArgs) -> anyhow::Result<ClusterSpec> {
    let from_environment = || {
        ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let region = init
        .region
        .or_else(from_environment)
        .context("which region? pass --region, or set AWS_REGION")?;
    let mut spec = ClusterSpec::new(&init.name, &region);
    if !init.zones.is_empty() {
        spec.zones = init.zones;
    }
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
        spec.control_plane.mode = Mode::SelfManaged;
    }
    spec.network.egress = match init.egress {
        EgressArg::Nat => Egress::Nat,
        EgressArg::NatPerZone => Egress::NatPerZone,
        EgressArg::Public => Egress::Public,
    };
    if init.addons == ["none"] {
        spec.addons.clear();
    } else if !init.addons.is_empty() {
        spec.addons = init.addons;
    }
    spec.ssh_key_name = init.ssh_key;
    spec.kms_key_arn = init.kms_key_arn;
    spec.dns.external_name = init.external_dns_name;
    spec.dns.hosted_zone_id = init.hosted_zone_id;
    for tag in init.tags {
        let (key, value) = tag
            .split_once('=')
            .with_context(|| format!("--tag {tag}: write KEY=VALUE"))?;
        spec.tags.insert(key.to_owned(), value.to_owned());
    }
    spec.control_plane.allowed_cidrs = init.allow;
    if spec.control_plane.allowed_cidrs.is_empty() && !init.inside_only {
        match provision::aws::address::own_address().await {
            Ok(address) => spec.control_plane.allowed_cidrs = vec![format!("{address}/32")],
            Err(error) => eprintln!(
                "warning: your own address is not known ({error}); the API will be closed to the outside"
            ),
        }
    }
    Ok(spec)
}
