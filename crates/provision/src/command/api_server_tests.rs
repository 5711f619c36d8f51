//! What `up`, `upgrade` and `down` ask the cluster itself, against an API server in memory.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api_server::{ApiServer, ApiServerError};
use super::down::{DownOptions, down};
use super::roll;
use super::tests::{ID, PACE, TalkRecorder, down_options, owned, run_up, spec};
use crate::assets::AssetFolder;
use crate::double::Double;
use crate::double::api_server::{ApiDouble, node_info};
use crate::kubeconfig::{self, ApiEndpoint};
use crate::spec::{ClusterSpec, ControlPlaneMode};

const MINUTE: Duration = Duration::from_secs(60);

fn node(version: &str, machine: &str) -> Value {
    json!({
        "metadata": {"name": machine, "uid": machine},
        "spec": {"providerID": format!("aws:///us-west-2a/{machine}")},
        "status": {"nodeInfo": node_info(&format!("v{version}.1")), "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pod(name: &str, machine: &str, owner: Option<&str>) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": machine, "containers": [{"name": "node"}]},
        "status": {"phase": "Running"},
    });
    if let Some(kind) = owner {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    }
    pod
}

async fn waited(api: &ApiServer, patience: Duration) -> (Result<(), ApiServerError>, String) {
    let mut sink = TalkRecorder::default();
    let waited = api.wait_for_nodes(1, patience, PACE.poll, &mut sink).await;
    (waited, sink.text())
}

/// `up` repeated what could not succeed every five seconds for a quarter of an hour.
#[tokio::test]
async fn what_waiting_does_not_mend_is_told_at_once_with_the_way_out() {
    for (code, reason, words) in [
        (401, "Unauthorized", "controlPlane.access"),
        (403, "Forbidden", "another level in controlPlane.access"),
        (404, "NotFound", "list nodes: the server says 404"),
    ] {
        let server = ApiDouble::start().await;
        server.refuses(code, reason);
        let (error, said) = waited(&server.api(), MINUTE).await;
        let Err(ApiServerError::Permanent(text)) = error else {
            panic!("{code}: {error:?}")
        };
        assert!(text.contains(words) && !text.contains('\n'), "{text}");
        assert_eq!((server.asked().len(), said.as_str()), (1, ""));
    }
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("kubeconfig");
    let api = ApiServer::new(config.clone(), "/bin/false".into());
    let permanent = async |content: Option<String>, words: &[&str]| {
        if let Some(content) = content {
            std::fs::write(&config, content).unwrap();
        }
        let begun = Instant::now();
        let (error, _) = waited(&api, MINUTE).await;
        let Err(ApiServerError::Permanent(text)) = error else {
            panic!("{error:?}")
        };
        let all = words.iter().all(|words| text.contains(words));
        assert!(all && begun.elapsed() < MINUTE, "{text}");
    };
    let written = "`canoe cluster kubeconfig` writes it";
    permanent(None, &["there is no", written]).await;
    permanent(
        Some("just words".to_owned()),
        &["is not the kubeconfig of a cluster", written],
    )
    .await;
    let endpoint = ApiEndpoint {
        server: "https://127.0.0.1:1".to_owned(),
        certificate_authority: "Q0E=".to_owned(),
    };
    let whole = kubeconfig::eks(&spec(), &endpoint, "/moved/away/canoe").to_string();
    let words = [
        "login program /bin/false",
        "has failed",
        "aws sts get-caller-identity",
    ];
    permanent(Some(whole), &words).await;
}

#[tokio::test]
async fn a_busy_or_silent_api_server_is_waited_for_and_told_once() {
    let place = tempfile::tempdir().unwrap();
    let (server, config) = (ApiDouble::start().await, place.path().join("kubeconfig"));
    // A port of this machine that was free a moment ago.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let mut silent: Value = serde_json::from_str(&text).unwrap();
    silent["clusters"][0]["cluster"]["server"] = json!(format!("http://127.0.0.1:{port}"));
    std::fs::write(&config, silent.to_string()).unwrap();
    let (error, said) = waited(&ApiServer::new(config, "canoe".into()), PACE.poll * 5).await;
    assert!(
        matches!(
            error,
            Err(ApiServerError::Patience {
                ready: 0,
                wanted: 1,
                ..
            })
        ),
        "{error:?}"
    );
    assert_eq!(
        said.matches("cannot be reached: Connection refused")
            .count(),
        1,
        "{said}"
    );

    server.refuses(500, "InternalError");
    let (waiting, api) = (server.api(), server.api());
    let task = tokio::spawn(async move { waited(&waiting, MINUTE).await });
    while server.asked().len() < 2 {
        tokio::time::sleep(PACE.poll).await;
    }
    server.accepts();
    server.put("/api/v1/nodes/a", node("1.35", "i-a"));
    let (waited, said) = task.await.unwrap();
    waited.unwrap();
    assert!(
        said.contains("not yet: list nodes: the server says 500"),
        "{said}"
    );
    assert_eq!(api.ready_nodes().await.unwrap(), 1);
}

fn self_managed() -> ClusterSpec {
    let mut spec = spec();
    spec.control_plane.mode = ControlPlaneMode::SelfManaged;
    spec.kubernetes_version = "1.35".to_owned();
    spec.workers.count = 1;
    spec
}

/// Two workers, the first of them old, with pods of every kind.
async fn old_worker() -> (Double, ApiDouble) {
    let (cloud, server) = (Double::default(), ApiDouble::start().await);
    cloud.with(|account| account.machines.insert("i-old".to_owned(), owned(ID)));
    server.put("/api/v1/nodes/i-old", node("1.34", "i-old"));
    server.put("/api/v1/nodes/i-new", node("1.35", "i-new"));
    for (name, machine, owner) in [
        ("train-0", "i-old", Some("Job")),
        ("proxy", "i-old", Some("DaemonSet")),
        ("train-1", "i-new", Some("Job")),
    ] {
        let path = format!("/api/v1/namespaces/team/pods/{name}");
        server.put(&path, pod(name, machine, owner));
    }
    (cloud, server)
}

fn terminated(cloud: &Double) -> bool {
    cloud.with(|account| {
        account
            .calls
            .contains(&"terminate_machine i-old".to_owned())
    })
}

#[tokio::test]
async fn an_old_worker_is_closed_emptied_within_budgets_terminated_and_forgotten() {
    let (cloud, server) = old_worker().await;
    server.budget(1);
    let mut sink = TalkRecorder::default();
    roll::workers(&cloud, &server.api(), &self_managed(), PACE.poll, &mut sink)
        .await
        .unwrap();
    let asked = server.asked();
    let changes: Vec<&str> = asked
        .iter()
        .filter(|asked| !asked.starts_with("GET"))
        .map(String::as_str)
        .collect();
    assert_eq!(
        changes,
        [
            "PATCH /api/v1/nodes/i-old",
            "POST /api/v1/namespaces/team/pods/train-0/eviction",
            "POST /api/v1/namespaces/team/pods/train-0/eviction",
            "DELETE /api/v1/nodes/i-old",
        ]
    );
    assert_eq!(
        server.names("/api/v1/namespaces/team/pods/"),
        ["proxy", "train-1"]
    );
    assert!(terminated(&cloud));
    assert!(
        sink.text().contains("worker i-old (1.34) is drained"),
        "{}",
        sink.text()
    );
}

/// Nobody would start it again, so its work would be lost.
#[tokio::test]
async fn a_machine_with_a_pod_of_nobody_is_neither_emptied_nor_terminated() {
    let (cloud, server) = old_worker().await;
    server.put(
        "/api/v1/namespaces/team/pods/by-hand",
        pod("by-hand", "i-old", None),
    );
    let mut sink = TalkRecorder::default();
    let error = roll::workers(&cloud, &server.api(), &self_managed(), PACE.poll, &mut sink).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("machine i-old is not drained: nothing starts team/by-hand again"),
        "{error}"
    );
    assert_eq!(server.names("/api/v1/namespaces/team/pods/").len(), 4);
    assert!(!terminated(&cloud));
}

#[tokio::test]
async fn down_tells_the_models_and_lets_kubernetes_remove_its_load_balancers() {
    let (cloud, place, server) = (
        Double::default(),
        tempfile::tempdir().unwrap(),
        ApiDouble::start().await,
    );
    run_up(&cloud, &spec(), &AssetFolder::new(place.path()))
        .await
        .unwrap();
    server.prints("2048\t./train/output/pass-00000\n");
    let object = |name: &str, more: Value| {
        let mut object = json!({"metadata": {"name": name, "namespace": "team", "uid": name}});
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    let (services, ingresses) = (
        "/api/v1/namespaces/team/services",
        "/apis/networking.k8s.io/v1/namespaces/team/ingresses",
    );
    server.put(
        &format!("{services}/web"),
        object("web", json!({"spec": {"type": "LoadBalancer"}})),
    );
    server.put(
        &format!("{services}/dns"),
        object("dns", json!({"spec": {"type": "ClusterIP"}})),
    );
    server.put(
        &format!("{ingresses}/front"),
        object(
            "front",
            json!({"status": {"loadBalancer": {"ingress": [{"hostname": "x"}]}}}),
        ),
    );
    let options = DownOptions {
        force: false,
        api: Some(server.api()),
        ..down_options(None)
    };
    let mut sink = TalkRecorder::default();
    down(&cloud, &spec(), options, &mut sink).await.unwrap();
    let said = sink.text();
    for words in [
        "train/output: 1 pass, pass-00000 is the last, 2.0 MiB",
        "canoe job get train --kubeconfig",
        "service team/web and its load balancer",
        "ingress team/front and its load balancer",
    ] {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
    assert_eq!(server.names(&format!("{services}/")), ["dns"]);
    assert_eq!(server.names(&format!("{ingresses}/")), Vec::<String>::new());
}
