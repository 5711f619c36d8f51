//! The API server's machine and reach, and the workers.

use crate::catalog;
use crate::cidr::Cidr;
use crate::names;
use crate::spec::{Capacity, ClusterSpec, ControlPlaneMode, SpecProblem};

pub(super) fn control_plane(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let plane = &spec.control_plane;
    for (index, text) in plane.allowed_cidrs.iter().enumerate() {
        let field = format!("controlPlane.allowedCidrs[{index}]");
        match text.parse::<Cidr>() {
            Err(error) => out.push(SpecProblem::error(&field, error.to_string(), "write your own address with /32")),
            Ok(cidr) if cidr.is_world() && !plane.allow_world => out.push(SpecProblem::error(
                &field,
                "0.0.0.0/0 lets the whole Internet reach the API server",
                "write your own address with /32, or set controlPlane.allowWorld: true if you mean it",
            )),
            Ok(cidr) if cidr.prefix() < 8 && !cidr.is_world() => out.push(SpecProblem::warning(
                &field,
                format!("{cidr} has {} addresses", cidr.size()),
                "write the networks you really use",
            )),
            Ok(_) => {}
        }
    }
    if plane.mode == ControlPlaneMode::Eks {
        public_reach(&plane.allowed_cidrs, out);
    }
    if plane.allowed_cidrs.is_empty() {
        out.push(SpecProblem::warning(
            "controlPlane.allowedCidrs",
            "is empty, so the API server can only be reached from inside the VPC",
            "add your own address with /32 if you work from outside",
        ));
    }
    if !catalog::LOG_DAYS.contains(&plane.log_days) {
        let days: Vec<String> = catalog::LOG_DAYS
            .iter()
            .take(9)
            .map(u32::to_string)
            .collect();
        out.push(SpecProblem::error(
            "controlPlane.logDays",
            format!(
                "CloudWatch does not know a retention of {} days",
                plane.log_days
            ),
            format!("write {}, …", days.join(", ")),
        ));
    }
    if plane.mode == ControlPlaneMode::SelfManaged {
        let field = "controlPlane.instanceType";
        instance_type(out, field, &plane.instance_type);
        if catalog::instance_type(&plane.instance_type)
            .is_some_and(|t| t.cpus < 2 || t.memory_gib < 2)
        {
            out.push(SpecProblem::error(
                field,
                "is too small for kubeadm",
                "write t3.medium or larger",
            ));
        }
        let mixed = spec
            .workers
            .instance_types
            .first()
            .is_some_and(|t| catalog::is_arm(t));
        if catalog::is_arm(&plane.instance_type) != mixed {
            out.push(SpecProblem::error(
                field,
                "has another processor architecture than the workers",
                "use x86 types or ARM types for both, so that one image runs everywhere",
            ));
        }
    }
}

/// Addresses that no packet from the Internet carries: EKS refuses them as networks of its public address.
const NOT_PUBLIC: [&str; 6] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
];

/// What EKS wants of the networks that may reach its public address ("Configure network access to cluster API server endpoint",
/// EKS User Guide). A balancer of our own takes any.
fn public_reach(allowed: &[String], out: &mut Vec<SpecProblem>) {
    for (index, text) in allowed.iter().enumerate() {
        let inside = |cidr: &Cidr| {
            let mut reserved = NOT_PUBLIC.iter().filter_map(|block| block.parse().ok());
            reserved.any(|block: Cidr| block.contains(*cidr))
        };
        if text.parse::<Cidr>().ok().filter(inside).is_some() {
            out.push(SpecProblem::error(
                &format!("controlPlane.allowedCidrs[{index}]"),
                format!("{text} are not addresses of the Internet, and EKS refuses them"),
                "write the address that the Internet sees (init finds it); what is inside the VPC reaches the API server anyway",
            ));
        }
    }
    if allowed.len() > catalog::MOST_PUBLIC_CIDRS {
        out.push(SpecProblem::error(
            "controlPlane.allowedCidrs",
            format!("{} networks are given", allowed.len()),
            format!(
                "EKS takes {} at most; join some",
                catalog::MOST_PUBLIC_CIDRS
            ),
        ));
    }
}

fn instance_type(out: &mut Vec<SpecProblem>, field: &str, name: &str) {
    if !names::is_instance_type(name) {
        let near = names::nearest(name, catalog::INSTANCE_TYPES.iter().map(|t| t.name));
        let hint = near.map_or("write one such as m5.large".to_owned(), |n| {
            format!("did you mean {n}?")
        });
        out.push(SpecProblem::error(
            field,
            format!("{name:?} is not an instance type"),
            hint,
        ));
    } else if catalog::instance_type(name).is_none() {
        out.push(SpecProblem::warning(
            field,
            format!("{name} is not in the built-in price list"),
            "the cost estimate leaves it out; `canoe cluster validate` asks whether the zones offer it",
        ));
    }
}

pub(super) fn workers(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let workers = &spec.workers;
    if workers.count > workers.max {
        out.push(SpecProblem::error(
            "workers.count",
            format!(
                "{} is more than workers.max, which is {}",
                workers.count, workers.max
            ),
            "raise workers.max or lower the count",
        ));
    }
    if workers.on_demand > 0 && workers.capacity == Capacity::OnDemand {
        out.push(SpecProblem::warning(
            "workers.onDemand",
            "all workers are on demand anyway",
            "set it to 0, or capacity to spot",
        ));
    }
    if workers.on_demand > workers.count {
        out.push(SpecProblem::error(
            "workers.onDemand",
            format!(
                "{} is more than workers.count, which is {}",
                workers.on_demand, workers.count
            ),
            "lower it: it counts those of the workers that are on demand",
        ));
    }
    if workers.instance_types.is_empty() {
        out.push(SpecProblem::error(
            "workers.instanceTypes",
            "is empty",
            "write one such as [m5.large]",
        ));
    }
    for (index, name) in workers.instance_types.iter().enumerate() {
        let field = format!("workers.instanceTypes[{index}]");
        instance_type(out, &field, name);
        if catalog::is_arm(name) != catalog::is_arm(&workers.instance_types[0]) {
            out.push(SpecProblem::error(
                &field,
                format!(
                    "{name} has another processor architecture than {}",
                    workers.instance_types[0]
                ),
                "use x86 types or ARM types, not both",
            ));
        }
    }
    if workers.capacity == Capacity::Spot && workers.instance_types.len() == 1 {
        out.push(SpecProblem::warning(
            "workers.instanceTypes",
            "has one type only, and spot capacity of one type runs out often",
            "add types of the same size, such as m5.large, m6i.large, m7i.large",
        ));
    }
}

/// Further groups. All groups have the processors of the first, so that one image runs everywhere.
pub(super) fn groups(spec: &ClusterSpec, out: &mut Vec<SpecProblem>) {
    let first = spec.workers.instance_types.first();
    for (index, group) in spec.workers.groups.iter().enumerate() {
        let field = format!("workers.groups[{index}]");
        super::named(out, &field, names::GROUP, &group.name);
        let twice = spec.workers.groups[..index]
            .iter()
            .any(|other| other.name == group.name);
        if twice || ["on-demand", "workers"].contains(&group.name.as_str()) {
            out.push(SpecProblem::error(
                &field,
                format!("the name {} is taken", group.name),
                "give each group a name of its own",
            ));
        }
        if group.max.is_some_and(|max| max < group.count) {
            out.push(SpecProblem::error(
                &field,
                format!("count {} is more than max", group.count),
                "raise max or lower the count",
            ));
        }
        if group.instance_types.is_empty() {
            out.push(SpecProblem::error(
                &field,
                "instanceTypes is empty",
                "write one such as [m5.large]",
            ));
        }
        for name in &group.instance_types {
            instance_type(out, &field, name);
            if first.is_some_and(|first| catalog::is_arm(name) != catalog::is_arm(first)) {
                out.push(SpecProblem::error(
                    &field,
                    format!("{name} has another processor architecture than workers.instanceTypes"),
                    "use x86 types or ARM types, not both",
                ));
            }
        }
    }
}
