//! The API server of a cluster in memory, over HTTP on loopback: objects by their path, pods that end at once, evictions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::api_server::ApiServer;

/// What a kubelet of this version says of itself: every field that Kubernetes asks for.
pub(crate) fn node_info(kubelet: &str) -> Value {
    let mut info: Value = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ]
    .map(|key| (key.to_owned(), json!("x")))
    .into_iter()
    .collect();
    info["kubeletVersion"] = json!(kubelet);
    info
}

/// What is there, and what was asked.
#[derive(Default)]
struct Content {
    /// By path, such as `/api/v1/nodes/a`.
    objects: BTreeMap<String, Value>,
    /// Method and path of every request, in order.
    asked: Vec<String>,
    /// What every pod prints.
    printed: String,
    /// The phase in which pods end.
    phase: String,
    /// Evictions that a budget does not allow yet.
    budget: u32,
    /// Every request is refused with this code and reason.
    refusal: Option<(u16, &'static str)>,
}

/// A cluster of one's own. It ends with the test.
pub(crate) struct ApiDouble {
    content: Arc<Mutex<Content>>,
    folder: TempDir,
}

impl ApiDouble {
    pub(crate) async fn start() -> Self {
        let double = Self {
            content: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        };
        double.pods_end("Succeeded");
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .fallback(answer)
            .with_state(double.content.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "demo",
            "clusters": [{"name": "demo", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "demo", "user": {"token": "secret"}}],
            "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        });
        std::fs::write(double.kubeconfig(), config.to_string()).unwrap();
        double
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn api(&self) -> ApiServer {
        ApiServer::new(self.kubeconfig(), "/usr/bin/canoe".into())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> T {
        work(&mut self.content.lock().unwrap())
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.with(|content| content.objects.insert(path.to_owned(), object));
    }

    pub(crate) fn prints(&self, text: &str) {
        self.with(|content| text.clone_into(&mut content.printed));
    }

    pub(crate) fn pods_end(&self, phase: &str) {
        self.with(|content| phase.clone_into(&mut content.phase));
    }

    pub(crate) fn budget(&self, refused: u32) {
        self.with(|content| content.budget = refused);
    }

    pub(crate) fn refuses(&self, code: u16, reason: &'static str) {
        self.with(|content| content.refusal = Some((code, reason)));
    }

    pub(crate) fn accepts(&self) {
        self.with(|content| content.refusal = None);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.with(|content| content.asked.clone())
    }

    /// Names of the objects whose path begins so.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.with(|content| {
            let names = content
                .objects
                .keys()
                .filter_map(|key| key.strip_prefix(path));
            names.map(str::to_owned).collect()
        })
    }
}

impl Content {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        if let Some((code, reason)) = self.refusal {
            return refused(code, reason);
        }
        match *method {
            Method::GET => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None if path.ends_with('s') => (200, self.list(path, query)),
                None => refused(404, "NotFound"),
            },
            Method::PATCH => self.change(path, body),
            Method::DELETE => self.remove(path),
            Method::POST => self.evict(path),
            _ => refused(405, "MethodNotAllowed"),
        }
    }

    /// The objects of a kind, of one namespace or of all; of one machine, if the query says so.
    fn list(&self, path: &str, query: &str) -> Value {
        let (root, plural) = path.rsplit_once('/').unwrap();
        let (begin, inside) = (format!("{root}/"), format!("/{plural}/"));
        let of_kind = self.objects.iter().filter(|(key, _)| {
            let rest = key.strip_prefix(&begin);
            rest.is_some_and(|rest| format!("/{rest}").contains(&inside))
        });
        let machine = query.split("spec.nodeName%3D").nth(1);
        let machine = machine.map(|rest| rest.split('&').next().unwrap());
        let chosen = of_kind
            .filter(|(_, object)| machine.is_none_or(|name| object["spec"]["nodeName"] == name));
        let items: Vec<&Value> = chosen.map(|(_, object)| object).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn change(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let object = self
            .objects
            .entry(path.to_owned())
            .or_insert_with(|| json!({}));
        merge(object, body);
        if path.contains("/pods/") {
            object["status"] = json!({"phase": self.phase});
        }
        (200, object.clone())
    }

    fn remove(&mut self, path: &str) -> (u16, Value) {
        match self.objects.remove(path) {
            Some(_) => (200, json!({"kind": "Status", "status": "Success"})),
            None => refused(404, "NotFound"),
        }
    }

    fn evict(&mut self, path: &str) -> (u16, Value) {
        if self.budget > 0 {
            self.budget -= 1;
            return refused(429, "TooManyRequests");
        }
        self.remove(path.strip_suffix("/eviction").unwrap())
    }
}

fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change.clone(),
    }
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    let message = format!("the server says {code}");
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}),
    )
}

async fn answer(State(content): State<Arc<Mutex<Content>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut content = content.lock().unwrap();
    content.asked.push(format!("{} {path}", head.method));
    if path.ends_with("/log") {
        return Response::new(Body::from(content.printed.clone()));
    }
    let query = head.uri.query().unwrap_or_default();
    let (code, answer) = content.answer(&head.method, &path, query, &body);
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    response.body(Body::from(answer.to_string())).unwrap()
}
