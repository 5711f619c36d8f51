//! Every combination of the options that change a template, for tests and linters.

use crate::spec::{Capacity, ClusterSpec, Egress, Mode};

/// Name and spec of each case: mode × capacity × key × name × zones (48 cases), and a few more that
/// differ in the way out, the add-ons or the reach of the API.
pub fn cases() -> Vec<(String, ClusterSpec)> {
    let mut cases = Vec::new();
    for mode in [Mode::Eks, Mode::SelfManaged] {
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
    for mode in [Mode::Eks, Mode::SelfManaged] {
        cases.extend(variants(mode));
    }
    cases
}

fn case(
    mode: Mode,
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

fn plain(mode: Mode) -> ClusterSpec {
    let mut spec = ClusterSpec::new("demo", "us-west-2");
    spec.control_plane.mode = mode;
    spec.control_plane.allowed_cidrs = vec!["203.0.113.7/32".to_owned()];
    spec
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Eks => "eks",
        Mode::SelfManaged => "self-managed",
    }
}

fn variants(mode: Mode) -> Vec<(String, ClusterSpec)> {
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
    let (_, mut kept) = case(mode, Capacity::OnDemand, true, false, 2);
    kept.storage.file_system_id = Some("fs-0123456789abcdef0".to_owned());
    let mut arm = plain(mode);
    arm.workers.instance_types = vec!["m7g.large".to_owned()];
    arm.control_plane.instance_type = "t4g.medium".to_owned();
    vec![
        (name("public"), public),
        (name("nat-per-zone"), per_zone),
        (name("inside-only"), inside),
        (name("own-key-kept-files"), kept),
        (name("arm"), arm),
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
        assert_eq!(names.len(), 58);
    }
}
