//! Claims that have no volume.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::event::about_claim;
use super::reason::{Reason, Subject, Unbound};
use super::{Collected, Observed};

/// A claim that is younger than this, in seconds, need not be bound yet.
const YOUNG: i64 = 8;
/// Seconds that a provisioner may take to make a volume, with retries.
const MAKING: i64 = 30;

/// Adds the unbound claims of pods that have not ended.
pub(super) fn unbound(observed: &Observed, pods: &[Pod], into: &mut Collected) {
    for claim in &observed.claims {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let status = claim.status.as_ref();
        let reason = match status.and_then(|status| status.phase.as_deref()) {
            Some("Pending") => why(observed, claim),
            Some("Lost") => Unbound::Lost,
            _ => continue,
        };
        if pods.iter().any(|pod| uses(pod, name)) {
            into.add(Subject::Claim(name.to_owned()), Reason::NotBound(reason));
        }
    }
}

fn uses(pod: &Pod, name: &str) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let mut claims = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.any(|claim| claim.claim_name == name)
}

fn why(observed: &Observed, claim: &PersistentVolumeClaim) -> Unbound {
    let said = about_claim(observed, claim.metadata.name.as_deref());
    let words = said.words;
    let spec = claim.spec.clone().unwrap_or_default();
    let class = spec.storage_class_name.unwrap_or_default();
    let volume = spec.volume_name.unwrap_or_default();
    let made = claim.metadata.creation_timestamp.as_ref();
    let is_young = made.is_some_and(|made| observed.now.as_second() - made.0.as_second() < YOUNG);
    if words.contains("storageclass") && words.contains("not found") {
        Unbound::NoClass(class)
    } else if is_for_one_machine(words) {
        Unbound::OneMachineOnly(class, words.to_owned())
    } else if words.contains("first consumer") || words.contains("for pod") && !said.is_warning {
        Unbound::WaitsForPod
    } else if is_young {
        Unbound::InTheMaking(words.to_owned())
    } else if !volume.is_empty() {
        Unbound::VolumeTaken(volume)
    } else if words.contains("no persistent volumes available") {
        Unbound::NoVolume
    } else if said.is_warning && (said.seconds >= MAKING || !is_passing(words)) {
        Unbound::Failed(words.to_owned())
    } else if said.seconds >= MAKING && words.contains("external provisioner") {
        Unbound::Nobody(words.to_owned())
    } else {
        Unbound::InTheMaking(words.to_owned())
    }
}

/// The provisioner is busy with it, or has lost its connection.
fn is_passing(words: &str) -> bool {
    [
        "code = Aborted",
        "code = DeadlineExceeded",
        "code = Unavailable",
        "timed out",
    ]
    .iter()
    .any(|passing| words.contains(passing))
}

/// Whether a provisioner's message means that it cannot make volumes for several machines.
fn is_for_one_machine(message: &str) -> bool {
    let said = [
        "only supports ReadWriteOnce",
        "MULTI_NODE_MULTI_WRITER",
        "multi writer",
        "Only AccessModes[ReadWriteOnce",
        "AccessModes not supported",
    ];
    said.iter().any(|words| message.contains(words))
}
