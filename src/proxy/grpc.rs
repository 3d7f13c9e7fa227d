//! Answers to gRPC requests: HTTP 200 and trailers only, because a bare HTTP 429 reads as `UNAVAILABLE` to a client,
//! which most retry at once ("gRPC over HTTP/2", "HTTP to gRPC Status Code Mapping").
//!
//! Only fields are made here; whoever sends them must send no body and no separate trailers.

use crate::algorithm::Wait;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::fmt::Write as _;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const MEDIA_TYPE: &[u8] = b"application/grpc";

/// A content type longer than this is not echoed.
const MAX_ECHOED_BYTES: usize = 64;

/// Whether the request is gRPC (or gRPC-Web): its content type begins with `application/grpc`.
pub fn is_request(request_headers: &HeaderMap) -> bool {
    media_type(request_headers).is_some()
}

/// The request's media type without its parameters, when it is one of gRPC's.
fn media_type(request_headers: &HeaderMap) -> Option<&[u8]> {
    let value = request_headers.get(header::CONTENT_TYPE)?.as_bytes();
    let media_type = value.split(|byte| *byte == b';').next()?.trim_ascii();
    let begins = media_type.get(..MEDIA_TYPE.len())?.eq_ignore_ascii_case(MEDIA_TYPE);
    begins.then_some(media_type)
}

/// The content type to answer with: the request's own, so that its `+proto` or `-web` is kept.
pub fn content_type(request_headers: &HeaderMap) -> HeaderValue {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/+-.".contains(byte);
    media_type(request_headers)
        .filter(|media_type| media_type.len() <= MAX_ECHOED_BYTES && media_type.iter().all(is_plain))
        .and_then(|media_type| HeaderValue::from_bytes(media_type).ok())
        .unwrap_or_else(|| HeaderValue::from_static("application/grpc"))
}

/// The trailers. `retry` is what is said of coming back; absent: nothing.
pub fn trailers(status: u8, message: &str, retry: Option<Wait>) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let message = HeaderValue::from_str(&percent_encoded(message)).expect("encoded text is visible ASCII");
    let pushback = retry.map(|wait| (GRPC_RETRY_PUSHBACK_MS.clone(), HeaderValue::from(pushback_ms(wait))));
    [(GRPC_STATUS.clone(), HeaderValue::from(u16::from(status))), (GRPC_MESSAGE.clone(), message)]
        .into_iter()
        .chain(pushback)
}

/// Milliseconds until a retry, at least 1; -1 tells the client not to retry: waiting never helps, or the wait does not
/// fit the 32 bits that clients read.
fn pushback_ms(wait: Wait) -> i32 {
    match wait {
        Wait::Now => 1,
        Wait::After(span) => i32::try_from(span.0.max(1)).unwrap_or(-1),
        Wait::Never => -1,
    }
}

/// Text as `grpc-message` has it: everything but visible ASCII and blanks, and `%` itself, as escapes of its UTF-8.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("Retry in 1 second."), "Retry in 1 second.");
        assert_eq!(percent_encoded("100% \u{e9}\r\n"), "100%25 %C3%A9%0D%0A");
    }

    #[test]
    fn the_content_type_is_echoed_without_parameters() {
        let vectors = [
            ("application/grpc", "application/grpc"),
            ("application/grpc+proto", "application/grpc+proto"),
            ("application/grpc-web+proto; charset=x", "application/grpc-web+proto"),
            ("application/grpc+\"<x>\"", "application/grpc"),
        ];
        for (asked, answered) in vectors {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asked));
            assert_eq!(content_type(&headers), answered);
        }
    }

    #[test]
    fn other_content_types_are_not_grpc() {
        for content_type in ["", "application/json", "text/application/grpc", "application/grp", "\u{ff}\u{fe}"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_bytes(content_type.as_bytes()).expect("a value"));
            assert!(!is_request(&headers), "{content_type}");
        }
        assert!(!is_request(&HeaderMap::new()));
    }

    #[test]
    fn pushback_is_at_least_one_and_negative_when_waiting_is_no_use() {
        let vectors = [
            (Wait::Now, 1),
            (Wait::After(Millis(0)), 1),
            (Wait::After(Millis(60)), 60),
            (Wait::After(Millis(i64::from(i32::MAX))), i32::MAX),
            (Wait::After(Millis(i64::from(i32::MAX) + 1)), -1),
            (Wait::Never, -1),
        ];
        for (wait, pushback) in vectors {
            assert_eq!(pushback_ms(wait), pushback, "{wait:?}");
        }
    }
}
