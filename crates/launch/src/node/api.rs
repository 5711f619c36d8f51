//! The one request of `podlist`: the pods of this job, from the API server, over verified TLS.
//!
//! v1 sent its token to whoever answered. Here the server must show a certificate of the cluster's
//! authority. One small GET does not need a client library.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::discover::PodList;
use super::patience::NotYet;

/// Where Kubernetes puts a pod's token and the cluster's authority.
pub const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A list of pods larger than this is not one of a job.
const LARGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// The API server, as a pod sees it.
#[derive(Debug)]
pub struct ApiServer {
    /// Address from the environment.
    pub host: String,
    /// Port from the environment.
    pub port: u16,
    /// Folder with `token` and `ca.crt`.
    pub account_dir: std::path::PathBuf,
    /// Limit for each step of a request.
    pub timeout: Duration,
}

impl ApiServer {
    /// The pods of a Job. What may go better later is told apart from what never will.
    pub fn pods(&self, namespace: &str, job_name: &str) -> Result<PodList, NotYet> {
        let token = self.account_file("token")?;
        let authority = self.account_file("ca.crt")?;
        let path =
            format!("/api/v1/namespaces/{namespace}/pods?labelSelector=job-name%3D{job_name}");
        let answer = self
            .get(&path, token.trim(), authority.as_bytes())
            .map_err(|error| NotYet::Later(self.trouble(&error)))?;
        let (status, body) = split_answer(&answer)
            .ok_or_else(|| NotYet::Later("the API server's answer is not HTTP".to_owned()))?;
        judge(status, namespace)?;
        serde_json::from_slice(&body).map_err(|error| {
            NotYet::Later(format!(
                "the API server's answer is not a list of pods: {error}"
            ))
        })
    }

    fn trouble(&self, error: &io::Error) -> String {
        let (host, port) = (&self.host, self.port);
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("{host}:{port} does not answer within {:?}", self.timeout)
            }
            _ => format!("ask {host}:{port}: {error}"),
        }
    }

    fn account_file(&self, name: &str) -> Result<String, NotYet> {
        let path = self.account_dir.join(name);
        fs::read_to_string(&path).map_err(|error| no_account(&path, &error))
    }

    fn get(&self, path: &str, token: &str, authority: &[u8]) -> io::Result<Vec<u8>> {
        let address = (self.host.as_str(), self.port)
            .to_socket_addrs()?
            .next()
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let connection =
            ClientConnection::new(Arc::new(client(authority)?), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: {host}:{}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        match stream.take(LARGEST_ANSWER).read_to_end(&mut answer) {
            // Some servers close without TLS's goodbye; the length of the body is checked by its JSON.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(answer),
        }
    }
}

fn no_account(path: &Path, error: &io::Error) -> NotYet {
    NotYet::Never(format!(
        "{} cannot be read ({error}); podlist needs a service account; a job with `discovery: podlist` in its job.yaml has one",
        path.display()
    ))
}

fn client(authority: &[u8]) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots
            .add(certificate.map_err(io::Error::other)?)
            .map_err(io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// What a status of the API server means.
fn judge(status: u16, namespace: &str) -> Result<(), NotYet> {
    match status {
        200 => Ok(()),
        401 => Err(NotYet::Never(
            "the API server does not accept this pod's token (401)".to_owned(),
        )),
        403 => Err(NotYet::Never(format!(
            "the service account may not list pods in namespace {namespace} (403); it needs a Role with verb list on pods"
        ))),
        429 => Err(NotYet::Later("the API server is busy (429)".to_owned())),
        status => Err(NotYet::Later(format!("the API server answers {status}"))),
    }
}

/// Status and body of an HTTP answer; a chunked body is put together.
fn split_answer(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()?
        .strip_prefix("HTTP/1.")?
        .get(2..5)?
        .parse()
        .ok()?;
    let body = &answer[end + 4..];
    let is_chunked =
        lines.any(|line| line.to_ascii_lowercase().replace(' ', "") == "transfer-encoding:chunked");
    Some((
        status,
        if is_chunked {
            join_chunks(body)?
        } else {
            body.to_vec()
        },
    ))
}

fn join_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line_end = body.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&body[..line_end])
            .ok()?
            .split(';')
            .next()?
            .trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        body = &body[line_end + 2..];
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(..size)?);
        body = body.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    /// An API server that gives one answer, and the folder of an account that trusts it.
    fn serve(answer: &'static [u8]) -> (ApiServer, tempfile::TempDir, thread::JoinHandle<String>) {
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
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    return String::new();
                }
                request.extend(byte);
            }
            stream.write_all(answer).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            String::from_utf8(request).unwrap()
        });
        let api = ApiServer {
            host: "127.0.0.1".into(),
            port,
            account_dir: account.path().into(),
            timeout: Duration::from_secs(10),
        };
        (api, account, server)
    }

    #[test]
    fn pods_are_asked_for_with_the_token_and_read() {
        let (api, _account, server) = serve(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"items\":[{}\r\n2\r\n]}\r\n0\r\n\r\n");
        assert!(api.pods("default", "ctr").is_ok());
        let request = server.join().unwrap();
        assert!(
            request.starts_with(
                "GET /api/v1/namespaces/default/pods?labelSelector=job-name%3Dctr HTTP/1.0\r\n"
            ),
            "{request}"
        );
        assert!(request.contains("Authorization: Bearer let-me-in\r\n"));
    }

    #[test]
    fn a_refusal_is_final_and_a_disturbance_is_not() {
        for (answer, never, word) in [
            (
                &b"HTTP/1.1 403 Forbidden\r\n\r\n{}"[..],
                true,
                "verb list on pods",
            ),
            (b"HTTP/1.1 401 Unauthorized\r\n\r\n{}", true, "token"),
            (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", false, "busy"),
            (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", false, "500"),
            (b"HTTP/1.1 200 OK\r\n\r\nnonsense", false, "not a list"),
            (b"nonsense", false, "not HTTP"),
            (b"", false, "not HTTP"),
        ] {
            let (api, _account, _server) = serve(answer);
            let error = api.pods("default", "ctr").unwrap_err();
            let (is_never, text) = match error {
                NotYet::Never(text) => (true, text),
                NotYet::Later(text) => (false, text),
            };
            assert!(is_never == never && text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_server_that_the_cluster_does_not_know_gets_no_token() {
        let (api, account, server) = serve(b"HTTP/1.1 200 OK\r\n\r\n{}");
        let stranger = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(account.path().join("ca.crt"), stranger.cert.pem()).unwrap();
        assert!(
            matches!(api.pods("default", "ctr"), Err(NotYet::Later(text)) if text.contains("certificate"))
        );
        assert_eq!(server.join().unwrap(), "");
    }

    #[test]
    fn without_a_service_account_there_is_no_point_in_waiting() {
        let api = ApiServer {
            host: "127.0.0.1".into(),
            port: 1,
            account_dir: "/nowhere".into(),
            timeout: Duration::from_secs(1),
        };
        assert!(
            matches!(api.pods("default", "ctr"), Err(NotYet::Never(text)) if text.contains("service account"))
        );
    }

    #[test]
    fn a_server_that_hangs_is_left() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let account = tempfile::tempdir().unwrap();
        fs::write(account.path().join("token"), "x").unwrap();
        fs::write(account.path().join("ca.crt"), "").unwrap();
        let port = listener.local_addr().unwrap().port();
        let api = ApiServer {
            host: "127.0.0.1".into(),
            port,
            account_dir: account.path().into(),
            timeout: Duration::from_millis(50),
        };
        assert!(
            matches!(api.pods("default", "ctr"), Err(NotYet::Later(text)) if text.ends_with("does not answer within 50ms"))
        );
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(answer in proptest::collection::vec(0u8.., 0..200), chunked: bool) {
            let mut whole = b"HTTP/1.1 200 OK\r\n".to_vec();
            if chunked { whole.extend_from_slice(b"Transfer-Encoding: chunked\r\n"); }
            whole.extend_from_slice(b"\r\n");
            whole.extend(&answer);
            split_answer(&whole);
            split_answer(&answer);
        }
    }
}
