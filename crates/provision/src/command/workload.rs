//! What runs on the cluster, before it is taken down: jobs that would be lost, load balancers that
//! Kubernetes made and would make again while it lives.

use std::fmt;

use serde_json::Value;

use super::nodes::{Kubectl, KubectlError};
use super::{CommandError, Sink, Talk, counted};

/// Jobs that run, or why nobody can say.
pub(crate) async fn jobs(kubectl: Option<&Kubectl>) -> Result<Vec<String>, String> {
    let Some(kubectl) = kubectl else {
        let reason = "there is no kubeconfig in the folder; `canoe cluster kubeconfig` writes it";
        return Err(reason.to_owned());
    };
    let list = kubectl.list("jobs.batch").await;
    Ok(running_jobs(&list.map_err(|error| error.to_string())?))
}

/// What stops `down` when nobody can say whether jobs run.
pub(crate) fn unasked(reason: &str) -> CommandError {
    CommandError::Decision(format!(
        "the cluster cannot be asked whether jobs are running and what they saved: {reason}; make it \
         reachable, or pass --force"
    ))
}

/// What stops `down` while these jobs run.
pub(crate) fn busy(jobs: &[String]) -> CommandError {
    CommandError::Decision(format!(
        "{} {} running: {}; wait for the end, delete with `canoe job delete`, or pass --force",
        counted(jobs.len(), "job"),
        if jobs.len() == 1 { "is" } else { "are" },
        jobs.join(", ")
    ))
}

/// Removes services and ingresses that have a load balancer, so that Kubernetes takes it away itself.
/// What stays is removed directly later, so nothing here is fatal.
pub(crate) async fn release_load_balancers(kubectl: &Kubectl, sink: &mut impl Sink) {
    for kind in ["services", "ingresses.networking.k8s.io"] {
        let found = match kubectl.list(kind).await {
            Ok(list) => with_load_balancer(&list),
            Err(
                KubectlError::Failed { .. }
                | KubectlError::Permanent { .. }
                | KubectlError::Start { .. },
            ) => return,
            Err(KubectlError::Patience { .. }) => continue,
        };
        for object in found {
            sink.talk(Talk::Step(format!("{kind} {object} and its load balancer")));
            let deleted = kubectl.delete(kind, &object.namespace, &object.name);
            if let Err(error) = deleted.await {
                sink.talk(Talk::Warning(error.to_string()));
            }
        }
    }
}

/// A Kubernetes object, by its name.
struct ObjectName {
    namespace: String,
    name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn name_of(object: &Value) -> ObjectName {
    let text = |key: &str| {
        object["metadata"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    ObjectName {
        namespace: text("namespace"),
        name: text("name"),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// Jobs with pods that run, as `namespace/name`.
fn running_jobs(list: &Value) -> Vec<String> {
    items(list)
        .filter(|job| job["status"]["active"].as_u64().unwrap_or(0) > 0)
        .map(|job| name_of(job).to_string())
        .collect()
}

/// Services of type LoadBalancer, and ingresses that have one.
fn with_load_balancer(list: &Value) -> Vec<ObjectName> {
    let has = |object: &&Value| {
        object["spec"]["type"] == "LoadBalancer"
            || (object["kind"] == "Ingress"
                && object["status"]["loadBalancer"]["ingress"].is_array())
    };
    items(list).filter(has).map(name_of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_what_runs_and_what_holds_a_load_balancer() {
        let meta = |name: &str| json!({"name": name, "namespace": "default"});
        let jobs = json!({"items": [
            {"metadata": meta("a"), "status": {"active": 3}},
            {"metadata": meta("b"), "status": {"succeeded": 3}},
        ]});
        assert_eq!(running_jobs(&jobs), ["default/a"]);
        let services = json!({"items": [
            {"kind": "Service", "metadata": meta("web"), "spec": {"type": "LoadBalancer"}},
            {"kind": "Service", "metadata": meta("dns"), "spec": {"type": "ClusterIP"}},
            {"kind": "Ingress", "metadata": meta("in"), "spec": {}, "status": {"loadBalancer": {"ingress": [{}]}}},
            {"kind": "Ingress", "metadata": meta("none"), "spec": {}, "status": {"loadBalancer": {}}},
        ]});
        let names: Vec<String> = with_load_balancer(&services)
            .into_iter()
            .map(|object| object.name)
            .collect();
        assert_eq!(names, ["web", "in"]);
        assert!(running_jobs(&Value::Null).is_empty());
    }
}
