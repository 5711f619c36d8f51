//! What runs on the cluster, before it is taken down: jobs that would be lost, load balancers that
//! Kubernetes made and would make again while it lives.

use std::fmt;

use k8s::cluster::client::KnownObject;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::api_server::ApiServer;
use super::{CommandError, Sink, Talk, counted};

/// Jobs that run, or why nobody can say.
pub(crate) async fn jobs(api: Option<&ApiServer>) -> Result<Vec<String>, String> {
    let Some(api) = api else {
        let reason = "there is no kubeconfig in the folder; `canoe cluster kubeconfig` writes it";
        return Err(reason.to_owned());
    };
    let list = api.list::<Job>().await;
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
        "{} {} running: {}; wait for the end, delete with `canoe job delete NAME`, or pass --force",
        counted(jobs.len(), "job"),
        if jobs.len() == 1 { "is" } else { "are" },
        jobs.join(", ")
    ))
}

/// Removes services and ingresses that have a load balancer, so that Kubernetes takes it away itself.
/// What stays is removed directly later, so nothing here is fatal.
pub(crate) async fn release_load_balancers(api: &ApiServer, sink: &mut impl Sink) {
    let Ok(services) = api.list::<Service>().await else {
        return;
    };
    let services = services.iter().filter(|service| balances(service));
    release::<Service>(
        api,
        "service",
        services.map(|one| name_of(&one.metadata)),
        sink,
    )
    .await;
    let Ok(ingresses) = api.list::<Ingress>().await else {
        return;
    };
    let ingresses = ingresses.iter().filter(|ingress| is_balanced(ingress));
    release::<Ingress>(
        api,
        "ingress",
        ingresses.map(|one| name_of(&one.metadata)),
        sink,
    )
    .await;
}

async fn release<K>(
    api: &ApiServer,
    what: &str,
    names: impl Iterator<Item = ObjectName>,
    sink: &mut impl Sink,
) where
    K: KnownObject<Scope = NamespaceResourceScope>,
{
    for object in names {
        sink.talk(Talk::Step(format!("{what} {object} and its load balancer")));
        if let Err(error) = api.remove::<K>(&object.namespace, &object.name).await {
            sink.talk(Talk::Warning(error.to_string()));
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

fn name_of(metadata: &ObjectMeta) -> ObjectName {
    ObjectName {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// Jobs with pods that run, as `namespace/name`.
fn running_jobs(jobs: &[Job]) -> Vec<String> {
    let runs = |job: &&Job| job.status.as_ref().and_then(|status| status.active) > Some(0);
    let running = jobs.iter().filter(runs);
    running
        .map(|job| name_of(&job.metadata).to_string())
        .collect()
}

fn balances(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind == Some("LoadBalancer")
}

fn is_balanced(ingress: &Ingress) -> bool {
    let status = ingress.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    balancer.is_some_and(|balancer| balancer.ingress.is_some())
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn finds_what_runs_and_what_holds_a_load_balancer() {
        let meta = |name: &str| json!({"name": name, "namespace": "default"});
        let jobs: Vec<Job> = read(json!([
            {"metadata": meta("a"), "status": {"active": 3}},
            {"metadata": meta("b"), "status": {"succeeded": 3}},
            {"metadata": meta("c")},
        ]));
        assert_eq!(running_jobs(&jobs), ["default/a"]);
        let of_type =
            |kind: &str| read::<Service>(json!({"metadata": meta("web"), "spec": {"type": kind}}));
        assert!(balances(&of_type("LoadBalancer")) && !balances(&of_type("ClusterIP")));
        let with = |balancer: Value| {
            read::<Ingress>(json!({"metadata": meta("in"), "status": {"loadBalancer": balancer}}))
        };
        assert!(is_balanced(&with(json!({"ingress": [{}]}))) && !is_balanced(&with(json!({}))));
    }
}
