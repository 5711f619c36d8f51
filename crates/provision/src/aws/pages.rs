//! Answers that come in pages or need more than one request, and how entries are read.

use roxmltree::Node;
use serde_json::{Value, json};

use super::client::Aws;
use super::query::{BALANCING, IAM, Service, entries, field, find, read};
use crate::cloud::{Change, CloudError, StackView};
use crate::lifecycle::events::StackEvent;
use crate::policy::Simulation;
use crate::template::CLUSTER_TAG;

type Answer<T> = Result<T, CloudError>;

pub(super) fn params(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(super) fn strings(value: &Value, list: &str, key: &str) -> Vec<String> {
    let entries = value[list].as_array().into_iter().flatten();
    entries
        .filter_map(|entry| entry[key].as_str().map(str::to_owned))
        .collect()
}

impl Aws {
    /// Asks page after page until there is no token for a next one.
    pub(super) async fn pages<T>(
        &self,
        (service, action): (Service, &str),
        asked: &[(String, String)],
        reader: impl Fn(Node<'_, '_>) -> Vec<T>,
    ) -> Answer<Vec<T>> {
        let mut all = Vec::new();
        let mut token = String::new();
        for _ in 0..100 {
            let mut asked = asked.to_vec();
            if !token.is_empty() {
                asked.push((
                    if ["iam", "elasticloadbalancing"].contains(&service.0) {
                        "Marker"
                    } else {
                        "NextToken"
                    }
                    .to_owned(),
                    token,
                ));
            }
            let xml = self.query(service, action, &asked).await?;
            let (mut page, next) = read(action, &xml, |root| {
                let next = ["NextToken", "nextToken", "NextMarker", "Marker"]
                    .iter()
                    .find_map(|name| find(root, name)?.text());
                (reader(root), next.unwrap_or_default().to_owned())
            })?;
            all.append(&mut page);
            if next.is_empty() {
                break;
            }
            token = next;
        }
        Ok(all)
    }

    pub(super) async fn find_foreign_load_balancers(&self, vpc: &str) -> Answer<Vec<String>> {
        let found = self
            .pages((BALANCING, "DescribeLoadBalancers"), &[], |root| {
                let all = entries(root, "LoadBalancers").into_iter();
                all.filter(|node| field(*node, "VpcId") == vpc)
                    .map(|node| field(node, "LoadBalancerArn"))
                    .collect()
            })
            .await?;
        let mut foreign = self.find_classic_load_balancers(vpc).await?;
        for arn in found {
            let xml = self
                .query(
                    BALANCING,
                    "DescribeTags",
                    &params(&[("ResourceArns.member.1", &arn)]),
                )
                .await?;
            let ours = read("elasticloadbalancing:DescribeTags", &xml, |root| {
                entries(root, "Tags")
                    .into_iter()
                    .any(|tag| field(tag, "Key") == CLUSTER_TAG)
            })?;
            if !ours {
                foreign.push(arn);
            }
        }
        Ok(foreign)
    }

    pub(super) async fn simulate(
        &self,
        arn: &str,
        asked: &[Simulation],
        context: &[(String, String)],
    ) -> Answer<Vec<String>> {
        let mut denied = Vec::new();
        for simulation in asked {
            let mut form = params(&[
                ("PolicySourceArn", arn),
                ("ResourceArns.member.1", &simulation.resource),
            ]);
            for (number, action) in (1..).zip(&simulation.actions) {
                form.push((format!("ActionNames.member.{number}"), action.clone()));
            }
            for (number, (key, value)) in (1..).zip(context) {
                let entry = format!("ContextEntries.member.{number}");
                form.push((format!("{entry}.ContextKeyName"), key.clone()));
                form.push((format!("{entry}.ContextKeyType"), "string".to_owned()));
                form.push((format!("{entry}.ContextKeyValues.member.1"), value.clone()));
            }
            let results = self
                .pages((IAM, "SimulatePrincipalPolicy"), &form, |root| {
                    let results = entries(root, "EvaluationResults").into_iter();
                    results
                        .map(|node| (field(node, "EvalActionName"), field(node, "EvalDecision")))
                        .collect()
                })
                .await?;
            denied.extend(
                results
                    .into_iter()
                    .filter(|(_, decision)| decision != "allowed")
                    .map(|(name, _)| name),
            );
        }
        Ok(denied)
    }

    pub(super) async fn find_tagged(&self, cluster: &str) -> Answer<Vec<String>> {
        let mut all = Vec::new();
        let mut token = String::new();
        for _ in 0..100 {
            let mut body = json!({"TagFilters": [{"Key": CLUSTER_TAG, "Values": [cluster]}]});
            if !token.is_empty() {
                body["PaginationToken"] = json!(token);
            }
            let answer = self
                .json(
                    "tagging",
                    "ResourceGroupsTaggingAPI_20170126.GetResources",
                    &body,
                )
                .await?;
            all.extend(strings(&answer, "ResourceTagMappingList", "ResourceARN"));
            token = answer["PaginationToken"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if token.is_empty() {
                break;
            }
        }
        Ok(all)
    }
}

pub(super) fn stack_view(node: Node<'_, '_>) -> StackView {
    let outputs = entries(node, "Outputs");
    StackView {
        id: field(node, "StackId"),
        status: field(node, "StackStatus"),
        reason: field(node, "StackStatusReason"),
        created: field(node, "CreationTime"),
        outputs: outputs
            .into_iter()
            .map(|output| (field(output, "OutputKey"), field(output, "OutputValue")))
            .collect(),
    }
}

pub(super) fn event(node: Node<'_, '_>) -> StackEvent {
    StackEvent {
        id: field(node, "EventId"),
        time: field(node, "Timestamp"),
        resource: field(node, "LogicalResourceId"),
        kind: field(node, "ResourceType"),
        status: field(node, "ResourceStatus"),
        reason: field(node, "ResourceStatusReason"),
    }
}

pub(super) fn change(node: Node<'_, '_>) -> Option<Change> {
    let resource = find(node, "ResourceChange")?;
    Some(Change {
        action: field(resource, "Action"),
        resource: field(resource, "LogicalResourceId"),
        kind: field(resource, "ResourceType"),
        replacement: field(resource, "Replacement"),
    })
}
