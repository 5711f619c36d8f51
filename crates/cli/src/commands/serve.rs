//! `canoe serve MODEL`: a trained model over HTTP.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use predict::OpenOptions;
use run::local;
use serve::access::ClientAccess;
use serve::current::ModelOrigin;
use serve::{HttpServer, ServeSettings};

use wire::tls::{Identity, ServerTls};

use super::opening::OpenArgs;
use crate::exit::Exit;

/// The variable with the token that clients have to send if the address is not on loopback.
const TOKEN: &str = "CANOE_SERVE_TOKEN";

/// The default port.
const PORT: u16 = 7273;

/// Arguments of `canoe serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// Address to listen at; by default 127.0.0.1:7273, or a free port if that one is in use. If it is not on loopback,
    /// clients send a token: that of CANOE_SERVE_TOKEN, or a new one that is printed.
    #[arg(long, value_parser = address)]
    address: Option<SocketAddr>,
    /// The server's certificate chain (PEM): serve HTTPS. Without it, nothing is encrypted.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Number of threads that compute; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Samples that may wait; more are refused with status 503.
    #[arg(long, default_value_t = 4096)]
    queue: usize,
    /// The largest body of a request, in bytes.
    #[arg(long, default_value_t = 1 << 20)]
    largest_body: usize,
    /// Seconds between two looks for a newer or better pass of the folder.
    #[arg(long, default_value = "2", value_parser = look_period)]
    look_period: Duration,
}

/// An address, or the name of one with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = |reason: String| format!("{reason}; such as 127.0.0.1:{PORT} is expected");
    let found = text
        .to_socket_addrs()
        .map_err(|error| expected(error.to_string()))?;
    let all: Vec<SocketAddr> = found.collect();
    let fourth = all.iter().find(|address| address.is_ipv4());
    let chosen = fourth.or(all.first()).copied();
    chosen.ok_or_else(|| expected("the name has no address".to_owned()))
}

fn look_period(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.05..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "seconds from 0.05 to 86400 are expected".to_owned())
}

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let options = OpenOptions {
        // The server must not fail when the pass that it serves is written again.
        in_memory: true,
        ..args.open.options()?
    };
    let model = args.open.open_with(&options)?;
    let address = args.address.unwrap_or(([127, 0, 0, 1], PORT).into());
    let listener = crate::web::listen(address, args.address.is_none())
        .context("choose another address with --address")?;
    let address = listener.local_addr()?;
    let access = if address.ip().is_loopback() {
        ClientAccess::Loopback
    } else {
        let given = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let own = given.is_none();
        let token = match given {
            Some(token) => token,
            None => local::token::generate()?,
        };
        if own {
            eprintln!("clients send the token {token} (set {TOKEN} to choose it)");
        }
        ClientAccess::Token(token)
    };
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(tls(certificates, key)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    println!(
        "serving {} at {scheme}://{address}/",
        shown(&model.located.directory)
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let settings = ServeSettings {
        access,
        tls,
        threads: args.threads.unwrap_or(cores),
        queue: args.queue,
        largest_body: args.largest_body,
        look: args.look_period,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let origin = ModelOrigin {
        path: args.open.model.clone(),
        options,
    };
    let server = HttpServer::new(origin, model, settings);
    server.run(listener, ended_by_signal, |text| eprintln!("{text}"))?;
    eprintln!("ended");
    Ok(Exit::Success)
}

fn tls(certificates: &Path, key: &Path) -> anyhow::Result<Arc<rustls::ServerConfig>> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
    };
    let identity = Identity {
        certificates: read(certificates)?,
        key: read(key)?,
    };
    let tls = ServerTls::new(&identity, None).with_context(|| {
        format!(
            "serve HTTPS with {} and {}",
            certificates.display(),
            key.display()
        )
    })?;
    Ok(tls.config())
}

fn shown(directory: &Path) -> String {
    directory.display().to_string()
}

/// Returns when the process is asked to end.
fn ended_by_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        // If signals cannot be watched, they end the process immediately, as usual.
        loop {
            std::thread::park();
        }
    };
    runtime.block_on(async {
        let (Ok(mut interrupt), Ok(mut terminate)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
}
