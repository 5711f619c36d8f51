//! IAM roles: who may assume them, and the least they may do.
//!
//! Names are `CLUSTER-REGION-PURPOSE`: roles are global, so two clusters of one name in two regions
//! must not meet; and the operator's policy can be limited to `role/CLUSTER-REGION-*`.

use serde_json::{Value, json};

use super::{Builder, sub, tags};
use crate::spec::ClusterSpec;

/// A role under construction.
pub(crate) struct Role<'a> {
    /// Logical id.
    pub id: &'a str,
    /// Last part of its name, at most 16 characters.
    pub purpose: &'a str,
    /// Service that assumes it.
    pub service: &'a str,
    /// AWS managed policies, by name.
    pub managed: &'a [&'a str],
    /// Statements of its own.
    pub statements: Vec<Value>,
}

/// Full name of a role.
pub fn role_name(spec: &ClusterSpec, purpose: &str) -> String {
    format!("{}-{}-{purpose}", spec.name, spec.region)
}

pub(crate) fn add(spec: &ClusterSpec, out: &mut Builder, role: Role<'_>) {
    let tagged = ["eks.amazonaws.com", "pods.eks.amazonaws.com"].contains(&role.service);
    let actions = if tagged {
        json!(["sts:AssumeRole", "sts:TagSession"])
    } else {
        json!("sts:AssumeRole")
    };
    let managed: Vec<Value> = role
        .managed
        .iter()
        .map(|name| sub(format!("arn:${{AWS::Partition}}:iam::aws:policy/{name}")))
        .collect();
    let mut properties = json!({
        "RoleName": role_name(spec, role.purpose),
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": role.service}, "Action": actions}],
        },
        "ManagedPolicyArns": managed,
        "Tags": tags(spec, role.purpose),
    });
    if !role.statements.is_empty() {
        properties["Policies"] = json!([{
            "PolicyName": role.purpose,
            "PolicyDocument": {"Version": "2012-10-17", "Statement": role.statements},
        }]);
    }
    out.resource(role.id, "AWS::IAM::Role", properties);
}
