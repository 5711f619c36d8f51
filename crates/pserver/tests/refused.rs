//! What can never succeed ends a trainer at once, with the reason and what to do: certificates, TLS on one side only,
//! tokens, versions. (If it did not, these trainers would try again until their time for joining is over, and end with
//! another error.)
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::Server;
use std::io::Write;
use std::net::TcpListener;
use support::authority::Authority;
use support::{Job, LOCALHOST, free_ports, quiet};
use wire::tls::{ClientTls, Identity, SERVER_NAME, ServerTls};
use wire::{Error, Session, SessionConfig, Token};

fn job() -> Job {
    Job {
        servers: 1,
        passes: 1,
        ..Job::new(&[3])
    }
}

/// A server with this certificate, or without TLS.
fn server(tls: Option<(&Identity, &Authority)>) -> (Server, u16) {
    for _ in 0..50 {
        let port = free_ports(1);
        let mut config = job().server_config(port, None);
        config.tls = tls.map(|(own, clients)| ServerTls::new(own, Some(&clients.pem)).unwrap());
        if let Ok(server) = Server::start(config, quiet()) {
            return (server, port);
        }
    }
    panic!("no free port");
}

#[track_caller]
fn rejected(config: SessionConfig, words: &[&str]) {
    match Session::connect(config, job().spec()) {
        Err(Error::Rejected { text, .. }) => {
            for word in words {
                assert!(text.contains(word), "{text}");
            }
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is let in"),
    }
}

fn client(port: u16, tls: Option<(&Authority, Option<&Identity>)>) -> SessionConfig {
    let tls = tls.map(|(ca, own)| ClientTls::new(&ca.pem, SERVER_NAME, own).unwrap());
    SessionConfig {
        tls,
        ..job().client_config(0, &[port])
    }
}

#[test]
fn certificates_that_do_not_fit() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let trainer = ours.issue("trainer");
    let trusted = Some((&ours, Some(&trainer)));
    let good = ours.issue(SERVER_NAME);

    let (_server, port) = server(Some((&theirs.issue(SERVER_NAME), &ours)));
    rejected(client(port, trusted), &["not signed by", "--tls_ca"]);
    let (_server, port) = server(Some((&ours.issue("localhost"), &ours)));
    rejected(client(port, trusted), &["DNS:pserver"]);
    let (_server, port) = server(Some((&ours.issue_until(SERVER_NAME, 2001), &ours)));
    rejected(client(port, trusted), &["expired"]);

    let (_server, port) = server(Some((&good, &ours)));
    let foreign = theirs.issue("trainer");
    let asks = ["refuses the TLS connection", "--tls_cert"];
    rejected(client(port, Some((&ours, Some(&foreign)))), &asks);
    rejected(client(port, Some((&ours, None))), &asks);
}

#[test]
fn tls_on_one_side_only() {
    let ours = Authority::new();
    let (own, trainer) = (ours.issue(SERVER_NAME), ours.issue("trainer"));
    let (_server, port) = server(Some((&own, &ours)));
    rejected(client(port, None), &["speaks TLS only", "--tls_ca"]);
    let (_server, port) = server(None);
    let tls = Some((&ours, Some(&trainer)));
    rejected(client(port, tls), &["does not speak TLS", "--tls_cert"]);
}

#[test]
fn another_token_and_another_version() {
    let (_server, port) = server(None);
    let mut config = client(port, None);
    config.token = Token::new(b"another secret").unwrap();
    rejected(config, &["wrong job token", "CANOE_JOB_TOKEN"]);

    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 32];
            head[..5].copy_from_slice(b"CANO\x09");
            let _ = stream.write_all(&head);
            // Until the other side has read it.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    rejected(client(port, None), &["version 9", "same canoe"]);
}
