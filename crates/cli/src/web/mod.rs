//! The page of a job over HTTP: read-only, on loopback unless told otherwise, and then only with the job's token.
//!
//! Runs on a thread of its own. It reads files when somebody looks and does nothing otherwise, so a job that nobody watches pays nothing.

mod access;
mod api;
mod job_metrics;
mod query;
mod site;

pub use access::Access;
pub use site::{Site, Source};

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

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

/// Where a job's page is served unless the command line says otherwise; another port is taken if this one is in use.
pub const PORT: u16 = launch::k8s::objects::PAGE_PORT;

/// Nothing but what the page itself brings is loaded or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Listens on an address; a port of 0 and a default port that is taken become a free one.
pub fn listen(address: SocketAddr, or_free: bool) -> anyhow::Result<TcpListener> {
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
pub fn serve(listener: TcpListener, site: Arc<Site>, access: Access) -> anyhow::Result<()> {
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
                    // Serving ends only with the process; an error here must not end a job.
                    let _ = axum::serve(listener, router).await;
                }
            });
        })?;
    Ok(())
}

fn router(site: Arc<Site>, access: Access) -> Router {
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

/// Lets in whom the job lets in, and tells browsers to be careful.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
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
