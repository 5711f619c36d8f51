//! The request of `podlist` against servers that answer, refuse, lie and hang.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// An API server that gives one response, and the options of an account that trusts it.
fn serve(answer: &'static str) -> (PodsOptions, tempfile::TempDir, thread::JoinHandle<String>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let account = tempfile::tempdir().unwrap();
    fs::write(account.path().join("ca.crt"), cert.pem()).unwrap();
    fs::write(account.path().join("token"), "let-me-in\n").unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                return String::new();
            }
            request.extend(byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        String::from_utf8(request).unwrap()
    });
    (options(port, account.path()), account, server)
}

fn options(port: u16, account_dir: &Path) -> PodsOptions {
    PodsOptions {
        host: "127.0.0.1".into(),
        port,
        namespace: "default".into(),
        job: "ctr".into(),
        account_dir: account_dir.into(),
    }
}

#[test]
fn pods_are_asked_for_with_the_token_and_read() {
    let (options, _account, server) = serve(concat!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a","deletionTimestamp":"2026-11-15T00:00:00Z"},"#,
        r#""status":{"phase":"Running","podIP":"10.0.0.9"}}]}"#
    ));
    let pods = InCluster.pods(&options).unwrap();
    let expected = ListedPod {
        name: "a".into(),
        phase: "Running".into(),
        ip: Some("10.0.0.9".into()),
        is_ending: true,
    };
    assert_eq!(pods, [expected]);
    let request = server.join().unwrap().to_ascii_lowercase();
    assert!(
        request.starts_with("get /api/v1/namespaces/default/pods?"),
        "{request}"
    );
    assert!(
        request.contains("labelselector=job-name%3dctr"),
        "{request}"
    );
    assert!(
        request.contains("authorization: bearer let-me-in\r\n"),
        "{request}"
    );
}

#[test]
fn a_refusal_is_final_and_a_disturbance_is_not() {
    for (answer, never, word) in [
        (
            "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403}",
            true,
            "verb list on pods",
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Unauthorized\",\"code\":401}",
            true,
            "token",
        ),
        (
            "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n",
            false,
            "500",
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nnonsense",
            false,
            "",
        ),
        ("nonsense", false, ""),
        ("", false, ""),
    ] {
        let (options, _account, _server) = serve(answer);
        let (is_never, text) = match InCluster.pods(&options).unwrap_err() {
            NotYet::Never(text) => (true, text),
            NotYet::Later(text) => (false, text),
        };
        assert!(is_never == never && text.contains(word), "{answer}: {text}");
    }
}

#[test]
fn a_server_that_the_cluster_does_not_know_gets_no_token() {
    let (options, account, server) = serve("HTTP/1.1 200 OK\r\n\r\n{}");
    let stranger = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(account.path().join("ca.crt"), stranger.cert.pem()).unwrap();
    let refused = InCluster.pods(&options);
    assert!(
        matches!(&refused, Err(NotYet::Later(text)) if text.contains("certificate")),
        "{refused:?}"
    );
    assert_eq!(server.join().unwrap(), "");
}

/// What the TLS library said was passed on as a connection that may be made later.
#[tokio::test]
async fn a_wrong_certificate_is_told_from_a_server_that_is_away() {
    let (mut wish, account, server) = serve("");
    let stranger = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(account.path().join("ca.crt"), stranger.cert.pem()).unwrap();
    let list = async |wish: &PodsOptions| {
        let cluster = Cluster::new(config(wish).unwrap(), TIMEOUT).unwrap();
        cluster.list::<Pod>("default", "").await.unwrap_err()
    };
    let error = list(&wish).await;
    assert!(matches!(error, ClusterError::Untrusted { .. }), "{error:?}");
    assert!(
        !error.may_pass() && error.to_string().contains("certificate"),
        "{error}"
    );
    server.join().unwrap();
    wish.port = 1;
    let error = list(&wish).await;
    assert!(
        matches!(error, ClusterError::Unreachable { .. }) && error.may_pass(),
        "{error:?}"
    );
}

#[test]
fn without_a_service_account_there_is_no_point_in_waiting() {
    let nowhere = options(1, Path::new("/nowhere"));
    let refused = InCluster.pods(&nowhere);
    assert!(matches!(refused, Err(NotYet::Never(text)) if text.contains("service account")));
}

#[tokio::test]
async fn a_server_that_hangs_is_left() {
    let (mut hanging, _account, _server) = serve("");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    hanging.port = listener.local_addr().unwrap().port();
    let refused = ask(&hanging, Duration::from_millis(50)).await;
    assert!(
        matches!(&refused, Err(NotYet::Later(text)) if text.contains("has not responded")),
        "{refused:?}"
    );
}
