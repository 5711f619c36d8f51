//! Errors of an object store, each with the remedy.

use crate::location::Location;

/// Why a request to an object store failed.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum S3Error {
    /// No credentials were found in the environment, the profile or the pod.
    #[error(
        "there are no credentials for S3 ({reason}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; in a pod, give its service account a role (Pod Identity or IRSA)"
    )]
    NoCredentials { reason: String },
    /// The bucket does not exist.
    #[error("{location}: there is no bucket {} at {endpoint}", .location.bucket)]
    NoBucket {
        /// What was asked for.
        location: Box<Location>,
        endpoint: String,
    },
    /// The object does not exist.
    #[error("{location}: there is no such object")]
    NoObject { location: Box<Location> },
    /// The keys are wrong or expired, or their owner lacks a right.
    #[error("{location}: {endpoint} refuses access as {key} ({code}{}); {}", said(.message), .way_out)]
    Denied {
        /// What was asked for.
        location: Box<Location>,
        /// By whom.
        endpoint: String,
        /// The access key, shortened.
        key: String,
        /// The server's word.
        code: String,
        /// The server's sentence.
        message: String,
        /// What to look at.
        way_out: &'static str,
    },
    /// Another version of the object replaced it between two reads.
    #[error("{location} has changed while it was read")]
    Changed { location: Box<Location> },
    /// Any other refusal.
    #[error("{location}: {endpoint} replied with {status} {code}{}", said(.message))]
    Refused {
        /// What was asked for.
        location: Box<Location>,
        /// By whom.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// The server's word.
        code: String,
        /// The server's sentence.
        message: String,
    },
    /// No reply arrived, or the connection broke during one.
    #[error("{location}: {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// What was asked for.
        location: Box<Location>,
        endpoint: String,
        reason: String,
    },
    /// A reply that is not S3's.
    #[error("{location}: {endpoint} does not speak S3: {reason}")]
    Strange {
        /// What was asked for.
        location: Box<Location>,
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

impl S3Error {
    /// The same error with the location that the user named: a prefix is listed by a request about its bucket.
    pub(crate) fn about(mut self, asked: &Location) -> Self {
        match &mut self {
            Self::NoCredentials { .. } => {}
            Self::NoBucket { location, .. }
            | Self::NoObject { location }
            | Self::Denied { location, .. }
            | Self::Changed { location }
            | Self::Refused { location, .. }
            | Self::Unreachable { location, .. }
            | Self::Strange { location, .. } => **location = asked.clone(),
        }
        self
    }

    /// Whether the same request may succeed a little later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }
}
