//! The small web server of every process: `/status` (JSON), `/metrics` (Prometheus text), `/healthz`.
//!
//! Runs on a thread of its own, on loopback, and only asks closures for text, so training never waits for a reader.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// What the pages show, made anew for each request.
pub trait Pages: Send + Sync + 'static {
    /// The process's status as a JSON object.
    fn status(&self) -> serde_json::Value;
    /// All metrics in Prometheus' text form.
    fn metrics(&self) -> String;
}

/// Serves `pages` on a loopback port until the process ends.
pub fn serve(port: u16, pages: Arc<dyn Pages>) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address)
        .with_context(|| format!("--status_port={port}: listen on {address}"))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("status".to_owned())
        .spawn(move || runtime.block_on(run(listener, pages)))?;
    Ok(())
}

async fn run(listener: TcpListener, pages: Arc<dyn Pages>) {
    let status = pages.clone();
    let json = [(CONTENT_TYPE, "application/json")];
    let text = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route(
            "/status",
            get(move || async move { (json, status.status().to_string()) }),
        )
        .route(
            "/metrics",
            get(move || async move { (text, pages.metrics()) }),
        );
    if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
        // Serving ends only with the process; an error here must not end training.
        let _ = axum::serve(listener, router).await;
    }
}
