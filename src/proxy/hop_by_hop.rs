//! Headers that concern one connection only and stop here, in both directions (RFC 9110, section 7.6.1).
//!
//! `Connection` names more of them, and a client may name any: one that a gateway has set, so that its upstream takes the
//! request for somebody else's. So what is ours, and what says where a message ends, cannot be named away; everything else
//! can. Pingora removes the standard ones from requests, but fails a request that names more than nine headers, or one of
//! ours, after it was charged: it is only ever shown names that it takes.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};

/// Options of `Connection` that are no names of headers, or of those that Pingora knows.
const OPTIONS: [&str; 3] = ["close", "keep-alive", "upgrade"];

/// What says where a message ends or whom it is for.
const FRAMING: [HeaderName; 4] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::HOST, header::EXPECT];

/// What goes from a response whoever names it. Pingora sees to `Connection` and `Transfer-Encoding` towards the client.
const OF_RESPONSES: [HeaderName; 5] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::UPGRADE,
];

/// Removes from a request what its `Connection` names, and leaves there what the connection itself is told. `is_ours` are
/// names that stay.
pub fn clean_request(request: &mut RequestHeader, is_ours: fn(&HeaderName) -> bool) -> Result<()> {
    if !names(&request.headers, "upgrade") {
        // Whoever stands before the gateway takes this for a request like any other, and would be surprised by a tunnel.
        request.remove_header(&header::UPGRADE);
    }
    if !request.headers.contains_key(header::CONNECTION) {
        return Ok(());
    }
    let kept: Vec<&str> = OPTIONS.into_iter().filter(|option| names(&request.headers, option)).collect();
    for name in named(&request.headers) {
        if !is_ours(&name) && !FRAMING.contains(&name) && name != header::UPGRADE {
            request.remove_header(&name);
        }
    }
    request.remove_header(&header::CONNECTION);
    if !kept.is_empty() {
        let kept = HeaderValue::from_str(&kept.join(", ")).expect("the options are visible ASCII");
        request.insert_header(header::CONNECTION, kept)?;
    }
    Ok(())
}

/// Removes from a response what concerned the upstream's connection. One that switches protocols needs it.
pub fn clean_response(response: &mut ResponseHeader) {
    if response.status == http::StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    if response.headers.contains_key(header::CONNECTION) {
        if !names_one_option(&response.headers) {
            for name in named(&response.headers) {
                if !FRAMING.contains(&name) {
                    response.remove_header(&name);
                }
            }
        }
        response.remove_header(&header::CONNECTION);
    }
    // Hardly any response has one: looking once is cheaper than asking for each.
    let found: Vec<HeaderName> = response.headers.keys().filter(|name| OF_RESPONSES.contains(name)).cloned().collect();
    for name in found {
        response.remove_header(&name);
    }
}

/// For a client of HTTP/1.0, which knows no chunks: a body of unknown length ends with the connection. Whether it does.
pub fn end_with_connection(response: &mut ResponseHeader) -> bool {
    response.remove_header(&header::TRANSFER_ENCODING).is_some()
}

/// The headers that are there and that `Connection` names; as many at most as a head has lines.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let present = |token: &[u8]| HeaderName::from_bytes(token).ok().filter(|name| headers.contains_key(name));
    tokens(headers).filter_map(present).collect()
}

/// Whether `Connection` is one of the plain options and nothing else, as most are.
fn names_one_option(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONNECTION).iter();
    let (first, second) = (lines.next(), lines.next());
    let is = |line: &HeaderValue, option: &str| line.as_bytes().eq_ignore_ascii_case(option.as_bytes());
    second.is_none() && first.is_some_and(|line| OPTIONS.iter().any(|option| is(line, option)))
}

fn names(headers: &HeaderMap, option: &str) -> bool {
    tokens(headers).any(|token| token.eq_ignore_ascii_case(option.as_bytes()))
}

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(header::CONNECTION).into_iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/", None).expect("a request");
        for (name, value) in lines {
            request.append_header(*name, *value).expect("a header");
        }
        request
    }

    fn is_ours(name: &HeaderName) -> bool {
        name == "x-ours"
    }

    #[test]
    fn what_is_named_goes_and_what_is_ours_or_frames_stays() {
        let mut request = request(&[
            ("connection", "Close, x-mine,,X-Ours"),
            ("connection", "content-length, host, upgrade, no token, x-absent"),
            ("x-mine", "1"),
            ("x-ours", "1"),
            ("content-length", "0"),
            ("host", "a"),
            ("upgrade", "websocket"),
        ]);
        clean_request(&mut request, is_ours).expect("cleaned");
        assert_eq!(request.headers.get("connection").expect("kept"), "close, upgrade");
        assert!(!request.headers.contains_key("x-mine"));
        for name in ["x-ours", "content-length", "host", "upgrade"] {
            assert!(request.headers.contains_key(name), "{name}");
        }
        clean_request(&mut request, is_ours).expect("cleaned");
        assert_eq!(request.headers.get("connection").expect("a retry finds what is left"), "close, upgrade");
    }

    #[test]
    fn an_upgrade_that_connection_does_not_name_is_none() {
        for (connection, kept) in [("keep-alive", false), ("keep-alive, Upgrade", true)] {
            let mut request = request(&[("connection", connection), ("upgrade", "websocket")]);
            clean_request(&mut request, is_ours).expect("cleaned");
            assert_eq!(request.headers.contains_key("upgrade"), kept, "{connection}");
        }
    }

    #[test]
    fn a_switch_of_protocols_keeps_its_headers() {
        for (status, kept) in [(101, 2), (200, 0)] {
            let mut response = ResponseHeader::build(status, None).expect("a response");
            response.insert_header("connection", "upgrade").expect("a header");
            response.insert_header("upgrade", "websocket").expect("a header");
            clean_response(&mut response);
            assert_eq!(response.headers.len(), kept, "{status}");
        }
    }
}
