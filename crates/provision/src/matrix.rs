//! Every combination of the options that change a template, for tests and linters.

use crate::spec::{Capacity, ClusterSpec, ControlPlaneMode, Egress, WorkerGroup};

/// Name and spec of each case: mode × capacity × key × name × zones (48 cases), and a few more that
/// differ in the network, the groups of machines, the add-ons or who may use the cluster.
pub fn cases() -> Vec<(String, ClusterSpec)> {
    let mut cases = Vec::new();
    for mode in [ControlPlaneMode::Eks, ControlPlaneMode::SelfManaged] {
        for capacity in [Capacity::OnDemand, Capacity::Spot] {
            for own_key in [false, true] {
                for named in [false, true] {
                    for zones in 1..=3 {
                        cases.push(case(mode, capacity, own_key, named, zones));
                    }
                }
            }
        }
    }
    for mode in [ControlPlaneMode::Eks, ControlPlaneMode::SelfManaged] {
        cases.extend(variants(mode));
    }
    cases
}

fn case(
    mode: ControlPlaneMode,
    capacity: Capacity,
    own_key: bool,
    named: bool,
    zones: usize,
) -> (String, ClusterSpec) {
    let mut spec = plain(mode);
    spec.zones = ["a", "b", "c"][..zones]
        .iter()
        .map(|letter| format!("us-west-2{letter}"))
        .collect();
    spec.workers.capacity = capacity;
    if capacity == Capacity::Spot {
        spec.workers.instance_types = ["m5.large", "m6i.large", "m7i.large"]
            .map(str::to_owned)
            .to_vec();
    }
    if own_key {
        spec.kms_key_arn = Some(format!(
            "arn:aws:kms:us-west-2:123456789012:key/{}",
            "1234abcd-12ab-34cd-56ef-1234567890ab"
        ));
    }
    if named {
        spec.dns.external_name = Some("paddle.example.com".to_owned());
        spec.dns.hosted_zone_id = Some("Z0123456789ABCDEFGHIJ".to_owned());
    }
    let words = [
        mode_name(mode),
        if capacity == Capacity::Spot {
            "spot"
        } else {
            "on-demand"
        },
        if own_key { "own-key" } else { "new-key" },
        if named { "dns" } else { "no-dns" },
    ];
    (format!("{}-{zones}", words.join("-")), spec)
}

fn plain(mode: ControlPlaneMode) -> ClusterSpec {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.id = Some("6f1c2f6e-5b0e-4c8e-9d55-0d8f4f2a7b11".to_owned());
    spec.control_plane.mode = mode;
    spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
    spec
}

fn mode_name(mode: ControlPlaneMode) -> &'static str {
    match mode {
        ControlPlaneMode::Eks => "eks",
        ControlPlaneMode::SelfManaged => "self-managed",
    }
}

fn variants(mode: ControlPlaneMode) -> Vec<(String, ClusterSpec)> {
    let name = |words: &str| format!("{}-{words}", mode_name(mode));
    let mut public = plain(mode);
    public.network.egress = Egress::Public;
    public.addons.clear();
    let mut per_zone = plain(mode);
    per_zone.network.egress = Egress::NatPerZone;
    per_zone.zones.push("us-west-2c".to_owned());
    let mut inside = plain(mode);
    inside.control_plane.allowed_cidrs.clear();
    inside.ssh_key_name = Some("my-key".to_owned());
    inside.tags.insert("team".to_owned(), "ads".to_owned());
    if mode == ControlPlaneMode::Eks {
        inside.addons.push("aws-ebs-csi-driver".to_owned());
    }
    let (_, mut kept) = case(mode, Capacity::OnDemand, true, false, 2);
    kept.storage.file_system_id = Some("fs-0123456789abcdef0".to_owned());
    let mut arm = plain(mode);
    arm.workers.instance_types = vec!["m7g.large".to_owned()];
    arm.control_plane.instance_type = "t4g.medium".to_owned();
    let (_, mut groups) = case(mode, Capacity::Spot, false, false, 2);
    groups.workers.on_demand = 1;
    groups.workers.groups = vec![WorkerGroup {
        name: "very-large".to_owned(),
        count: 1,
        max: Some(4),
        instance_types: vec!["m5.4xlarge".to_owned()],
        capacity: Capacity::OnDemand,
        disk_gib: 100,
    }];
    let mut empty = plain(mode);
    empty.workers.count = 0;
    let mut all = match mode {
        ControlPlaneMode::Eks => eks_variants(),
        ControlPlaneMode::SelfManaged => Vec::new(),
    };
    all.extend([
        (name("public"), public),
        (name("nat-per-zone"), per_zone),
        (name("inside-only"), inside),
        (name("own-key-kept-files"), kept),
        (name("arm"), arm),
        (name("groups"), groups),
        (name("no-workers"), empty),
    ]);
    all
}

/// Options that only EKS has.
fn eks_variants() -> Vec<(String, ClusterSpec)> {
    let name = |words: &str| format!("eks-{words}");
    let mut private = plain(ControlPlaneMode::Eks);
    private.network.egress = Egress::Endpoints;
    private.control_plane.allowed_cidrs.clear();
    private.image_repository = true;
    let mut images = plain(ControlPlaneMode::Eks);
    images.image_repository = true;
    images.kms_key_arn = Some(
        "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab".to_owned(),
    );
    let mut given = plain(ControlPlaneMode::Eks);
    given.network.vpc_id = Some("vpc-0123456789abcdef0".to_owned());
    given.network.private_subnet_ids = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
        .map(str::to_owned)
        .to_vec();
    given.network.public_subnet_ids = ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"]
        .map(str::to_owned)
        .to_vec();
    let mut shared = plain(ControlPlaneMode::Eks);
    let colleagues = [
        ("role/team", "edit"),
        ("user/boss", "view"),
        ("role/ops", "admin"),
    ];
    shared.control_plane.access = colleagues
        .map(|(who, level)| (format!("arn:aws:iam::123456789012:{who}"), level.to_owned()))
        .into();
    shared.service_role = true;
    shared.storage.buckets = vec!["my-data".to_owned(), "my-models".to_owned()];
    shared.addon_versions = [("vpc-cni".to_owned(), "v1.20.4-eksbuild.2".to_owned())].into();
    vec![
        (name("endpoints"), private),
        (name("images-own-key"), images),
        (name("given-vpc"), given),
        (name("shared"), shared),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{check::check, has_errors};
    use crate::template::{MAX_BODY, Render, render};

    #[test]
    fn every_case_is_valid_small_and_rendered_the_same_twice() {
        let mut names = Vec::new();
        for (name, spec) in cases() {
            assert!(!has_errors(&check(&spec)), "{name}: {:?}", check(&spec));
            let stacks = render(&spec, &Render::default());
            assert_eq!(stacks, render(&spec, &Render::default()));
            for stack in stacks {
                assert!(
                    stack.text().len() < MAX_BODY,
                    "{name} {}: {}",
                    stack.name,
                    stack.text().len()
                );
            }
            names.push(name);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 66);
    }
}
