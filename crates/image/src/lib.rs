//! Container images without Docker: the layers of a stock Python image, and one more with the canoe binary.
//!
//! No container is run and no layer is unpacked: the base's layers are copied unchanged, checked by their digests, and
//! the new image is a manifest that lists them and our layer. The same binary and base give the same image, byte for
//! byte.
//!
//! # Map, in reading order
//!
//! - [`mod@reference`]: names of images.
//! - [`digest`]: SHA-256 of bytes and of readers.
//! - [`layer`]: the binary as a layer.
//! - [`manifest`]: the base's manifest and configuration with our layer added. Pure.
//! - [`login`]: names and passwords from the files of Docker and Podman.
//! - [`registry`]: the distribution protocol.
//! - [`build`]: writes the image to a file or a registry.

pub mod build;
pub mod digest;
pub mod layer;
pub mod login;
mod manifest;
pub mod reference;
pub mod registry;

use std::io;
use std::path::PathBuf;

pub use build::{ImageOptions, to_file, to_registry};
pub use reference::Reference;

/// Why an image cannot be built, read or pushed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ImageError {
    /// The text is not a name of an image.
    #[error(
        "{0:?} is not the name of an image; it has the form [registry/]name[:tag] or [registry/]name@sha256:…"
    )]
    Reference(String),
    /// A file on this machine cannot be read or written.
    #[error("{action} {path}")]
    File {
        /// What was done with it.
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A credential helper of Docker failed.
    #[error("docker-credential-{helper} gives no login for {registry}: {reason}")]
    Helper {
        /// The program.
        helper: String,
        registry: String,
        reason: String,
    },
    /// The registry did not reply.
    #[error("{what}: {registry} cannot be reached: {reason}")]
    Unreachable {
        /// What was asked for.
        what: String,
        registry: String,
        reason: String,
    },
    /// The registry requires a login, or does not accept the stored one.
    #[error(
        "{what}: {registry} wants {}; `docker login {registry}` or `podman login {registry}` stores one where canoe finds it",
        if *.has_login { "another login than the one that is kept for it" } else { "a login" }
    )]
    Login {
        /// What was asked for.
        what: String,
        registry: String,
        /// Whether there was one.
        has_login: bool,
    },
    /// Any other refusal.
    #[error("{what}: {registry} replied with {status}{}", if .message.is_empty() { String::new() } else { format!(": {}", .message) })]
    Refused {
        /// What was asked for.
        what: String,
        registry: String,
        /// HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The base has no image for these processors.
    #[error("{base} has no image for linux/{architecture}; it has {there}")]
    NoPlatform {
        base: String,
        /// The requested architecture.
        architecture: String,
        /// The architectures that it has.
        there: String,
    },
    /// The bytes of a layer or document do not have the expected digest.
    #[error("{what} arrived damaged: it is {got}, not {want}")]
    Damaged {
        what: String,
        /// Its digest.
        got: String,
        /// The one that it should have.
        want: String,
    },
    /// A manifest, configuration or reply cannot be parsed.
    #[error("{what} is not understood: {reason}")]
    Strange { what: String, reason: String },
}
