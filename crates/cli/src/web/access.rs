//! Access to a page: on loopback for every user of the machine, elsewhere only with the job's token.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use ring::digest::{SHA256, digest};
use run::http::is_loopback_name;

use super::answer;
use super::query::Query;

/// Most bytes of a form: the page's own form is smaller.
const LARGEST_FORM: usize = 4096;

/// The name of the cookie that a browser gets once it has sent the token.
const COOKIE_NAME: &str = "canoe_page";

/// Which requests may see a page.
#[derive(Debug)]
pub(crate) enum PageAccess {
    /// Those with a loopback name as their host, so that pages of other sites cannot direct a browser here.
    Loopback,
    /// Those with one of these tokens.
    Tokens(Vec<String>),
}

impl PageAccess {
    /// The rule for an address: nothing is required on loopback, a token elsewhere.
    pub(crate) fn at(address: std::net::IpAddr, tokens: Vec<String>) -> PageAccess {
        if address.is_loopback() {
            PageAccess::Loopback
        } else {
            PageAccess::Tokens(tokens)
        }
    }

    /// Returns the request if it is allowed, else the response to send.
    pub(crate) async fn check(&self, request: Request) -> Result<Request, Box<Response>> {
        match self {
            PageAccess::Loopback => {
                let host = request
                    .headers()
                    .get(HOST)
                    .and_then(|host| host.to_str().ok());
                if host.is_none_or(is_loopback_name) {
                    Ok(request)
                } else {
                    let text = "this page is only served on the machine it runs on; open http://127.0.0.1 or http://localhost there\n";
                    Err(Box::new(answer(StatusCode::FORBIDDEN, "text/plain", text)))
                }
            }
            PageAccess::Tokens(tokens) => ask(tokens, request).await,
        }
    }
}

async fn ask(tokens: &[String], request: Request) -> Result<Request, Box<Response>> {
    let path = request.uri().path();
    if path == "/healthz" || is_known(tokens, &request) {
        return Ok(request);
    }
    if request.method() == Method::POST && path == "/login" {
        return Err(Box::new(login(tokens, request).await));
    }
    let assets = path == "/style.css" || path == "/icon.svg";
    if assets {
        return Ok(request);
    }
    let html = "text/html; charset=utf-8";
    Err(Box::new(answer(
        StatusCode::UNAUTHORIZED,
        html,
        watch::page::LOGIN,
    )))
}

fn is_known(tokens: &[String], request: &Request) -> bool {
    let header = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let bearer = header(AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    if bearer.is_some_and(|given| tokens.iter().any(|token| same(token, given))) {
        return true;
    }
    let cookies = header(COOKIE).unwrap_or("").split(';');
    let mut values =
        cookies.filter_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='));
    values.any(|value| tokens.iter().any(|token| same(&pass(token), value)))
}

async fn login(tokens: &[String], request: Request) -> Response {
    let body = axum::body::to_bytes(request.into_body(), LARGEST_FORM).await;
    let body = body.unwrap_or_default();
    let form = Query::parse(&String::from_utf8_lossy(&body));
    let given = form.text("token").trim();
    let Some(token) = tokens.iter().find(|token| same(token, given)) else {
        let html = "text/html; charset=utf-8";
        return answer(StatusCode::UNAUTHORIZED, html, watch::page::LOGIN);
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let cookie = format!(
        "{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict",
        pass(token)
    );
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

/// The value of the cookie, which replaces the token in the browser.
fn pass(token: &str) -> String {
    let hash = digest(&SHA256, format!("canoe page {token}").as_bytes());
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Compares two texts in a time that does not reveal how many characters are equal.
fn same(a: &str, b: &str) -> bool {
    let hash = |text: &str| digest(&SHA256, text.as_bytes());
    let (a, b) = (hash(a), hash(b));
    a.as_ref()
        .iter()
        .zip(b.as_ref())
        .fold(0, |sum, (a, b)| sum | (a ^ b))
        == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
        let mut builder = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::from(body.to_owned())).unwrap()
    }

    fn check(access: &PageAccess, request: Request) -> Result<(), Box<Response>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(access.check(request)).map(drop)
    }

    #[test]
    fn other_names_do_not_lead_to_loopback() {
        for (host, allowed) in [
            ("127.0.0.1:7272", true),
            ("localhost:1", true),
            ("[::1]:80", true),
            ("evil.example:7272", false),
            ("127.0.0.1.evil.example", false),
        ] {
            let request = request(Method::GET, "/", &[("host", host)], "");
            assert_eq!(
                check(&PageAccess::Loopback, request).is_ok(),
                allowed,
                "{host}"
            );
        }
    }

    #[test]
    fn elsewhere_the_token_opens_the_page_and_a_cookie_keeps_it_open() {
        let access = PageAccess::at([0, 0, 0, 0].into(), vec!["secret".into()]);
        let refused = check(&access, request(Method::GET, "/api/jobs", &[], "")).unwrap_err();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        let wrong = request(Method::POST, "/login", &[], "token=guess");
        assert_eq!(
            check(&access, wrong).unwrap_err().status(),
            StatusCode::UNAUTHORIZED
        );
        let right = request(Method::POST, "/login", &[], "token=secret");
        let entered = check(&access, right).unwrap_err();
        assert_eq!(entered.status(), StatusCode::SEE_OTHER);
        let cookie = entered.headers()[SET_COOKIE]
            .to_str()
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        assert!(!cookie.contains("secret"));
        check(
            &access,
            request(
                Method::GET,
                "/",
                &[("cookie", &format!("a=b; {cookie}"))],
                "",
            ),
        )
        .unwrap();
        check(
            &access,
            request(Method::GET, "/", &[("authorization", "Bearer secret")], ""),
        )
        .unwrap();
        assert!(
            check(
                &access,
                request(Method::GET, "/", &[("cookie", "canoe_page=secret")], "")
            )
            .is_err()
        );
    }
}
