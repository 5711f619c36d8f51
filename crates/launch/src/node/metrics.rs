//! The numbers of all processes of a node at one address, for a Prometheus in the cluster.
//!
//! Server and trainer serve `/metrics` on loopback, on ports that nobody outside knows. A node that is told a port
//! (`--metrics_port`) reads both and hands them on, with one line of its own for each process. It only reads, has no other
//! page, and no number tells a secret. Who may come is the NetworkPolicy's matter.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::health::{listen, request_path};
use crate::event::{ProcessId, Role};
use crate::local::probe;

/// A process that does not tell its numbers in this time is left out.
const ANSWER: Duration = Duration::from_secs(2);
/// A page larger than this is not one of ours.
const LARGEST: u64 = 16 << 20;

/// What is scraped. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Scrape(Arc<Mutex<Vec<(ProcessId, u16)>>>);

impl Scrape {
    /// From now on the node consists of these processes, with their loopback ports.
    pub fn of(&self, processes: Vec<(ProcessId, u16)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = processes;
    }

    /// Serves `/metrics` on all addresses in a thread of its own, until the process ends.
    pub fn serve(&self, job: &str, port: u16) -> io::Result<u16> {
        let listener = listen(port)?;
        let port = listener.local_addr()?.port();
        let (scrape, job) = (self.clone(), job.to_owned());
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // Who goes away before the answer does not want it.
                    drop(scrape.answer(stream, &job));
                }
            })?;
        Ok(port)
    }

    fn answer(&self, mut stream: TcpStream, job: &str) -> io::Result<()> {
        let (status, body) = match request_path(&mut stream)?.as_str() {
            "/metrics" => ("200 OK", self.page(job)),
            _ => ("404 Not Found", "there is /metrics\n".to_owned()),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    fn page(&self, job: &str) -> String {
        let processes = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let told: Vec<(ProcessId, Option<String>)> = processes
            .into_iter()
            .map(|(process, port)| {
                let page = probe::fetch_page(port, "/metrics", (ANSWER, LARGEST)).ok();
                let text = page.and_then(|page| String::from_utf8(page).ok());
                (process, text)
            })
            .collect();
        join(job, &told)
    }
}

/// One page of what the processes told; nothing of those that did not.
fn join(job: &str, told: &[(ProcessId, Option<String>)]) -> String {
    let mut text =
        "# HELP canoe_node_up 1 while a process of the node runs.\n# TYPE canoe_node_up gauge\n"
            .to_owned();
    for (process, page) in told {
        let role = match process.role {
            Role::Pserver => "pserver",
            Role::Trainer => "trainer",
        };
        let up = u8::from(page.is_some());
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "canoe_node_up{{name=\"{job}\",node=\"{}\",role=\"{role}\"}} {up}",
            process.node
        );
    }
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
    use std::net::TcpListener;

    use super::super::health::tests::get;
    use super::*;

    #[test]
    fn all_processes_at_one_address() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (alive, gone) = (server.local_addr().unwrap().port(), {
            let closed = TcpListener::bind("127.0.0.1:0").unwrap();
            closed.local_addr().unwrap().port()
        });
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            assert_eq!(request_path(&mut stream).unwrap(), "/metrics");
            write!(stream, "HTTP/1.0 200 OK\r\n\r\ncanoe_pserver_step 7").unwrap();
        });
        let scrape = Scrape::default();
        let port = scrape.serve("ctr", 0).unwrap();
        scrape.of(vec![
            (ProcessId::pserver(1), alive),
            (ProcessId::trainer(1), gone),
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
