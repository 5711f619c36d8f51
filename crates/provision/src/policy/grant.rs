//! One statement of a policy, and the conditions that tell ours from others'.
//!
//! A thing that exists is ours by its tag. A thing that is being made has no tags yet: there the tags in the
//! request count, and for the permission to tag, the call that makes it. Where a service does not say which
//! call that is (KMS, EKS, logs), the tag may be set only through CloudFormation, which reaches nothing but
//! what its stack has made.

use serde_json::{Value, json};

use crate::ownership::ID_TAG;
use crate::partition::Partition;
use crate::spec::ClusterSpec;

/// One statement: a short name, actions, resources, condition.
pub(super) struct Grant {
    pub sid: &'static str,
    /// It forbids instead of allowing.
    pub deny: bool,
    pub actions: Vec<&'static str>,
    pub resources: Vec<String>,
    pub condition: Value,
}

impl Grant {
    pub(super) fn allow(
        sid: &'static str,
        actions: &[&'static str],
        resources: Vec<String>,
    ) -> Self {
        Self {
            sid,
            deny: false,
            actions: actions.to_vec(),
            resources,
            condition: Value::Null,
        }
    }

    /// For actions whose resources have no names that we choose; a condition has to limit it, unless it only reads.
    pub(super) fn anywhere(sid: &'static str, actions: &[&'static str]) -> Self {
        Self::allow(sid, actions, vec!["*".to_owned()])
    }

    /// Holds only if `condition` does, too.
    pub(super) fn when(mut self, condition: Value) -> Self {
        let Value::Object(operators) = condition else {
            return self;
        };
        for (operator, keys) in operators {
            match (&mut self.condition[operator.as_str()], keys) {
                (Value::Object(known), Value::Object(keys)) => known.extend(keys),
                (place, keys) => *place = keys,
            }
        }
        self
    }

    pub(super) fn statement(&self) -> Value {
        let mut statement = json!({
            "Sid": self.sid,
            "Effect": if self.deny { "Deny" } else { "Allow" },
            "Action": self.actions,
            "Resource": self.resources,
        });
        if !self.condition.is_null() {
            statement["Condition"] = self.condition.clone();
        }
        statement
    }
}

/// The cluster and the account that a policy is for.
#[derive(Clone, Copy)]
pub(super) struct PolicyScope<'a> {
    pub spec: &'a ClusterSpec,
    pub account: &'a str,
}

impl PolicyScope<'_> {
    /// ARN of something in the cluster's region.
    pub(super) fn arn(&self, service: &str, rest: &str) -> String {
        let (region, account) = (&self.spec.region, self.account);
        self.plain_arn(&format!("{service}:{region}:{account}:{rest}"))
    }

    /// ARN in the cluster's partition; `rest` begins with the service.
    pub(super) fn plain_arn(&self, rest: &str) -> String {
        Partition::of(&self.spec.region).arn(rest)
    }

    /// ARN of something of IAM, which has no region.
    pub(super) fn iam(&self, rest: &str) -> String {
        self.plain_arn(&format!("iam::{}:{rest}", self.account))
    }

    /// The cluster's id. Without one, conditions name an id that nothing carries.
    fn id(&self) -> &str {
        self.spec.id.as_deref().unwrap_or("none")
    }

    /// The thing carries the cluster's id.
    pub(super) fn owned(&self) -> Value {
        json!({"StringEquals": {format!("aws:ResourceTag/{ID_TAG}"): self.id()}})
    }

    /// The thing carries the id of another cluster. (Negated operators are true for a key that is not there.)
    pub(super) fn of_others(&self) -> Value {
        let tag = format!("aws:ResourceTag/{ID_TAG}");
        json!({"Null": {tag.clone(): "false"}, "StringNotEquals": {tag: self.id()}})
    }

    /// The request gives the cluster's id to what it makes.
    pub(super) fn asked(&self) -> Value {
        json!({"StringEquals": {format!("aws:RequestTag/{ID_TAG}"): self.id()}})
    }

    /// The request sets the tag of an id, whichever.
    pub(super) fn gives_id(&self) -> Value {
        json!({"Null": {format!("aws:RequestTag/{ID_TAG}"): "false"}})
    }

    /// Kubernetes says that it made this for the cluster: the tag that the cloud provider, the load balancer controller or
    /// the network driver sets.
    pub(super) fn of_kubernetes(&self) -> [Value; 3] {
        let provider = format!("aws:ResourceTag/kubernetes.io/cluster/{}", self.spec.name);
        [
            json!({"StringEquals": {provider: "owned"}}),
            json!({"StringEquals": {"aws:ResourceTag/elbv2.k8s.aws/cluster": self.spec.name}}),
            json!({"StringEquals": {"aws:ResourceTag/cluster.k8s.amazonaws.com/name": self.spec.name}}),
        ]
    }

    pub(super) fn in_region(&self) -> Value {
        json!({"StringEquals": {"aws:RequestedRegion": self.spec.region}})
    }
}

/// CloudFormation asks, in the name of the caller.
pub(super) fn through_stacks() -> Value {
    json!({"ForAnyValue:StringEquals": {"aws:CalledVia": ["cloudformation.amazonaws.com"]}})
}

/// Tags may be set by one of these calls, on what it makes. `key` is the service's `CreateAction`.
pub(super) fn made_by(key: &str, calls: &[&str]) -> Value {
    json!({"StringEquals": {key: calls}})
}
