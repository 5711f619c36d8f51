//! Whether a cluster makes sense, as far as can be known without asking AWS.
//!
//! Every rule is a function of the spec that adds to a list; none stops the others. By subject:
//! [`place`], [`machines`], [`network`], [`extras`], [`access`].

mod access;
mod extras;
mod machines;
mod network;
mod place;
#[cfg(test)]
mod tests;

use super::{ClusterSpec, SpecProblem};
use crate::names::NameRule;

/// All problems, in no particular order.
pub fn check(spec: &ClusterSpec) -> Vec<SpecProblem> {
    let mut problems = Vec::new();
    let out = &mut problems;
    place::identity(spec, out);
    place::zones(spec, out);
    place::version(spec, out);
    machines::control_plane(spec, out);
    machines::workers(spec, out);
    machines::groups(spec, out);
    network::network(spec, out);
    network::given(spec, out);
    network::dns(spec, out);
    extras::storage_and_keys(spec, out);
    extras::addons(spec, out);
    extras::addon_versions(spec, out);
    access::colleagues(spec, out);
    access::buckets(spec, out);
    access::images(spec, out);
    access::service_role(spec, out);
    extras::tags(spec, out);
    problems
}

fn named(out: &mut Vec<SpecProblem>, field: &str, rule: NameRule, value: &str) {
    if let Some(complaint) = rule.complaint(value) {
        out.push(SpecProblem::error(
            field,
            complaint,
            format!("write {}", rule.form),
        ));
    }
}
