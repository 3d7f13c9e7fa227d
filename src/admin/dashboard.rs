//! The dashboard's three files, as they are in the program: nothing is put into them, so nothing can be smuggled in.
//!
//! The policy for the browser allows these files and requests to this port, and nothing else: no script or style in the page, no
//! other host, no frame around it. What the script is told goes into the page as text.

use super::answer::{Reply, page};
use http::header::{self, HeaderValue};
use http::{HeaderName, StatusCode};

const HTML: &str = include_str!("dashboard/index.html");
const SCRIPT: &str = include_str!("dashboard/app.js");
const STYLE: &str = include_str!("dashboard/app.css");

const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The file of that path, if it is one.
pub fn file(path: &str) -> Option<Reply> {
    let (content_type, text) = match path {
        "/" => ("text/html; charset=utf-8", HTML),
        "/app.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/app.css" => ("text/css; charset=utf-8", STYLE),
        _ => return None,
    };
    let mut reply = page(StatusCode::OK, content_type, text.as_bytes().to_vec());
    let headers = reply.headers_mut();
    let set = [
        (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Some(reply)
}
