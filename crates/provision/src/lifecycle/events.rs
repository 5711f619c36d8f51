//! Stack events: which one was the first cause, what it means, and what to do.
//!
//! A failed stack reports dozens of failures, nearly all of them consequences: cancelled siblings, the
//! roll-back itself. The first failure in time that is none of these is the cause.

use serde::Serialize;

use crate::statuses::ResourceStatus;

/// An event of a stack, oldest first in every list here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackEvent {
    /// Identity, for following without repeating.
    pub id: String,
    /// Time as AWS writes it.
    pub time: String,
    /// Logical id; the stack's own events carry the stack's name.
    pub resource: String,
    /// Type of the resource.
    pub kind: String,
    /// Such as `CREATE_FAILED`.
    pub status: ResourceStatus,
    /// Reason, if one is given.
    pub reason: String,
}

/// Why a stack failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackFailure {
    /// Logical id of the resource.
    pub resource: String,
    /// Its type.
    pub kind: String,
    /// AWS's words.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

/// The first cause of a failure among `events` (oldest first), if there is one.
pub(crate) fn first_cause(events: &[StackEvent]) -> Option<StackFailure> {
    let event = events
        .iter()
        .find(|event| event.status.is_failure() && !is_consequence(&event.reason))?;
    Some(StackFailure {
        resource: event.resource.clone(),
        kind: event.kind.clone(),
        reason: event.reason.clone(),
        remedy: remedy(&event.reason, &event.kind).to_owned(),
    })
}

fn is_consequence(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.is_empty()
        || reason.contains("cancelled")
        || reason.contains("the following resource(s) failed")
        || reason.contains("rollback requested by")
}

/// Words that AWS uses, and what helps. The first that matches counts.
const REMEDIES: &[(&[&str], &str)] = &[
    (
        &["deleted as it is in use by", "updated as it is in use by"],
        "another stack of the cluster uses it; undo the change of cluster.yaml, or take the cluster down (the data stay) and up again",
    ),
    (
        &[
            "not authorized",
            "accessdenied",
            "access denied",
            "unauthorizedoperation",
        ],
        "your credentials lack a permission; attach what `canoe cluster policy` prints, then run this again",
    ),
    (
        &[
            "limit exceeded",
            "limitexceeded",
            "quota",
            "maximum number of",
            "vcpulimitexceeded",
            "addresslimitexceeded",
        ],
        "a quota of the account is used up; ask for more in Service Quotas or remove what you no longer need",
    ),
    (
        &[
            "insufficient capacity",
            "insufficientinstancecapacity",
            "unfulfillable",
            "could not launch spot",
        ],
        "the zone has no such machines now; add instance types or another zone to cluster.yaml, or use on-demand",
    ),
    (
        &["already exists", "alreadyexists", "entityalreadyexists"],
        "something of this name is there already; choose another cluster name, or remove the old one",
    ),
    (
        &[
            "unsupported availability zone",
            "the targeted availability zone",
            "does not support",
            "not supported in your requested",
        ],
        "the zone does not offer it; choose another zone in cluster.yaml (`canoe cluster validate` lists them)",
    ),
    (
        &["expired"],
        "your credentials have expired; sign in again, then run this again: it continues where it stopped",
    ),
    (
        &["rate exceeded", "throttl"],
        "AWS asks for patience; run this again in a minute",
    ),
    (
        &["client.internalerror", "client error on launch"],
        "machines ended at their start, mostly because their disks could not be encrypted: if the account encrypts disks with a key of \
         its own, the policy of that key must allow the role AWSServiceRoleForAutoScaling",
    ),
    (
        &["instances failed to join", "nodecreationfailure"],
        "workers started but could not reach the control plane; check network.egress and the vpc-cni add-on",
    ),
    (
        &["keypair", "key pair"],
        "the key pair of sshKeyName is not in this region; make or import it",
    ),
    (
        &["kms", "customer master key"],
        "the key cannot be used; check that it exists, is enabled, and that its policy allows the account",
    ),
    (
        &[
            "has dependencies",
            "dependencyviolation",
            "in use",
            "has a dependent object",
        ],
        "something outside the stack still uses it; `canoe cluster down` finds and removes what Kubernetes made; what other services \
         put into the VPC (an endpoint and group of GuardDuty, a peering) you remove yourself",
    ),
];

fn remedy(reason: &str, kind: &str) -> &'static str {
    let reason = reason.to_ascii_lowercase();
    for (words, remedy) in REMEDIES {
        if words.iter().any(|word| reason.contains(word)) {
            return remedy;
        }
    }
    if kind == "AWS::EKS::Addon" {
        return "the add-on did not become healthy; look at its health in the EKS console, then run this again";
    }
    "correct what AWS names, then run this again: what is already there is kept or replaced as needed"
}

/// How long a resource of this type usually takes, in seconds.
pub(crate) fn usual_seconds(kind: &str) -> u32 {
    match kind {
        "AWS::EKS::Cluster" => 600,
        "AWS::EKS::Nodegroup" => 180,
        "AWS::EKS::Addon" => 60,
        "AWS::EC2::NatGateway" => 120,
        "AWS::EFS::MountTarget" => 90,
        "AWS::ElasticLoadBalancingV2::LoadBalancer" => 120,
        "AWS::EC2::Instance" | "AWS::AutoScaling::AutoScalingGroup" => 60,
        "AWS::KMS::Key" => 75,
        "AWS::IAM::Role" | "AWS::IAM::InstanceProfile" => 20,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(resource: &str, status: &str, reason: &str) -> StackEvent {
        StackEvent {
            id: format!("{resource}-{status}"),
            time: String::new(),
            resource: resource.to_owned(),
            kind: "AWS::EC2::Subnet".to_owned(),
            status: status.into(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn the_first_failure_that_is_no_consequence() {
        let events = [
            event("demo-base", "CREATE_IN_PROGRESS", "User Initiated"),
            event("Vpc", "CREATE_COMPLETE", ""),
            event("Subnet2", "CREATE_FAILED", "Resource creation cancelled"),
            event(
                "Subnet1",
                "CREATE_FAILED",
                "The maximum number of subnets has been reached",
            ),
            event(
                "demo-base",
                "ROLLBACK_IN_PROGRESS",
                "The following resource(s) failed to create: [Subnet1].",
            ),
            event("Vpc", "DELETE_FAILED", "The vpc has dependencies"),
        ];
        let cause = first_cause(&events).unwrap();
        assert_eq!(cause.resource, "Subnet1");
        assert!(cause.remedy.contains("quota"), "{}", cause.remedy);
        assert_eq!(first_cause(&events[..3]), None);
    }

    #[test]
    fn known_words_get_their_remedy() {
        for (reason, words) in [
            (
                "User: arn:aws:iam::1:user/x is not authorized to perform: eks:CreateCluster",
                "canoe cluster policy",
            ),
            (
                "demo-us-west-2-workers already exists in stack",
                "another cluster name",
            ),
            (
                "Could not launch On-Demand Instances. InsufficientInstanceCapacity",
                "no such machines",
            ),
            (
                "NodeCreationFailure: Instances failed to join the kubernetes cluster",
                "control plane",
            ),
            (
                "ExpiredToken: The security token included in the request is expired",
                "sign in again",
            ),
            ("Rate exceeded (Service: AmazonEC2)", "patience"),
            ("something nobody has seen", "run this again"),
            (
                "Export demo-PrivateSubnet2 cannot be deleted as it is in use by demo-storage",
                "undo the change",
            ),
            (
                "Cannot create cluster 'demo' because us-east-1e, the targeted availability zone, does not currently have \
                 sufficient capacity to support the cluster",
                "another zone",
            ),
            (
                "AsgInstanceLaunchFailures: Instance became unhealthy while waiting for instance to be in InService state. \
                 Client.InternalError: Client error on launch",
                "AWSServiceRoleForAutoScaling",
            ),
            (
                "The key pair 'mine' does not exist (Code: InvalidKeyPair.NotFound)",
                "sshKeyName",
            ),
            (
                "The vpc 'vpc-1' has dependencies and cannot be deleted",
                "GuardDuty",
            ),
        ] {
            assert!(
                remedy(reason, "X").contains(words),
                "{reason}: {}",
                remedy(reason, "X")
            );
        }
    }
}
