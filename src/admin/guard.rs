//! Who may ask: the bearer of the token, when one is set, and never a page of another origin.
//!
//! A browser sends other pages' requests too. Reading is kept from them by the browser, and a DELETE, which would need a
//! preflight that this port never grants; what is left is a name of the attacker's that leads to this address (DNS
//! rebinding). So, as far as a request comes from a browser: its `Origin`, if any, must be this host, and without a token the host
//! must be an address or `localhost`. Other programs are not asked for either.

use super::answer::Failure;
use crate::proxy::snapshot::Snapshot;
use http::{HeaderMap, header};
use pingora::protocols::http::ServerSession;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Sent by every browser with every request, and by hardly anything else.
const MARKS_OF_BROWSERS: [&str; 3] = ["origin", "sec-fetch-site", "accept-language"];

pub fn admit(session: &ServerSession, snapshot: &Snapshot) -> Result<(), Failure> {
    let headers = &session.req_header().headers;
    let host = headers.get(header::HOST).map(header::HeaderValue::as_bytes).unwrap_or_default();
    check_origin(headers, host, snapshot.admin_token.is_some())?;
    let Some(token) = &snapshot.admin_token else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes).unwrap_or_default();
    let (scheme, given) = given.split_at(given.len().min(b"Bearer ".len()));
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
    let is_right: bool = token.reveal().as_bytes().ct_eq(given).into();
    if is_bearer && is_right { Ok(()) } else { Err(Failure::unauthorized()) }
}

fn check_origin(headers: &HeaderMap, host: &[u8], has_token: bool) -> Result<(), Failure> {
    if !MARKS_OF_BROWSERS.iter().any(|mark| headers.contains_key(*mark)) {
        return Ok(());
    }
    let origin = headers.get(header::ORIGIN).map(header::HeaderValue::as_bytes);
    let is_own = |origin: &[u8]| {
        let rest = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
    };
    if !origin.is_none_or(is_own) {
        return Err(Failure::forbidden("The request comes from a page of another origin."));
    }
    if !has_token && !is_local(host) {
        return Err(Failure::forbidden(
            "Without an admin token a browser must name this port by its address or as localhost.",
        ));
    }
    Ok(())
}

/// Whether a `Host` is an address or `localhost`, with a port or without.
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(lines: &[(&'static str, &str)], has_token: bool) -> bool {
        let headers: HeaderMap =
            lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let host = headers.get("host").map(|host| host.as_bytes().to_vec()).unwrap_or_default();
        check_origin(&headers, &host, has_token).is_ok()
    }

    #[test]
    fn a_page_of_another_origin_gets_nothing() {
        assert!(passes(&[("host", "gateway.test")], false), "a program that is no browser");
        for (host, origin, without_token, with_token) in [
            ("127.0.0.1:9090", "http://127.0.0.1:9090", true, true),
            ("localhost:9090", "http://localhost:9090", true, true),
            ("[::1]:9090", "http://[::1]:9090", true, true),
            ("127.0.0.1:9090", "http://127.0.0.1:8080", false, false),
            ("127.0.0.1:9090", "http://evil.example", false, false),
            ("127.0.0.1:9090", "null", false, false),
            ("evil.example:9090", "http://evil.example:9090", false, true),
            ("localhost.evil.example:9090", "http://localhost.evil.example:9090", false, true),
        ] {
            let lines = [("host", host), ("origin", origin)];
            assert_eq!(passes(&lines, false), without_token, "{host} {origin}");
            assert_eq!(passes(&lines, true), with_token, "{host} {origin}");
        }
        assert!(!passes(&[("host", "evil.example"), ("accept-language", "en")], false), "a rebound name, reading");
        assert!(passes(&[("host", "127.0.0.1"), ("accept-language", "en")], false));
    }
}
