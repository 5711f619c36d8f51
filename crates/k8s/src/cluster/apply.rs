//! Server-side apply: a second apply changes nothing, and fields that other managers own are not overwritten.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::client::Body;
use kube::core::{GroupVersionKind, Request, Status};
use serde_json::Value;

use super::client::Cluster;
use super::error::ClusterError;
use crate::objects::{FILES_COMPONENT, MANAGER};

/// The label that says which part of a job an object is.
const COMPONENT: &str = "/metadata/labels/app.kubernetes.io~1component";

/// Whether an apply changes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// It changes the cluster.
    Real,
    /// The server checks everything and keeps nothing.
    DryRun,
}

/// The result of applying objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// A line for each object, in the words that kubectl uses.
    pub lines: Vec<String>,
    /// The server's warnings. A Job whose pods will be refused is accepted with only a warning.
    pub warnings: BTreeSet<String>,
}

/// The kind, namespace and name of an object.
pub(super) struct Address {
    pub resource: ApiResource,
    pub namespace: Option<String>,
    pub name: String,
}

impl Address {
    /// Where a rendered object lives.
    pub(super) fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").unwrap_or("v1");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, text("/kind").unwrap_or_default());
        Self {
            resource: ApiResource::from_gvk(&kind),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
        }
    }

    /// The kind as kubectl writes it: `job.batch`.
    pub(super) fn kind(&self) -> String {
        let (kind, group) = (&self.resource.kind, &self.resource.group);
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}", kind.to_ascii_lowercase())
    }

    fn path(&self) -> String {
        DynamicObject::url_path(&self.resource, self.namespace.as_deref())
    }
}

impl Cluster {
    /// Applies the objects in their order and stops at the first that is refused.
    pub async fn apply(&self, objects: &[Value], mode: ApplyMode) -> Result<Applied, ClusterError> {
        let mut applied = Applied::default();
        for object in objects {
            let address = Address::of(object);
            let warnings = self.apply_one(&address, object, mode).await?;
            applied.warnings.extend(warnings);
            let note = match mode {
                ApplyMode::Real => "",
                ApplyMode::DryRun => " (server dry run)",
            };
            applied.lines.push(format!(
                "{}/{} serverside-applied{note}",
                address.kind(),
                address.name
            ));
        }
        Ok(applied)
    }

    async fn apply_one(
        &self,
        address: &Address,
        object: &Value,
        mode: ApplyMode,
    ) -> Result<Vec<String>, ClusterError> {
        let mut params = PatchParams::apply(MANAGER);
        params.dry_run = mode == ApplyMode::DryRun;
        // The ConfigMap that says where the job's files are is always taken over, even if another manager applied it.
        params.force = object.pointer(COMPONENT) == Some(&Value::from(FILES_COMPONENT));
        params.field_validation = Some(ValidationDirective::Strict);
        let action = format!("apply {} {}", address.kind(), address.name);
        let asked = self.ask(&action, async || {
            let request = Request::new(address.path())
                .patch(&address.name, &params, &Patch::Apply(object))
                .map_err(kube::Error::BuildRequest)?;
            let answer = self.client.send(request.map(Body::from)).await?;
            let (head, body) = answer.into_parts();
            let warnings = head.headers.get_all("warning");
            let warnings = warnings
                .iter()
                .filter_map(|value| warning(value.to_str().ok()?));
            let warnings: Vec<String> = warnings.collect();
            if head.status.is_success() {
                return Ok(warnings);
            }
            let body = body.collect().await?.to_bytes();
            Err(kube::Error::Api(
                refusal(head.status.as_u16(), &body).boxed(),
            ))
        });
        asked.await.map_err(|error| match error {
            ClusterError::Refused { status, .. } if status.is_conflict() => ClusterError::Taken {
                message: status.message,
            },
            error => error,
        })
    }

    /// Those of these objects that exist, as the server returns them.
    pub(crate) async fn same_objects(&self, objects: &[Value]) -> Result<Vec<Value>, ClusterError> {
        let mut found = Vec::new();
        for object in objects {
            let address = Address::of(object);
            let api = self.dynamic(&address.resource, address.namespace.as_deref());
            let action = format!("get {} {}", address.kind(), address.name);
            let there = self.ask(&action, || api.get_opt(&address.name)).await?;
            if let Some(there) = there {
                let value = serde_json::to_value(there);
                found.push(value.map_err(|source| ClusterError::Broken {
                    action,
                    cause: source.to_string(),
                })?);
            }
        }
        Ok(found)
    }
}

/// The text of a warning header: `299 - "text"`, with quotes and backslashes escaped.
fn warning(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(format!("Warning: {text}")),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

/// The status of a refusal. A proxy in between may send another body than an API server.
fn refusal(code: u16, body: &[u8]) -> Status {
    let said: Option<Status> = serde_json::from_slice(body).ok();
    match said {
        Some(status) if status.is_failure() || status.code != 0 => Status { code, ..status },
        _ => {
            let text = String::from_utf8_lossy(body);
            let first = text.lines().next().unwrap_or_default();
            Status::failure(&format!("the server responds with {code} {first}"), "").with_code(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_objects() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ctr", "namespace": "team"}});
        let job = Address::of(&job);
        assert_eq!(job.path(), "/apis/batch/v1/namespaces/team/jobs");
        assert_eq!(job.kind(), "job.batch");
        let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a", "namespace": "b"}});
        assert!(Address::of(&policy).path().ends_with("/networkpolicies"));
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        assert_eq!(Address::of(&space).path(), "/api/v1/namespaces");
    }

    #[test]
    fn warnings_are_unwrapped() {
        let header = r#"299 - "would violate PodSecurity \"restricted:latest\": runAsNonRoot""#;
        assert_eq!(
            warning(header).unwrap(),
            "Warning: would violate PodSecurity \"restricted:latest\": runAsNonRoot"
        );
        assert_eq!(warning("299 - nothing"), None);
        assert_eq!(warning("299 - \"open"), None);
    }

    #[test]
    fn an_answer_that_is_no_status_keeps_its_code() {
        let status = refusal(502, b"<html>Bad Gateway</html>\nmore");
        assert_eq!(status.code, 502);
        assert_eq!(
            status.message,
            "the server responds with 502 <html>Bad Gateway</html>"
        );
        let said = br#"{"kind":"Status","status":"Failure","reason":"Forbidden","message":"no","code":403}"#;
        assert!(refusal(403, said).is_forbidden());
    }
}
