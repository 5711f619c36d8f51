//! Faults in templates that general linters let pass; `validate` looks for them in every render.
//!
//! Twenty rules, each with a test that seeds its fault into a good render. They look at the stacks
//! together, because half of the faults lie between two stacks: a zone with workers and no mount
//! target, a mount target with the wrong group. They judge what is rendered, not the cluster file, so
//! they also guard the renderer against itself and a template that a user has edited.

mod access;
mod model;
mod placement;

use serde::Serialize;

use crate::template::Stack;
use model::TemplateModel;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TemplateFault {
    /// Short name of the rule.
    pub rule: &'static str,
    /// Stack and logical id, such as `storage/MountTarget1`.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

type Rule = (
    &'static str,
    fn(&TemplateModel<'_>, &mut dyn FnMut(&str, String)),
);

/// Every rule, by name.
const RULES: [Rule; 20] = [
    ("nfs-from-world", access::nfs_from_world),
    ("storage-wider-than-nfs", access::storage_wider_than_nfs),
    ("metadata-hop-limit", access::metadata_hop_limit),
    ("disk-not-encrypted", access::disk_not_encrypted),
    ("administrator-role", access::administrator_role),
    ("api-open-to-world", access::api_open_to_world),
    ("no-control-plane-logs", access::no_control_plane_logs),
    ("no-posix-user", access::no_posix_user),
    ("dead-version", placement::dead_version),
    (
        "control-plane-in-one-zone",
        placement::control_plane_in_one_zone,
    ),
    (
        "two-mount-targets-in-zone",
        placement::two_mount_targets_in_zone,
    ),
    (
        "zone-without-mount-target",
        placement::zone_without_mount_target,
    ),
    ("mount-target-group", placement::mount_target_group),
    ("instance-type", placement::instance_type),
    ("desired-over-max", placement::desired_over_max),
    (
        "route-before-attachment",
        placement::route_before_attachment,
    ),
    ("unknown-addon", placement::unknown_addon),
    (
        "network-policy-not-enforced",
        access::network_policy_not_enforced,
    ),
    ("extended-support", access::extended_support),
    ("controller-from-template", access::controller_from_template),
];

/// Applies every rule to the stacks of one cluster.
///
/// `allow_world` is the user's word that the API may be open to everyone.
pub(crate) fn check(stacks: &[Stack], allow_world: bool) -> Vec<TemplateFault> {
    let model = TemplateModel::new(stacks);
    let mut findings = Vec::new();
    for (rule, find) in RULES {
        if rule == "api-open-to-world" && allow_world {
            continue;
        }
        find(&model, &mut |place, message| {
            findings.push(TemplateFault {
                rule,
                place: model.place(place),
                message,
            });
        });
    }
    findings
}

#[cfg(test)]
mod tests;
