//! The client against a small API server on loopback: what is asked, and what comes of the answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use k8s::cluster::{
    Again, ApplyMode, Cluster, ClusterAccess, ClusterError, DeleteScope, Submitted, TargetJob,
    submit,
};
use k8s::explain::{JobState, diagnose};
use serde_json::{Value, json};

/// Responses by method and path; 404 as an API server says it for everything else.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    bodies: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    warning: Option<&'static str>,
    body: Value,
}

const JOBS: &str = "/apis/batch/v1/namespaces/team/jobs";

impl Server {
    async fn start() -> (Self, Cluster) {
        let server = Self::default();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "team"}}],
        });
        std::fs::write(&config, text.to_string()).unwrap();
        let access = ClusterAccess {
            kubeconfigs: vec![config],
            context: None,
            request_timeout: Duration::from_secs(30),
            program: None,
        };
        (server, access.connect().await.unwrap())
    }

    fn says(&self, request: &str, body: Value) -> &Self {
        self.answers(request, 200, None, body)
    }

    fn answers(
        &self,
        request: &str,
        status: u16,
        warning: Option<&'static str>,
        body: Value,
    ) -> &Self {
        let answer = Answer {
            status,
            warning,
            body,
        };
        self.answers
            .lock()
            .unwrap()
            .insert(request.to_owned(), answer);
        self
    }

    fn refuses(&self, request: &str, code: u16, reason: &str, message: &str) -> &Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
        self.answers(request, code, None, status)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn has_asked(&self, start: &str) -> bool {
        self.asked().iter().any(|asked| asked.starts_with(start))
    }
}

async fn answer(Shared(server): Shared<Server>, request: Request) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    let key = format!("{} {}", request.method(), request.uri().path());
    server.asked.lock().unwrap().push(line);
    let body = axum::body::to_bytes(request.into_body(), 1 << 20)
        .await
        .unwrap();
    server
        .bodies
        .lock()
        .unwrap()
        .push(String::from_utf8_lossy(&body).into_owned());
    let known = server.answers.lock().unwrap().get(&key).cloned();
    let is_list = key.starts_with("GET ") && key.ends_with('s');
    let answer = known.unwrap_or_else(|| match is_list {
        true => Answer { status: 200, warning: None, body: json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}) },
        false => Answer {
            status: 404,
            warning: None,
            body: json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}),
        },
    });
    let mut response = Response::builder()
        .status(answer.status)
        .header("content-type", "application/json");
    if let Some(warning) = answer.warning {
        response = response.header("warning", warning);
    }
    response.body(Body::from(answer.body.to_string())).unwrap()
}

fn target() -> TargetJob {
    TargetJob {
        namespace: "team".into(),
        job: "ctr".into(),
    }
}

fn job(nodes: u32) -> Value {
    let labels =
        json!({"app.kubernetes.io/managed-by": "canoe", "app.kubernetes.io/instance": "ctr"});
    let metadata = json!({"name": "ctr", "namespace": "team", "labels": labels});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"completions": nodes, "template": {}}})
}

fn objects() -> Vec<Value> {
    let metadata = json!({"name": "ctr", "namespace": "team"});
    vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": "c2VjcmV0"}}),
        job(3),
    ]
}

async fn submitted(
    cluster: &Cluster,
    mode: ApplyMode,
    again: Again,
) -> Result<Submitted, ClusterError> {
    submit(cluster, &target(), &objects(), mode, again, &mut |_| {}).await
}

const SECRET: &str = "PATCH /api/v1/namespaces/team/secrets/ctr";
const APPLY: &str = "PATCH /apis/batch/v1/namespaces/team/jobs/ctr";
const GET: &str = "GET /apis/batch/v1/namespaces/team/jobs/ctr";

#[tokio::test]
async fn a_first_submit_applies_everything_and_passes_warnings_on() {
    let (server, cluster) = Server::start().await;
    server.says(SECRET, json!({}));
    let warning = Some(r#"299 - "would violate PodSecurity \"restricted:latest\"""#);
    server.answers(APPLY, 201, warning, json!({}));
    let Submitted::New(applied) = submitted(&cluster, ApplyMode::DryRun, Again::Compare)
        .await
        .unwrap()
    else {
        panic!("nothing was made")
    };
    assert_eq!(
        applied.lines,
        [
            "secret/ctr serverside-applied (server dry run)",
            "job.batch/ctr serverside-applied (server dry run)"
        ]
    );
    let warnings: Vec<String> = applied.warnings.into_iter().collect();
    assert_eq!(
        warnings,
        ["Warning: would violate PodSecurity \"restricted:latest\""]
    );
    let asked = server.asked();
    let apply = asked.iter().find(|asked| asked.starts_with(APPLY)).unwrap();
    for wanted in ["fieldManager=canoe", "dryRun=All", "fieldValidation=Strict"] {
        assert!(apply.contains(wanted), "{apply}");
    }
    assert!(!apply.contains("force"), "{apply}");
    assert!(
        server
            .bodies
            .lock()
            .unwrap()
            .iter()
            .any(|body| body.contains("\"completions\":3"))
    );
}

#[tokio::test]
async fn a_second_submit_says_what_differs_and_what_can_be_done() {
    let (server, cluster) = Server::start().await;
    server.says(GET, job(3));
    assert_eq!(
        submitted(&cluster, ApplyMode::Real, Again::Compare)
            .await
            .unwrap(),
        Submitted::Unchanged
    );
    server.says(GET, job(5));
    let error = submitted(&cluster, ApplyMode::Real, Again::Compare)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("completions: 5 is there, 3 is wanted") && error.contains("--replace"),
        "{error}"
    );
    assert!(!server.has_asked("PATCH"));
}

#[tokio::test]
async fn a_job_of_somebody_else_is_left_alone() {
    let (server, cluster) = Server::start().await;
    let none = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404});
    let map = "GET /api/v1/namespaces/team/configmaps/ctr-files";
    server.answers(map, 404, None, none);
    for labels in [
        json!({}),
        json!({"app.kubernetes.io/managed-by": "canoe", "app.kubernetes.io/instance": "other"}),
        json!({"app.kubernetes.io/instance": "ctr"}),
    ] {
        let mut foreign = job(5);
        foreign["metadata"]["labels"] = labels;
        server.says(GET, foreign);
        for again in [Again::Compare, Again::Replace] {
            let error = submitted(&cluster, ApplyMode::Real, again)
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains("belongs to somebody else"), "{error}");
        }
        for suspend in [true, false] {
            let error = cluster.suspend(&target(), suspend).await.unwrap_err();
            assert!(matches!(error, ClusterError::NotOurs { .. }), "{error}");
        }
        let error = cluster.files(&target()).await.unwrap_err();
        assert!(matches!(error, ClusterError::NotOurs { .. }), "{error}");
    }
    assert!(!server.has_asked("PATCH") && !server.has_asked("DELETE"));
}

#[tokio::test]
async fn a_job_that_is_being_deleted_is_recognised() {
    let (server, cluster) = Server::start().await;
    let mut leaving = job(5);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-16T11:11:25Z");
    server.says(GET, leaving);
    let error = submitted(&cluster, ApplyMode::Real, Again::Compare)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClusterError::BeingDeleted { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("`canoe job status ctr -n team`"),
        "{error}"
    );
}

#[tokio::test]
async fn replacing_deletes_before_it_applies() {
    let (server, cluster) = Server::start().await;
    server
        .says(GET, job(5))
        .says(SECRET, json!({}))
        .says(APPLY, json!({}));
    let mut listed = job(5);
    listed["metadata"]["uid"] = json!("old");
    server.says(
        &format!("GET {JOBS}"),
        json!({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": [listed]}),
    );
    // What is there afterwards has another uid: the old one is gone.
    server.says(
        &format!("DELETE {JOBS}/ctr"),
        json!({"kind": "Status", "status": "Success"}),
    );
    let mut told = Vec::new();
    let made = submit(
        &cluster,
        &target(),
        &objects(),
        ApplyMode::Real,
        Again::Replace,
        &mut |line| told.push(line),
    )
    .await;
    assert!(matches!(made, Ok(Submitted::New(_))), "{made:?}");
    assert_eq!(told, ["job.batch \"ctr\" deleted"]);
    let asked = server.asked();
    let place = |start: &str| {
        asked
            .iter()
            .position(|asked| asked.starts_with(start))
            .unwrap()
    };
    assert!(place("DELETE") < place("PATCH"), "{asked:#?}");
}

#[tokio::test]
async fn refusals_are_typed_and_passed_on_in_the_words_of_the_cluster() {
    let (server, cluster) = Server::start().await;
    server.refuses(
        SECRET,
        403,
        "Forbidden",
        "secrets \"ctr\" is forbidden: User \"me\" cannot patch",
    );
    let error = submitted(&cluster, ApplyMode::Real, Again::Compare)
        .await
        .unwrap_err();
    assert!(error.is_forbidden());
    assert_eq!(
        error.to_string(),
        "apply secret ctr: secrets \"ctr\" is forbidden: User \"me\" cannot patch; name a namespace that is yours with -n, or have these rights given to you (deploy/role.yaml has all that are needed)"
    );
    server.refuses(
        SECRET,
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"kubectl\": .data.token",
    );
    let error = submitted(&cluster, ApplyMode::Real, Again::Compare)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClusterError::Taken { .. })
            && error.to_string().contains("\"kubectl\": .data.token"),
        "{error}"
    );
    server.refuses(GET, 401, "Unauthorized", "Unauthorized");
    let error = cluster.job(&target()).await.unwrap_err();
    assert!(matches!(error, ClusterError::Expired { .. }), "{error}");
    server.says(GET, json!([]));
    let error = cluster.job(&target()).await.unwrap_err();
    assert!(matches!(error, ClusterError::Broken { .. }), "{error}");
    let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no", "details": {"kind": "namespaces", "name": "team"}});
    server
        .answers(SECRET, 404, None, missing)
        .refuses(GET, 404, "NotFound", "no");
    let error = submitted(&cluster, ApplyMode::Real, Again::Compare)
        .await
        .unwrap_err();
    assert!(error.is_missing_namespace(), "{error}");
}

#[tokio::test]
async fn status_joins_job_pods_and_events_and_does_without_what_is_forbidden() {
    let (server, cluster) = Server::start().await;
    server.says(GET, job(3));
    let event = |name: &str| json!({"metadata": {}, "reason": "FailedCreate", "message": "exceeded quota: team", "involvedObject": {"kind": "Job", "name": name}});
    let events = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [event("ctr"), event("ctr2"), event("other")]});
    server.says("GET /api/v1/namespaces/team/events", events);
    server.refuses("GET /api/v1/nodes", 403, "Forbidden", "nodes is forbidden");
    let observed = cluster.observe(&target()).await.unwrap();
    assert_eq!(observed.events.len(), 1);
    assert!(observed.machines.is_none());
    let diagnosis = diagnose(&observed);
    assert_eq!(diagnosis.state, JobState::Starting);
    assert!(
        diagnosis.findings[0]
            .to_string()
            .contains("quota is used up"),
        "{diagnosis:?}"
    );
    server.refuses(
        "GET /api/v1/namespaces/team/events",
        403,
        "Forbidden",
        "events is forbidden",
    );
    assert!(cluster.observe(&target()).await.unwrap().events.is_empty());
    server.refuses(
        "GET /api/v1/namespaces/team/pods",
        403,
        "Forbidden",
        "pods is forbidden",
    );
    assert!(cluster.observe(&target()).await.unwrap_err().is_forbidden());
}

#[tokio::test]
async fn delete_takes_only_the_jobs_own_and_keeps_the_volume_unless_told() {
    let (server, cluster) = Server::start().await;
    cluster
        .delete(&target(), DeleteScope::KeepVolume, &mut |_| {})
        .await
        .unwrap();
    assert!(
        server
            .asked()
            .iter()
            .all(|asked| asked.contains("managed-by%3Dcanoe") && asked.contains("instance%3Dctr"))
    );
    assert!(!server.has_asked("GET /api/v1/persistentvolumes"));
    cluster
        .delete(&target(), DeleteScope::WithVolume, &mut |_| {})
        .await
        .unwrap();
    assert!(server.has_asked("GET /api/v1/persistentvolumes"));
    assert!(!server.has_asked("DELETE"));
}

#[tokio::test]
async fn nobody_at_home_is_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    // A port of this machine that was free a moment ago.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let access = ClusterAccess {
        kubeconfigs: vec![config],
        context: None,
        request_timeout: Duration::from_secs(30),
        program: None,
    };
    let error = access
        .connect()
        .await
        .unwrap()
        .job(&target())
        .await
        .unwrap_err();
    assert!(matches!(error, ClusterError::Unreachable { .. }) && error.may_pass());
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "the API server http://127.0.0.1:{port} cannot be reached: Connection refused"
        )),
        "{text}"
    );
}
