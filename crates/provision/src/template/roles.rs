//! IAM roles: who may assume them, and the least they may do.
//!
//! Names are `CLUSTER-REGION-PURPOSE`: roles are global, so two clusters of one name in two regions
//! must not meet; and the operator's policy can name them. Every role has the permissions boundary, which is
//! not in a stack: whoever can change a stack could change it ([`crate::policy::boundary`]).

use serde_json::{Value, json};

use super::{Builder, sub, tags};
use crate::spec::ClusterSpec;

/// EC2, which goes by another name in China; all others are called the same everywhere.
pub(crate) const MACHINES: &str = "ec2.${AWS::URLSuffix}";

/// A role under construction.
pub(crate) struct IamRole<'a> {
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

/// Last part of the name of the policy that bounds every role.
pub(crate) const BOUNDARY: &str = "boundary";

/// Full name of a role.
pub(crate) fn role_name(spec: &ClusterSpec, purpose: &str) -> String {
    format!("{}-{}-{purpose}", spec.name, spec.region)
}

pub(crate) fn add(spec: &ClusterSpec, out: &mut Builder, role: IamRole<'_>) {
    let tagged = ["eks.amazonaws.com", "pods.eks.amazonaws.com"].contains(&role.service);
    let actions = if tagged {
        json!(["sts:AssumeRole", "sts:TagSession"])
    } else {
        json!("sts:AssumeRole")
    };
    let principal = if role.service.contains("${") {
        sub(role.service)
    } else {
        json!(role.service)
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
            "Statement": [{"Effect": "Allow", "Principal": {"Service": principal}, "Action": actions}],
        },
        "ManagedPolicyArns": managed,
        "PermissionsBoundary": sub(format!(
            "arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:policy/{}",
            role_name(spec, BOUNDARY)
        )),
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
