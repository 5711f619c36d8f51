//! What events show: pods that could not be made at all, and volumes that cannot be mounted.

use serde_json::Value;

use super::{Finding, text};

/// What the events say, as far as it keeps the job from starting.
pub fn findings(events: &[Value]) -> Vec<Finding> {
    events.iter().filter_map(event).collect()
}

fn event(event: &Value) -> Option<Finding> {
    let message = text(event, "/message");
    let kind = text(event, "/involvedObject/kind").to_ascii_lowercase();
    let subject = format!("{kind} {}", text(event, "/involvedObject/name"));
    let text = match text(event, "/reason") {
        "FailedCreate" => not_created(message),
        "FailedMount" | "FailedAttachVolume" => {
            format!("a volume cannot be mounted: {}", mount_reason(message))
        }
        _ => return None,
    };
    Some(Finding { subject, text })
}

fn not_created(message: &str) -> String {
    if message.contains("violates PodSecurity") {
        let detail = message
            .split("violates PodSecurity")
            .nth(1)
            .unwrap_or("")
            .trim();
        return format!(
            "no pod can be made: the namespace's pod security refuses it ({detail}); render the job again with this version of canoe"
        );
    }
    if message.contains("exceeded quota") {
        let detail = message
            .split("exceeded quota:")
            .nth(1)
            .unwrap_or(message)
            .trim();
        return format!(
            "no pod can be made: the namespace's quota is used up ({detail}); lower `resources` or `nodes`, or have the quota raised"
        );
    }
    if message.contains("failed quota") {
        return format!(
            "no pod can be made: the namespace's quota wants limits that the job does not set ({message}); have a LimitRange set defaults"
        );
    }
    if message.contains("serviceaccount") && message.contains("not found") {
        return "no pod can be made: its service account is missing; submit the job again"
            .to_owned();
    }
    if message.contains("failed calling webhook") || message.contains("admission webhook") {
        return format!(
            "no pod can be made: an admission webhook of the cluster refuses it: {message}"
        );
    }
    format!("no pod can be made: {message}")
}

fn mount_reason(message: &str) -> String {
    let lower = message.to_ascii_lowercase();
    let has = |word: &str| lower.contains(word);
    if has("secret") && has("not found") || has("configmap") && has("not found") {
        return format!("{message}; submit the job again to make what is missing");
    }
    if has("multi-attach") {
        return "only one machine can mount this volume, but all nodes write it; take one with ReadWriteMany".to_owned();
    }
    if has("helper program") {
        return "the machines have no program that mounts this kind of volume; for NFS install nfs-common (Debian) or nfs-utils (Red Hat) on every one".to_owned();
    }
    if has("access denied") || has("permission denied") {
        return "the file server refuses this cluster; check its export or access policy"
            .to_owned();
    }
    if has("no such file or directory") {
        return "the exported folder does not exist; check `volume` in job.yaml".to_owned();
    }
    if has("driver name") && has("not found") {
        return "the machine has no driver for this volume yet; install the CSI driver, or wait until it runs everywhere".to_owned();
    }
    if has("timed out")
        || has("connection refused")
        || has("no route")
        || has("failed to resolve")
        || has("no such host")
    {
        return "the file server does not answer; check its address, that its security group lets port 2049 in from the machines, and \
                that there is a mount target in their zone"
            .to_owned();
    }
    message.to_owned()
}
