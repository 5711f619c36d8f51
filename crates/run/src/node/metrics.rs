//! The metrics of all processes of a node at one address, for a Prometheus in the cluster.
//!
//! Server and trainer serve `/metrics` on loopback, on ports that are not known outside the pod. A node with
//! `--metrics_port` serves both pages together on that port, with one line of its own per process. It only reads, has no
//! other page, and no metric reveals a secret. The NetworkPolicy decides which pods may connect.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use words::lock::Mutex;

use super::health::listen;
use crate::http::{self, HttpResponse};
use words::metrics::{Exposition, MetricKind};
use words::process::{ProcessId, Role};

/// A process that does not return its metrics in this time is left out.
const ANSWER: Duration = Duration::from_secs(2);

/// The status pages to scrape. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scrape(Arc<Mutex<Vec<StatusPage>>>);

/// Where a process serves its status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusPage {
    pub(crate) process: ProcessId,
    /// On loopback.
    pub(crate) port: u16,
}

impl Scrape {
    /// Sets the pages of the node's present processes.
    pub(crate) fn of(&self, pages: Vec<StatusPage>) {
        *self.0.lock() = pages;
    }

    /// Serves `/metrics` on all addresses in a thread of its own, until the process ends.
    pub(crate) fn serve(&self, job: &str, port: u16) -> io::Result<u16> {
        let listener = listen(port)?;
        let port = listener.local_addr()?.port();
        let (scrape, job) = (self.clone(), job.to_owned());
        http::serve("metrics", listener, move |request| {
            match request.path.as_str() {
                "/metrics" => HttpResponse::text("200 OK", scrape.page(&job)),
                _ => HttpResponse::text("404 Not Found", "this server has only /metrics\n"),
            }
        })?;
        Ok(port)
    }

    fn page(&self, job: &str) -> String {
        let pages = self.0.lock().clone();
        let metrics = |port| http::get_local(port, "/metrics", ANSWER).ok();
        let told: Vec<(ProcessId, Option<String>)> = pages
            .into_iter()
            .map(|page| (page.process, metrics(page.port)))
            .collect();
        join(job, &told)
    }
}

/// One page with the metrics of all processes that returned theirs.
fn join(job: &str, told: &[(ProcessId, Option<String>)]) -> String {
    let mut exposition = Exposition::default();
    let mut up = exposition.metric(
        "canoe_node_up",
        MetricKind::Gauge,
        "1 while a process of the node runs.",
    );
    for (process, page) in told {
        let role = match process.role {
            Role::Pserver => "pserver",
            Role::Trainer => "trainer",
        };
        let labels = [
            ("name", job),
            ("node", &process.node.to_string()),
            ("role", role),
        ];
        up.value(&labels, f64::from(u8::from(page.is_some())));
    }
    let mut text = exposition.into_text();
    for page in told.iter().filter_map(|(_, page)| page.as_deref()) {
        text.push_str(page);
        if !page.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::http::tests::get;

    #[test]
    fn all_processes_at_one_address() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (alive, gone) = (server.local_addr().unwrap().port(), {
            let closed = TcpListener::bind("127.0.0.1:0").unwrap();
            closed.local_addr().unwrap().port()
        });
        std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            assert!(request.starts_with(b"GET /metrics "));
            write!(stream, "HTTP/1.0 200 OK\r\n\r\ncanoe_pserver_step 7").unwrap();
        });
        let scrape = Scrape::default();
        let port = scrape.serve("ctr", 0).unwrap();
        scrape.of(vec![
            StatusPage {
                process: ProcessId::pserver(1),
                port: alive,
            },
            StatusPage {
                process: ProcessId::trainer(1),
                port: gone,
            },
        ]);
        let page = get(port, "/metrics");
        assert!(page.starts_with("HTTP/1.0 200 OK\r\n"), "{page}");
        for line in [
            "canoe_node_up{name=\"ctr\",node=\"1\",role=\"pserver\"} 1\n",
            "canoe_node_up{name=\"ctr\",node=\"1\",role=\"trainer\"} 0\n",
            "\ncanoe_pserver_step 7\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert!(get(port, "/status").starts_with("HTTP/1.0 404"));
    }
}
