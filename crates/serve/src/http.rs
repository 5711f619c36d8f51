//! Routes and replies.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use nn::Batch;
use predict::read::fill_value;
use predict::sample::Filling;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use crate::access::ClientAccess;
use crate::compute::{Computed, PredictRequest};
use crate::current::Current;
use crate::figures::{RequestEnd, RequestFigures};
use crate::openapi;
use crate::queue::RequestQueue;

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/app.js");
const STYLE: &str = include_str!("page/style.css");

/// Only what the page itself contains is loaded or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
    connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// What handlers share.
pub struct Shared {
    /// The model.
    pub current: Current,
    /// Requests that wait.
    pub queue: RequestQueue<PredictRequest>,
    /// Counters.
    pub figures: RequestFigures,
    /// Who may ask.
    pub access: ClientAccess,
    /// The largest body, in bytes.
    pub largest_body: usize,
    /// Limits the requests whose bodies are in memory.
    pub bodies: Semaphore,
    /// Version of the program.
    pub version: String,
}

/// The routes.
pub fn router(shared: Arc<Shared>) -> Router {
    let asset = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", asset("text/html; charset=utf-8", PAGE))
        .route("/app.js", asset("text/javascript; charset=utf-8", SCRIPT))
        .route("/style.css", asset("text/css; charset=utf-8", STYLE))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(document))
        .route("/model", get(model))
        .route("/predict", post(predict))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Checks access, and sets the security headers of responses. The page itself has no secret: it asks for the token.
async fn guard(State(shared): State<Arc<Shared>>, request: HttpRequest, next: Next) -> Response {
    let open = ["/", "/app.js", "/style.css", "/healthz"].contains(&request.uri().path());
    let page =
        open && request.method() == Method::GET && matches!(shared.access, ClientAccess::Token(_));
    let mut response = if page || shared.access.allows(request.headers()) {
        next.run(request).await
    } else {
        shared.figures.request(RequestEnd::Unknown);
        match shared.access {
            ClientAccess::Token(_) => refusal(
                StatusCode::UNAUTHORIZED,
                "send the token that the server printed: Authorization: Bearer TOKEN",
            ),
            ClientAccess::Loopback => refusal(
                StatusCode::FORBIDDEN,
                "this server is only for the machine it runs on; ask http://127.0.0.1 or http://localhost there",
            ),
        }
    };
    let headers: [(HeaderName, &str); 3] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn refusal(status: StatusCode, text: &str) -> Response {
    let body = json!({"error": text}).to_string();
    let mut response = answer(status, "application/json", body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
    }
    response
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.figures.text(shared.queue.len());
    answer(StatusCode::OK, "text/plain; version=0.0.4", text)
}

async fn document(State(shared): State<Arc<Shared>>) -> Response {
    let document = openapi::document(&shared.current.model(), &shared.version);
    answer(StatusCode::OK, "application/json", document.to_string())
}

async fn model(State(shared): State<Arc<Shared>>) -> Response {
    let description = openapi::description(&shared.current.model());
    answer(StatusCode::OK, "application/json", description.to_string())
}

async fn predict(State(shared): State<Arc<Shared>>, request: HttpRequest) -> Response {
    let result = attempt(&shared, request).await;
    match result {
        Ok(body) => {
            shared.figures.request(RequestEnd::Computed);
            answer(StatusCode::OK, "application/json", body)
        }
        Err((status, text)) => {
            shared.figures.request(match status {
                StatusCode::SERVICE_UNAVAILABLE => RequestEnd::Refused,
                _ => RequestEnd::Wrong,
            });
            refusal(status, &text)
        }
    }
}

type Failed = (StatusCode, String);

async fn attempt(shared: &Shared, request: HttpRequest) -> Result<String, Failed> {
    let busy = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
    let Ok(_permit) = shared.bodies.try_acquire() else {
        return Err(busy("too many requests at once; try again later"));
    };
    let body = to_bytes(request.into_body(), shared.largest_body).await;
    let body = body.map_err(|_| {
        let text = format!(
            "the body is larger than {} bytes, or was cut off",
            shared.largest_body
        );
        (StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    let parsed = parse(shared, &body).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    let (reply, result) = oneshot::channel();
    let samples = parsed.batch.samples;
    let request = PredictRequest {
        batch: parsed.batch,
        reply,
        since: Instant::now(),
    };
    if samples > 0 {
        shared
            .queue
            .push(samples, request)
            .map_err(|_| busy("too many samples wait, or the server ends; try again later"))?;
    } else {
        return Ok("{\"predictions\":[]}".to_owned());
    }
    let computed = result.await.map_err(|_| {
        let text = "the thread that computes ended".to_owned();
        (StatusCode::INTERNAL_SERVER_ERROR, text)
    })?;
    let computed = computed.map_err(|text| (StatusCode::UNPROCESSABLE_ENTITY, text))?;
    Ok(body_of(&computed, parsed.single))
}

fn body_of(computed: &Computed, single: bool) -> String {
    let pass = json!(&*computed.pass);
    let objects = computed.objects.join(",");
    if single {
        format!("{{\"prediction\":{objects},\"pass\":{pass}}}")
    } else {
        format!("{{\"predictions\":[{objects}],\"pass\":{pass}}}")
    }
}

struct Parsed {
    batch: Batch,
    single: bool,
}

/// The samples of a body: one object, or `{"samples": […]}`.
fn parse(shared: &Shared, body: &[u8]) -> Result<Parsed, String> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let model = shared.current.model();
    let several = value.get("samples").filter(|_| {
        let own = |input: &predict::sample::InputField| input.slot.name == "samples";
        !model.inputs.iter().any(own)
    });
    let mut filling = Filling::new(&model.inputs);
    match several {
        None => fill_value(&value, &model.inputs, &mut filling).map_err(|e| e.to_string())?,
        Some(Value::Array(list)) => {
            for (number, sample) in list.iter().enumerate() {
                fill_value(sample, &model.inputs, &mut filling)
                    .map_err(|error| format!("sample {number}: {error}"))?;
            }
        }
        Some(_) => return Err("\"samples\" is a list of samples".to_owned()),
    }
    Ok(Parsed {
        batch: filling.finish(),
        single: several.is_none(),
    })
}
