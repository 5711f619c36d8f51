//! The page of a job over HTTP: read-only, on loopback by default, and elsewhere only with the job's token.
//!
//! Runs on its own thread. It reads files only when a page requests them, so a job that nobody watches has no cost.

mod access;
mod api;
mod audience;
mod job_metrics;
mod query;
mod site;

pub(crate) use access::PageAccess;
pub(crate) use audience::Audience;
pub(crate) use site::{PageSource, Site};

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

/// The default port of a job's page; another port is used if this one is taken.
pub(crate) const PORT: u16 = run::node::pod::PAGE_PORT;

/// Connections at a time.
const ROOM: usize = 256;

/// How long a request head may take to arrive, on a new connection and on one that was used before.
const HEAD: Duration = Duration::from_secs(10);

/// Bytes of a request head.
const LARGEST_HEAD: usize = 64 << 10;

/// Pause when the system has no descriptor for a connection.
const FULL: Duration = Duration::from_millis(50);

/// Content security policy: only what the page itself contains is loaded or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Listens on an address; port 0, and a default port that is in use, become a free one.
pub(crate) fn listen(address: SocketAddr, or_free: bool) -> anyhow::Result<TcpListener> {
    let listener = match TcpListener::bind(address) {
        Err(error) if or_free && error.kind() == std::io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::new(address.ip(), 0))
        }
        other => other,
    };
    let listener = listener.with_context(|| format!("listen on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub(crate) fn serve(
    listener: TcpListener,
    site: Arc<Site>,
    access: PageAccess,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()?;
    let router = router(site, access);
    std::thread::Builder::new()
        .name("page".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    accept(listener, router).await;
                }
            });
        })?;
    Ok(())
}

/// Accepts connections until the process ends. Those that send no request in time, and those for which there is no room,
/// are closed: a page must not use up the descriptors of a job.
async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(ROOM));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(FULL).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(LARGEST_HEAD)
                .serve_connection(TokioIo::new(stream), service);
            // A client that closes its connection is no error.
            let _ = served.await;
            drop(place);
        });
    }
}

fn router(site: Arc<Site>, access: PageAccess) -> Router {
    let access = Arc::new(access);
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind)], text) })
    };
    let html = "text/html; charset=utf-8";
    Router::new()
        .route("/", asset(html, watch::page::HTML))
        .route(
            "/app.js",
            asset("text/javascript; charset=utf-8", watch::page::SCRIPT),
        )
        .route(
            "/style.css",
            asset("text/css; charset=utf-8", watch::page::STYLE),
        )
        .route("/icon.svg", asset("image/svg+xml", watch::page::ICON))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(api::metrics))
        .route("/api/targets", get(api::targets))
        .route("/api/jobs", get(api::jobs))
        .route("/api/jobs/{job}/{what}", get(api::of_job))
        .with_state(site)
        .layer(middleware::from_fn_with_state(access, guard))
}

/// Checks access, and sets the security headers of responses.
async fn guard(State(access): State<Arc<PageAccess>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(request).await {
        Ok(request) => next.run(request).await,
        Err(answer) => *answer,
    };
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn answer(status: axum::http::StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
