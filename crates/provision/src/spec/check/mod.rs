//! Whether a cluster makes sense, as far as can be known without asking AWS.
//!
//! Every rule is a function of the spec that adds to a list; none stops the others. By subject:
//! [`place`], [`machines`], [`network`], [`extras`].

mod extras;
mod machines;
mod network;
mod place;
#[cfg(test)]
mod tests;

use super::{ClusterSpec, Problem};
use crate::names::NameRule;

/// All problems, in no particular order.
pub fn check(spec: &ClusterSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let out = &mut problems;
    place::identity(spec, out);
    place::zones(spec, out);
    place::version(spec, out);
    machines::control_plane(spec, out);
    machines::workers(spec, out);
    network::network(spec, out);
    network::dns(spec, out);
    extras::storage_and_keys(spec, out);
    extras::addons(spec, out);
    extras::tags(spec, out);
    problems
}

fn named(out: &mut Vec<Problem>, field: &str, rule: NameRule, value: &str) {
    if let Some(complaint) = rule.complaint(value) {
        out.push(Problem::error(
            field,
            complaint,
            format!("write {}", rule.form),
        ));
    }
}
