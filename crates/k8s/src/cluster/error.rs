//! Why a request to the cluster failed, in one sentence with the remedy.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use kube::client::AuthError;
use kube::config::KubeconfigError;
use kube::core::Status;

/// Why a request failed. Code that decides something from the error uses [`ClusterError::status`], never the text.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ClusterError {
    /// None of the files exists.
    #[error(
        "there is no kubeconfig: {} does not exist; set KUBECONFIG or --kubeconfig to yours, or use `canoe job render` and apply its output elsewhere",
        paths(.looked)
    )]
    NoKubeconfig {
        /// The files that were looked for.
        looked: Vec<PathBuf>,
    },
    /// A file cannot be read or does not describe a cluster.
    #[error("read the kubeconfig {path}")]
    Kubeconfig {
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// A file is something else.
    #[error("{path} is not a kubeconfig: {cause}; set KUBECONFIG or --kubeconfig to yours")]
    NotKubeconfig {
        /// The file.
        path: PathBuf,
        /// What the parser says first.
        cause: String,
    },
    /// The kubeconfig has no context of this name, or no current context.
    #[error("{}", no_context(.context, .known))]
    NoContext {
        /// Empty if none is set.
        context: String,
        /// The contexts that exist.
        known: Vec<String>,
    },
    /// The kubeconfig's way to log in does not work.
    #[error("{cause}; {remedy}")]
    Login {
        /// What failed, and how.
        cause: String,
        /// What to do, whatever cluster it is.
        remedy: &'static str,
    },
    /// The server shows a certificate that the kubeconfig's authority has not signed, or not for this name.
    #[error(
        "the API server {server} does not have the expected certificate: {cause}; if it is another cluster's, use the right kubeconfig"
    )]
    Untrusted {
        /// Address of the API server.
        server: String,
        /// What is wrong with the certificate.
        cause: String,
    },
    /// The credentials are not accepted.
    #[error(
        "the API server {server} does not accept your credentials (Unauthorized); they may have expired: log in to the cluster again"
    )]
    Expired {
        /// Address of the API server.
        server: String,
    },
    /// No connection could be made: the name is unknown, or nothing listens at the address.
    #[error(
        "the API server {server} cannot be reached: {cause}; check that the cluster runs and that the kubeconfig is the right one"
    )]
    Unreachable {
        /// Address of the API server.
        server: String,
        /// The innermost cause, such as `Connection refused`.
        cause: String,
    },
    /// The limit for one request has passed.
    #[error("{action}: the API server {server} has not responded within {seconds} s")]
    Slow {
        /// What was asked.
        action: String,
        /// Address of the API server.
        server: String,
        /// The limit.
        seconds: u64,
    },
    /// The API server refused the request; the status has its reason.
    #[error("{action}: {}{}", .status.message, no_right(.status))]
    Refused {
        /// What was asked.
        action: String,
        /// Its response.
        status: Box<Status>,
    },
    /// Anything else: a response that cannot be read, a connection that broke.
    #[error("{action}: {cause}")]
    Broken {
        /// What was asked.
        action: String,
        /// The innermost cause.
        cause: String,
    },
    /// Objects of these names exist, and another field manager owns fields that submit wants to set.
    #[error(
        "objects of the job exist already and were made or changed by somebody else: {message}\nif they are of an earlier job, `canoe job delete` removes \
         them; if not, choose another name"
    )]
    Taken {
        /// The fields and their owners.
        message: String,
    },
    /// A Job of this name exists that was not created by canoe.
    #[error(
        "Job {job} in namespace {namespace} belongs to somebody else: it does not have the labels of a canoe job; choose another name (--name)"
    )]
    NotOurs {
        /// Its name.
        job: String,
        /// Where.
        namespace: String,
    },
    /// A job of this name exists and differs.
    #[error(
        "job {job} exists already and differs:\n  {}\na Job cannot be changed while it exists: submit with --replace to remove it first \
         (data, logs and models stay on the volume), or choose another name",
        .differences.join("\n  ")
    )]
    Differs {
        job: String,
        /// Each with its place.
        differences: Vec<String>,
    },
    /// The job of this name is being deleted.
    #[error(
        "job {job} is being deleted; `{status}` shows what its deletion waits for. Submit again when it is gone, or with --replace, which waits for that"
    )]
    BeingDeleted {
        job: String,
        /// The command that shows it.
        status: String,
    },
    /// A machine is not drained while these pods are on it, because no controller would start them elsewhere.
    #[error(
        "machine {machine} is not drained: nothing starts {} again elsewhere; wait for the end, or delete what is not needed",
        .pods.join(", ")
    )]
    Bare {
        machine: String,
        /// Namespaces and names.
        pods: Vec<String>,
    },
    /// Deleted objects still exist after the time limit.
    #[error("waited {seconds} s, and these are still being deleted: {left}")]
    Stays {
        seconds: u64,
        /// Kinds and names.
        left: String,
    },
}

/// The remedy for a refusal because of a missing right; quotas and policies refuse with the same code.
fn no_right(status: &Status) -> &'static str {
    if status.code == 403 && status.message.contains(" cannot ") {
        "; name a namespace that is yours with -n, or have these rights given to you (deploy/role.yaml has all that are needed)"
    } else {
        ""
    }
}

impl ClusterError {
    /// Chooses the variant for an error of the client.
    pub(super) fn new(action: &str, server: &str, error: kube::Error) -> Self {
        let server = server.to_owned();
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::Expired { server },
            kube::Error::Api(status) => Self::Refused {
                action: action.to_owned(),
                status,
            },
            kube::Error::Auth(source) => Self::login(None, &source),
            kube::Error::Service(source) => match find::<AuthError>(&*source) {
                Some(login) => Self::login(None, login),
                None => Self::no_connection(server, &*source),
            },
            kube::Error::HyperError(source) => Self::Unreachable {
                server,
                cause: innermost(&source),
            },
            other => Self::Broken {
                action: action.to_owned(),
                cause: innermost(&other),
            },
        }
    }

    /// The error for a connection that could not be made.
    fn no_connection(server: String, source: &(dyn Error + 'static)) -> Self {
        match find::<rustls::Error>(source) {
            Some(refused @ rustls::Error::InvalidCertificate(_)) => Self::Untrusted {
                server,
                cause: refused.to_string(),
            },
            _ => Self::Unreachable {
                server,
                cause: innermost(source),
            },
        }
    }

    /// The error for a failed login; `program` is the login program of the kubeconfig, if it is known.
    pub(super) fn login(program: Option<&str>, error: &AuthError) -> Self {
        let name = program.map_or(String::new(), |program| format!(" {program}"));
        let (cause, remedy) = match error {
            AuthError::AuthExecStart(source) if source.kind() == io::ErrorKind::NotFound => (
                format!("the login program{name} of the kubeconfig is not on this machine"),
                "install it, or use a kubeconfig that does not need it",
            ),
            AuthError::AuthExecRun { out, .. } => {
                let said = String::from_utf8_lossy(&out.stderr);
                let last = said.lines().rfind(|line| !line.trim().is_empty());
                let last = last.map_or(String::new(), |line| format!(": {}", line.trim()));
                (
                    format!(
                        "the login program{name} of the kubeconfig has failed ({}){last}",
                        out.status
                    ),
                    "log in to the cluster again",
                )
            }
            other => (
                format!("log in to the cluster: {}", innermost(other)),
                "log in again, or make a new kubeconfig",
            ),
        };
        Self::Login { cause, remedy }
    }

    /// The API server's status, if it responded.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the user lacks a right.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// Whether the requested object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Whether the namespace for an object does not exist.
    pub fn is_missing_namespace(&self) -> bool {
        let of_namespace = |status: &Status| {
            let details = status.details.as_ref();
            status.is_not_found() && details.is_some_and(|details| details.kind == "namespaces")
        };
        self.status().is_some_and(of_namespace)
    }

    /// Whether another try may succeed: the server cannot be reached or is busy, and the request is not at fault.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Slow { .. } | Self::Broken { .. } => true,
            Self::Refused { status, .. } => status.code >= 500 || status.code == 429,
            _ => false,
        }
    }
}

fn paths(looked: &[PathBuf]) -> String {
    let names: Vec<String> = looked
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(" or ")
}

fn no_context(context: &str, known: &[String]) -> String {
    let known = known.join(", ");
    if known.is_empty() {
        "the kubeconfig has no contexts, so it names no cluster; set KUBECONFIG or --kubeconfig to yours".to_owned()
    } else if context.is_empty() {
        format!("the kubeconfig has no current context; choose one with --context: {known}")
    } else {
        format!("the kubeconfig has no context {context:?}; it has: {known}")
    }
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        // The source of an I/O error that carries another error is the source of that one.
        let carried = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    None
}

/// The first cause: the errors around it only name the part of the client that detected it.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
