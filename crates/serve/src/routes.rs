//! Decides what a request is for, and whether it is allowed.

use crate::access::ClientAccess;
use crate::head::{HttpMethod, RequestHead};

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/app.js");
const STYLE: &str = include_str!("page/style.css");

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Outputs for the samples of the body.
    Predict,
    /// A text that never changes, and its type.
    Asset(&'static str, &'static str),
    /// Metrics for Prometheus.
    Metrics,
    /// The interface in OpenAPI's form.
    Document,
    /// Inputs and outputs of the model.
    Model,
    /// Nothing: status, reason, and the methods that the path has.
    Refused(u16, &'static str, Option<&'static str>),
}

/// Decides what a request is for. The page itself needs no token, because it has no secret: it asks the user for the
/// token.
pub(crate) fn target(head: &RequestHead<'_>, access: &ClientAccess) -> Target {
    let get = matches!(head.method, HttpMethod::Get | HttpMethod::Head);
    let (found, open) = match head.path {
        "/predict" => (Target::Predict, false),
        "/" => (Target::Asset("text/html; charset=utf-8", PAGE), true),
        "/app.js" => (
            Target::Asset("text/javascript; charset=utf-8", SCRIPT),
            true,
        ),
        "/style.css" => (Target::Asset("text/css; charset=utf-8", STYLE), true),
        "/healthz" => (Target::Asset("text/plain; charset=utf-8", "ok\n"), true),
        "/metrics" => (Target::Metrics, false),
        "/openapi.json" => (Target::Document, false),
        "/model" => (Target::Model, false),
        _ => (Target::Refused(404, "there is no such path", None), false),
    };
    let without_token = open && get && matches!(access, ClientAccess::Token(_));
    if !without_token && !access.allows(head.host, head.authorization) {
        return match access {
            ClientAccess::Token(_) => Target::Refused(
                401,
                "send the token that the server printed: Authorization: Bearer TOKEN",
                None,
            ),
            ClientAccess::Loopback => Target::Refused(
                403,
                "this server is only for the machine it runs on; use http://127.0.0.1 or http://localhost there",
                None,
            ),
        };
    }
    let wanted = match found {
        Target::Refused(..) => return found,
        Target::Predict => head.method == HttpMethod::Post,
        _ => get,
    };
    match (wanted, found) {
        (true, found) => found,
        (false, Target::Predict) => Target::Refused(405, "send samples with POST", Some("POST")),
        (false, _) => Target::Refused(405, "this path is read-only", Some("GET, HEAD")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::BodyLength;

    fn ask(method: HttpMethod, path: &str, access: &ClientAccess, token: Option<&str>) -> Target {
        let head = RequestHead {
            method,
            path,
            body: BodyLength::Known(0),
            keep: true,
            host: Some("localhost"),
            authorization: token,
            waits: false,
            length: 0,
        };
        target(&head, access)
    }

    #[test]
    fn paths_have_methods_and_a_token_protects_all_but_the_page() {
        use HttpMethod::{Get, Head, Other, Post};
        let open = ClientAccess::Loopback;
        assert_eq!(ask(Post, "/predict", &open, None), Target::Predict);
        assert_eq!(ask(Head, "/model", &open, None), Target::Model);
        let status = |target| match target {
            Target::Refused(status, ..) => status,
            _ => 200,
        };
        assert_eq!(status(ask(Get, "/predict", &open, None)), 405);
        assert_eq!(status(ask(Post, "/", &open, None)), 405);
        assert_eq!(status(ask(Other, "/nothing", &open, None)), 404);
        let closed = ClientAccess::Token("secret".into());
        assert_eq!(status(ask(Get, "/", &closed, None)), 200);
        assert_eq!(status(ask(Get, "/nothing", &closed, None)), 401);
        assert_eq!(
            status(ask(Post, "/predict", &closed, Some("Bearer x"))),
            401
        );
        assert_eq!(
            ask(Post, "/predict", &closed, Some("Bearer secret")),
            Target::Predict
        );
    }
}
