//! The form-in, XML-out protocol, the JSON protocol, and the errors of all of them.

use hyper::Method;
use roxmltree::{Document, Node};
use serde_json::Value;

use super::client::{Aws, AwsReply, Call};
use crate::cloud::CloudError;
use crate::ownership::Tags;

/// Service name for signing and the version that its requests carry.
#[derive(Clone, Copy)]
pub(super) struct AwsService(pub &'static str, pub &'static str);

pub(super) const AUTO_SCALING: AwsService = AwsService("autoscaling", "2011-01-01");
pub(super) const CLOUDFORMATION: AwsService = AwsService("cloudformation", "2010-05-15");
pub(super) const EC2: AwsService = AwsService("ec2", "2016-11-15");
pub(super) const IAM: AwsService = AwsService("iam", "2010-05-08");
pub(super) const STS: AwsService = AwsService("sts", "2011-06-15");
pub(super) const CLASSIC_BALANCING: AwsService = AwsService("elasticloadbalancing", "2012-06-01");
pub(super) const BALANCING: AwsService = AwsService("elasticloadbalancing", "2015-12-01");

/// Percent-encodes as a form value.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

impl Aws {
    /// Sends a form; the response is XML text.
    pub(super) async fn query(
        &self,
        service: AwsService,
        action: &str,
        params: &[(String, String)],
    ) -> Result<String, CloudError> {
        let mut body = format!("Action={action}&Version={}", service.1);
        for (key, value) in params {
            body.push_str(&format!("&{}={}", encode(key), encode(value)));
        }
        let action = format!("{}:{action}", service.0);
        let call = Call {
            action: &action,
            service: service.0,
            method: Method::POST,
            path: "/".to_owned(),
            headers: vec![(
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8".to_owned(),
            )],
            body: body.into_bytes(),
        };
        text(&action, self.send(call).await?)
    }

    /// Sends JSON to `target` (such as `TrentService.Encrypt`); the response is JSON.
    pub(super) async fn json(
        &self,
        service: &str,
        target: &str,
        body: &Value,
    ) -> Result<Value, CloudError> {
        let action = format!("{service}:{}", target.rsplit('.').next().unwrap_or(target));
        let call = Call {
            action: &action,
            service,
            method: Method::POST,
            path: "/".to_owned(),
            headers: vec![
                ("content-type", "application/x-amz-json-1.1".to_owned()),
                ("x-amz-target", target.to_owned()),
            ],
            body: body.to_string().into_bytes(),
        };
        let answer = text(&action, self.send(call).await?)?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer).map_err(|error| CloudError::Unreadable {
            action: action.clone(),
            reason: error.to_string(),
        })
    }
}

pub(super) fn text(action: &str, reply: AwsReply) -> Result<String, CloudError> {
    String::from_utf8(reply.body.to_vec()).map_err(|error| CloudError::Unreadable {
        action: action.to_owned(),
        reason: error.to_string(),
    })
}

/// Parses XML and reads something out of it.
pub(super) fn read<T>(
    action: &str,
    xml: &str,
    reader: impl FnOnce(Node<'_, '_>) -> T,
) -> Result<T, CloudError> {
    let document = Document::parse(xml).map_err(|error| CloudError::Unreadable {
        action: action.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(reader(document.root_element()))
}

/// The first descendant of this name.
pub(super) fn find<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.descendants()
        .find(|inner| inner.tag_name().name() == name)
}

/// Text of the child of this name, or nothing.
pub(super) fn field(node: Node<'_, '_>, name: &str) -> String {
    let child = node
        .children()
        .find(|inner| inner.tag_name().name() == name);
    child
        .and_then(|inner| inner.text())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The entries (`member` or `item`) of the list of this name, directly below or anywhere inside.
pub(super) fn entries<'a, 'i>(node: Node<'a, 'i>, list: &str) -> Vec<Node<'a, 'i>> {
    let Some(list) = find(node, list) else {
        return Vec::new();
    };
    list.children()
        .filter(|inner| ["member", "item"].contains(&inner.tag_name().name()))
        .collect()
}

/// Tags of an entry: `Tags` with `Key` and `Value`, or EC2's `tagSet` with `key` and `value`.
pub(super) fn tags(node: Node<'_, '_>) -> Tags {
    let lists = [("Tags", "Key", "Value"), ("tagSet", "key", "value")];
    let pairs = lists.iter().flat_map(|(list, key, value)| {
        let found = entries(node, list).into_iter();
        found.map(|tag| (field(tag, key), field(tag, value)))
    });
    pairs.collect()
}

/// The field `name` of every element called `element`.
pub(super) fn entries_named(node: Node<'_, '_>, element: &str, name: &str) -> Vec<String> {
    node.descendants()
        .filter(|inner| inner.tag_name().name() == element)
        .map(|inner| field(inner, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded() {
        assert_eq!(encode("a b/c=ü&"), "a%20b%2Fc%3D%C3%BC%26");
    }

    #[test]
    fn lists_and_fields() {
        let xml = "<R><Stacks><member><StackName> demo </StackName></member><member/></Stacks></R>";
        let names = read("a", xml, |root| {
            entries(root, "Stacks")
                .into_iter()
                .map(|node| field(node, "StackName"))
                .collect::<Vec<_>>()
        });
        assert_eq!(names.unwrap(), ["demo", ""]);
        assert!(read("a", "<R>", |_| ()).is_err());
    }
}
