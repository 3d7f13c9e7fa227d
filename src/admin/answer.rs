//! What the admin port answers with: pages, JSON, and failures in the shape of the gateway's other answers.

use crate::proxy::request_id::{REQUEST_ID, request_id};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde::Serialize;

/// A whole answer.
pub type Reply = Response<Vec<u8>>;

/// Why there is no other answer: status, `error` word and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: StatusCode,
    error: &'static str,
    message: String,
    /// A header that belongs to the status.
    header: Option<(header::HeaderName, &'static str)>,
}

impl Failure {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), header: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The token is not there, or another one.
    pub fn unauthorized() -> Self {
        let failure = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "The admin token is required.");
        Self { header: Some((header::WWW_AUTHENTICATE, "Bearer realm=\"sluicegate-admin\"")), ..failure }
    }

    pub fn forbidden(message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// `allowed` is the value of `Allow`.
    pub fn not_allowed(allowed: &'static str) -> Self {
        let message = format!("Only {allowed} may be asked for here.");
        let failure = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        Self { header: Some((header::ALLOW, allowed)), ..failure }
    }

    /// The store did not answer.
    pub fn limiter_unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "limiter_unavailable", message)
    }

    /// As an answer to a request with these headers.
    pub fn reply(&self, request: &HeaderMap) -> Reply {
        let id = request_id(request);
        let body = serde_json::json!({
            "error": self.error,
            "message": self.message,
            "request_id": String::from_utf8_lossy(id.as_bytes()),
        });
        let mut reply = json(&body);
        *reply.status_mut() = self.status;
        reply.headers_mut().insert(&REQUEST_ID, id);
        if let Some((name, value)) = &self.header {
            reply.headers_mut().insert(name.clone(), HeaderValue::from_static(value));
        }
        reply
    }
}

pub fn text(status: StatusCode, body: &str) -> Reply {
    page(status, "text/plain; charset=utf-8", body.as_bytes().to_vec())
}

/// 200 with a value that is never kept by anybody on the way.
pub fn json(value: &impl Serialize) -> Reply {
    let mut body = serde_json::to_vec_pretty(value).expect("answers are plain data with text keys");
    body.push(b'\n');
    page(StatusCode::OK, "application/json", body)
}

pub fn page(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Reply {
    let length = body.len();
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
