//! Sends one request with its time limit and retries, and reads objects.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::ExecConfig;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::error::ClusterError;

/// How often a request is sent to a busy server.
const TRIES: u32 = 6;
/// Pause before the second try unless the server names one; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// A client of a cluster, with the user's credentials. Clones share the connection.
#[derive(Clone)]
pub struct Cluster {
    pub(super) client: Client,
    server: String,
    namespace: String,
    request_timeout: Duration,
}

impl Cluster {
    /// A client for this configuration.
    pub fn new(config: Config, request_timeout: Duration) -> Result<Self, ClusterError> {
        let server = config.cluster_url.to_string();
        let server = server.trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.clone();
        let program = config.auth_info.exec.as_ref();
        let program = program.and_then(|exec| exec.command.clone());
        let client = log_in(config).map_err(|error| match error {
            kube::Error::Auth(source) => ClusterError::login(program.as_deref(), &source),
            other => ClusterError::new("prepare the connection", &server, other),
        })?;
        Ok(Self {
            client,
            server,
            namespace,
            request_timeout,
        })
    }

    /// The namespace of the kubeconfig's context; `default` if it names none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request, again while the server is too busy, all within the time limit of one request.
    pub(super) async fn ask<T, F>(
        &self,
        action: &str,
        request: impl Fn() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let left = self.request_timeout.saturating_sub(begun.elapsed());
            let Ok(answer) = timeout(left, request()).await else {
                return Err(self.slow(action));
            };
            let wait = match &answer {
                Err(kube::Error::Api(status)) if attempt < TRIES => later(status, pause),
                _ => None,
            };
            match wait {
                Some(wait) if begun.elapsed() + wait < self.request_timeout => {
                    tokio::time::sleep(wait).await;
                    pause *= 2;
                }
                _ => return answer.map_err(|error| self.failed(action, error)),
            }
        }
        Err(self.slow(action))
    }

    /// Sends a request once, for callers that handle refusals and retries themselves.
    pub(super) async fn ask_once<T>(
        &self,
        action: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ClusterError> {
        match timeout(self.request_timeout, request).await {
            Err(_) => Err(self.slow(action)),
            Ok(answer) => answer.map_err(|error| self.failed(action, error)),
        }
    }

    fn slow(&self, action: &str) -> ClusterError {
        ClusterError::Slow {
            action: action.to_owned(),
            server: self.server.clone(),
            seconds: self.request_timeout.as_secs(),
        }
    }

    pub(super) fn failed(&self, action: &str, error: kube::Error) -> ClusterError {
        ClusterError::new(action, &self.server, error)
    }

    /// An object of a namespace, if it is there.
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, ClusterError>
    where
        K: KnownObject<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let action = format!("get {} {name} in namespace {namespace}", kind::<K>());
        self.ask(&action, || api.get_opt(name)).await
    }

    /// The objects of a namespace that have these labels.
    pub async fn list<K>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, ClusterError>
    where
        K: KnownObject<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let place = format!(" in namespace {namespace}");
        self.list_of(&api, labels, &place).await
    }

    /// The objects of the whole cluster, of a kind that belongs to no namespace.
    pub async fn list_all<K>(&self, labels: &str) -> Result<Vec<K>, ClusterError>
    where
        K: KnownObject<Scope = ClusterResourceScope>,
    {
        self.list_of(&Api::<K>::all(self.client.clone()), labels, "")
            .await
    }

    pub(super) async fn list_of<K>(
        &self,
        api: &Api<K>,
        labels: &str,
        place: impl Display,
    ) -> Result<Vec<K>, ClusterError>
    where
        K: KnownObject,
    {
        let params = ListParams::default().labels(labels);
        let action = format!("list {}s{place}", kind::<K>());
        let found = self.ask(&action, || api.list(&params)).await?;
        Ok(found.items)
    }
}

/// A client that is logged in. `kube` runs a login program three times, to find out whether it also returns a
/// certificate. The login program of our own clusters returns none, so it is run only once until its token expires.
fn log_in(config: Config) -> kube::Result<Client> {
    if !config.auth_info.exec.as_ref().is_some_and(makes_tokens) {
        return Client::try_from(config);
    }
    let Some(token) = config.auth_layer()? else {
        return Client::try_from(config);
    };
    let namespace = config.default_namespace.clone();
    let mut without = config;
    without.auth_info.exec = None;
    let client = Client::try_from(without)?;
    let passed_on = service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    });
    Ok(ClientBuilder::new(passed_on, namespace)
        .with_layer(&token)
        .build())
}

/// Whether a login program is `canoe cluster token`.
pub(super) fn makes_tokens(login: &ExecConfig) -> bool {
    let words = login.args.as_deref().unwrap_or_default();
    words.starts_with(&["cluster".to_owned(), "token".to_owned()])
}

/// The bounds that a kind of object must satisfy to be read.
pub trait KnownObject:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static
{
}

impl<K> KnownObject for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static
{
}

fn kind<K: KnownObject>() -> String {
    K::kind(&()).to_ascii_lowercase()
}

/// How long to wait before another try; `None` if another try cannot help.
fn later(status: &kube::core::Status, pause: Duration) -> Option<Duration> {
    if !matches!(status.code, 429 | 503 | 504) {
        return None;
    }
    let asked = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    Some(pause.max(Duration::from_secs(asked.into())))
}

/// `None` instead of an error if the user has no right to read.
pub(super) fn if_allowed<T>(found: Result<T, ClusterError>) -> Result<Option<T>, ClusterError> {
    match found {
        Err(error) if error.is_forbidden() => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn a_busy_server_is_asked_again_when_it_says() {
        let busy = |code, seconds| {
            let details: StatusDetails =
                serde_json::from_value(serde_json::json!({"retryAfterSeconds": seconds})).unwrap();
            Status::failure("busy", "TooManyRequests")
                .with_code(code)
                .with_details(details)
        };
        let pause = Duration::from_millis(250);
        assert_eq!(later(&busy(429, 2), pause), Some(Duration::from_secs(2)));
        assert_eq!(later(&busy(503, 0), pause), Some(pause));
        assert_eq!(later(&busy(500, 1), pause), None);
        assert_eq!(later(&busy(404, 1), pause), None);
    }
}
