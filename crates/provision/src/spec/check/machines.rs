//! The API server's machine and reach, and the workers.

use crate::catalog;
use crate::cidr::Cidr;
use crate::names;
use crate::spec::{Capacity, ClusterSpec, Mode, Problem};

pub(super) fn control_plane(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let plane = &spec.control_plane;
    for (index, text) in plane.allowed_cidrs.iter().enumerate() {
        let field = format!("controlPlane.allowedCidrs[{index}]");
        match text.parse::<Cidr>() {
            Err(error) => out.push(Problem::error(&field, error.to_string(), "write your own address with /32")),
            Ok(cidr) if cidr.is_world() && !plane.allow_world => out.push(Problem::error(
                &field,
                "0.0.0.0/0 lets the whole Internet reach the API server",
                "write your own address with /32, or set controlPlane.allowWorld: true if you mean it",
            )),
            Ok(cidr) if cidr.prefix() < 8 && !cidr.is_world() => out.push(Problem::warning(
                &field,
                format!("{cidr} has {} addresses", cidr.size()),
                "write the networks you really use",
            )),
            Ok(_) => {}
        }
    }
    if plane.allowed_cidrs.is_empty() {
        out.push(Problem::warning(
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
        out.push(Problem::error(
            "controlPlane.logDays",
            format!(
                "CloudWatch does not know a retention of {} days",
                plane.log_days
            ),
            format!("write {}, …", days.join(", ")),
        ));
    }
    if plane.mode == Mode::SelfManaged {
        let field = "controlPlane.instanceType";
        instance_type(out, field, &plane.instance_type);
        if catalog::instance_type(&plane.instance_type)
            .is_some_and(|t| t.cpus < 2 || t.memory_gib < 2)
        {
            out.push(Problem::error(
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
            out.push(Problem::error(
                field,
                "has another processor architecture than the workers",
                "use x86 types or ARM types for both, so that one image runs everywhere",
            ));
        }
    }
}

fn instance_type(out: &mut Vec<Problem>, field: &str, name: &str) {
    if !names::is_instance_type(name) {
        let near = names::nearest(name, catalog::INSTANCE_TYPES.iter().map(|t| t.name));
        let hint = near.map_or("write one such as m5.large".to_owned(), |n| {
            format!("did you mean {n}?")
        });
        out.push(Problem::error(
            field,
            format!("{name:?} is not an instance type"),
            hint,
        ));
    } else if catalog::instance_type(name).is_none() {
        out.push(Problem::warning(
            field,
            format!("{name} is not in the built-in price list"),
            "the cost estimate leaves it out; `canoe cluster validate` asks whether the zones offer it",
        ));
    }
}

pub(super) fn workers(spec: &ClusterSpec, out: &mut Vec<Problem>) {
    let workers = &spec.workers;
    if workers.count > workers.max {
        out.push(Problem::error(
            "workers.count",
            format!(
                "{} is more than workers.max, which is {}",
                workers.count, workers.max
            ),
            "raise workers.max or lower the count",
        ));
    }
    if workers.instance_types.is_empty() {
        out.push(Problem::error(
            "workers.instanceTypes",
            "is empty",
            "write one such as [m5.large]",
        ));
    }
    for (index, name) in workers.instance_types.iter().enumerate() {
        let field = format!("workers.instanceTypes[{index}]");
        instance_type(out, &field, name);
        if catalog::is_arm(name) != catalog::is_arm(&workers.instance_types[0]) {
            out.push(Problem::error(
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
        out.push(Problem::warning(
            "workers.instanceTypes",
            "has one type only, and spot capacity of one type runs out often",
            "add types of the same size, such as m5.large, m6i.large, m7i.large",
        ));
    }
}
