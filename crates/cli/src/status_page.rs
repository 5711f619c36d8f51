//! The small web server of every process: `/status` (JSON), `/metrics` (Prometheus text), `/healthz`.
//!
//! Runs on its own thread, on loopback, and only calls closures for text, so training never waits for a reader. Many
//! clients cannot exhaust it ([`run::http`]), and pages of other sites cannot direct a browser here.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use run::http::{self, HttpRequest, HttpResponse};
use words::status::Status;

/// What the pages show, computed for each request.
pub(crate) trait Pages: Send + Sync + 'static {
    /// The status of the process.
    fn status(&self) -> Status;
    /// All metrics in Prometheus' text form.
    fn metrics(&self) -> String;
    /// What is wrong with the process, if anything is.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Serves `pages` on a loopback port until the process ends.
pub(crate) fn serve(port: u16, pages: Arc<dyn Pages>) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address)
        .with_context(|| format!("--status_port={port}: listen on {address}"))?;
    http::serve("status", listener, move |request| page(&*pages, request))?;
    Ok(())
}

fn page(pages: &dyn Pages, request: &HttpRequest) -> HttpResponse {
    let foreign = request.host.as_deref();
    if foreign.is_some_and(|host| !http::is_loopback_name(host)) {
        return HttpResponse::text(
            "403 Forbidden",
            "this page is only served on the machine it runs on, as 127.0.0.1 or localhost\n",
        );
    }
    match request.path.as_str() {
        "/healthz" => match pages.health() {
            Ok(()) => HttpResponse::text("200 OK", "ok\n"),
            Err(wrong) => HttpResponse::text("503 Service Unavailable", wrong + "\n"),
        },
        // Plain data always serialises.
        "/status" => HttpResponse {
            status: "200 OK",
            kind: "application/json",
            body: serde_json::to_string(&pages.status()).unwrap_or_default(),
        },
        "/metrics" => HttpResponse::text("200 OK", pages.metrics()),
        _ => HttpResponse::text(
            "404 Not Found",
            "this server has /healthz, /status and /metrics\n",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sick;

    impl Pages for Sick {
        fn status(&self) -> Status {
            Status::default()
        }

        fn metrics(&self) -> String {
            "canoe_x 1\n".to_owned()
        }

        fn health(&self) -> Result<(), String> {
            Err("no step for 1900 s".to_owned())
        }
    }

    fn asked(path: &str, host: Option<&str>) -> HttpResponse {
        let request = HttpRequest {
            path: path.to_owned(),
            host: host.map(str::to_owned),
        };
        page(&Sick, &request)
    }

    #[test]
    fn a_page_of_another_site_gets_nothing_and_a_sick_process_says_so() {
        assert_eq!(
            asked("/metrics", Some("evil.example:80")).status,
            "403 Forbidden"
        );
        for host in [None, Some("localhost:7"), Some("127.0.0.1:7")] {
            assert_eq!(asked("/metrics", host).body, "canoe_x 1\n");
        }
        let health = asked("/healthz", None);
        assert!(health.status.starts_with("503"), "{health:?}");
        assert!(asked("/", None).status.starts_with("404"));
    }
}
