//! Responses that come in pages or need more than one request, and how entries are read.

use roxmltree::Node;
use serde_json::{Value, json};

use super::client::Aws;
use super::query::{
    AwsService, BALANCING, CLASSIC_BALANCING, IAM, encode, entries, field, find, read, tags,
};
use crate::cloud::{Change, ChangeSetView, CloudError, StackView};
use crate::lifecycle::events::StackEvent;
use crate::ownership::{ID_TAG, Thing};
use crate::policy::Simulation;
use crate::statuses::Decision;

type CloudResult<T> = Result<T, CloudError>;

/// The token of the next page, and those that have been.
#[derive(Default)]
pub(super) struct Tokens {
    seen: Vec<String>,
}

impl Tokens {
    /// The token to send, if this is not the first page.
    pub(super) fn get(&self) -> Option<&str> {
        self.seen.last().map(String::as_str)
    }

    /// The same as a part of a query: `key` and the encoded token, or nothing.
    pub(super) fn query(&self, key: &str) -> String {
        self.get()
            .map_or(String::new(), |token| format!("{key}{}", encode(token)))
    }

    /// Turns to the page of `next`; `false` at the end. A token that comes back would never end.
    pub(super) fn follow(&mut self, action: &str, next: String) -> Result<bool, CloudError> {
        if next.is_empty() {
            return Ok(false);
        }
        if self.seen.contains(&next) {
            return Err(CloudError::Unreadable {
                action: action.to_owned(),
                reason: "its pages go round in a circle".to_owned(),
            });
        }
        self.seen.push(next);
        Ok(true)
    }
}

pub(super) fn params(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

impl Aws {
    /// Asks page after page until there is no token for a next one.
    pub(super) async fn pages<T>(
        &self,
        (service, action): (AwsService, &str),
        asked: &[(String, String)],
        reader: impl Fn(Node<'_, '_>) -> Vec<T>,
    ) -> CloudResult<Vec<T>> {
        let name = match service.0 {
            "iam" | "elasticloadbalancing" => "Marker",
            _ => "NextToken",
        };
        let (mut all, mut tokens) = (Vec::new(), Tokens::default());
        loop {
            let mut asked = asked.to_vec();
            asked.extend(
                tokens
                    .get()
                    .map(|token| (name.to_owned(), token.to_owned())),
            );
            let xml = self.query(service, action, &asked).await?;
            let (mut page, next) = read(action, &xml, |root| {
                let next = ["NextToken", "nextToken", "NextMarker", "Marker"]
                    .iter()
                    .find_map(|name| find(root, name)?.text());
                (reader(root), next.unwrap_or_default().to_owned())
            })?;
            all.append(&mut page);
            if !tokens.follow(action, next)? {
                return Ok(all);
            }
        }
    }

    pub(super) async fn find_load_balancers(&self, vpc: &str) -> CloudResult<Vec<Thing>> {
        let found = self
            .pages((BALANCING, "DescribeLoadBalancers"), &[], |root| {
                let all = entries(root, "LoadBalancers").into_iter();
                all.filter(|node| field(*node, "VpcId") == vpc)
                    .map(|node| field(node, "LoadBalancerArn"))
                    .collect()
            })
            .await?;
        let classic = self.find_classic_load_balancers(vpc).await?;
        let mut all = Vec::new();
        for (service, parameter, ids) in [
            (CLASSIC_BALANCING, "LoadBalancerNames.member.1", classic),
            (BALANCING, "ResourceArns.member.1", found),
        ] {
            for id in ids {
                let asked = params(&[(parameter, &id)]);
                let xml = self.query(service, "DescribeTags", &asked).await?;
                let tags = read("elasticloadbalancing:DescribeTags", &xml, tags)?;
                all.push(Thing { id, tags });
            }
        }
        Ok(all)
    }

    pub(super) async fn simulate(
        &self,
        arn: &str,
        asked: &[Simulation],
        context: &[(String, String)],
    ) -> CloudResult<Vec<String>> {
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
                let list = key == "aws:CalledVia";
                let kind = if list { "stringList" } else { "string" };
                form.push((format!("{entry}.ContextKeyType"), kind.to_owned()));
                form.push((format!("{entry}.ContextKeyValues.member.1"), value.clone()));
            }
            let results = self
                .pages((IAM, "SimulatePrincipalPolicy"), &form, |root| {
                    let results = entries(root, "EvaluationResults").into_iter();
                    results
                        .map(|node| {
                            (
                                field(node, "EvalActionName"),
                                Decision::from(field(node, "EvalDecision")),
                            )
                        })
                        .collect()
                })
                .await?;
            denied.extend(
                results
                    .into_iter()
                    .filter(|(_, decision)| *decision != Decision::Allowed)
                    .map(|(name, _)| name),
            );
        }
        Ok(denied)
    }

    pub(super) async fn find_tagged(&self, id: &str) -> CloudResult<Vec<Thing>> {
        let (mut all, mut tokens) = (Vec::new(), Tokens::default());
        let target = "ResourceGroupsTaggingAPI_20170126.GetResources";
        loop {
            let mut body = json!({"TagFilters": [{"Key": ID_TAG, "Values": [id]}]});
            if let Some(token) = tokens.get() {
                body["PaginationToken"] = json!(token);
            }
            let answer = self.json("tagging", target, &body).await?;
            all.extend(tagged_things(&answer));
            let next = answer["PaginationToken"].as_str().unwrap_or_default();
            if !tokens.follow(target, next.to_owned())? {
                return Ok(all);
            }
        }
    }
}

/// Things of a response of the tagging service, by ARN.
fn tagged_things(answer: &Value) -> Vec<Thing> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tags = |thing: &Value| {
        let tags = list(&thing["Tags"]).into_iter();
        tags.map(|tag| (text(&tag["Key"]), text(&tag["Value"])))
            .collect()
    };
    let all = list(&answer["ResourceTagMappingList"]).into_iter();
    all.map(|thing| Thing {
        id: text(&thing["ResourceARN"]),
        tags: tags(&thing),
    })
    .collect()
}

pub(super) fn stack_view(node: Node<'_, '_>) -> StackView {
    let outputs = entries(node, "Outputs");
    StackView {
        id: field(node, "StackId"),
        status: field(node, "StackStatus").into(),
        reason: field(node, "StackStatusReason"),
        created: field(node, "CreationTime"),
        outputs: outputs
            .into_iter()
            .map(|output| (field(output, "OutputKey"), field(output, "OutputValue")))
            .collect(),
        tags: tags(node),
        protected: field(node, "EnableTerminationProtection") == "true",
    }
}

pub(super) fn event(node: Node<'_, '_>) -> StackEvent {
    StackEvent {
        id: field(node, "EventId"),
        time: field(node, "Timestamp"),
        resource: field(node, "LogicalResourceId"),
        kind: field(node, "ResourceType"),
        status: field(node, "ResourceStatus").into(),
        reason: field(node, "ResourceStatusReason"),
    }
}

/// One page of a change set.
pub(super) fn change_set_page(root: Node<'_, '_>) -> ChangeSetView {
    let inner = find(root, "DescribeChangeSetResult").unwrap_or(root);
    ChangeSetView {
        status: field(inner, "Status").into(),
        reason: field(inner, "StatusReason"),
        changes: entries(inner, "Changes")
            .into_iter()
            .filter_map(change)
            .collect(),
        tags: tags(inner),
    }
}

/// A change set from its pages: each repeats the state and has some of the changes.
pub(super) fn joined(pages: Vec<ChangeSetView>) -> Option<ChangeSetView> {
    pages.into_iter().reduce(|mut whole, page| {
        whole.changes.extend(page.changes);
        whole
    })
}

fn change(node: Node<'_, '_>) -> Option<Change> {
    let resource = find(node, "ResourceChange")?;
    Some(Change {
        action: field(resource, "Action").into(),
        resource: field(resource, "LogicalResourceId"),
        kind: field(resource, "ResourceType"),
        replacement: field(resource, "Replacement").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes after the first page were neither shown nor counted.
    #[test]
    fn a_change_set_has_the_changes_of_all_its_pages() {
        let page = |resource: &str| {
            let xml = format!(
                "<R><DescribeChangeSetResult><Status>CREATE_COMPLETE</Status><Changes><member><ResourceChange>\
                 <Action>Add</Action><LogicalResourceId>{resource}</LogicalResourceId></ResourceChange></member>\
                 </Changes></DescribeChangeSetResult></R>"
            );
            read("a", &xml, change_set_page).unwrap()
        };
        let whole = joined(vec![page("Vpc"), page("Key")]).unwrap();
        let names: Vec<&str> = whole.changes.iter().map(|c| c.resource.as_str()).collect();
        assert_eq!(names, ["Vpc", "Key"]);
        assert_eq!(joined(Vec::new()), None);
    }

    #[test]
    fn pages_that_go_round_in_a_circle_end() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.query("?Marker="), "");
        assert!(tokens.follow("a", "x y".to_owned()).unwrap());
        assert_eq!(tokens.query("?Marker="), "?Marker=x%20y");
        assert!(tokens.follow("a", "z".to_owned()).unwrap());
        assert!(tokens.follow("a", "x y".to_owned()).is_err());
        assert!(!tokens.follow("a", String::new()).unwrap());
    }
}
