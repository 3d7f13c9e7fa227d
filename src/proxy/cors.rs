//! The fields that let a script of another origin read an answer that the gateway makes itself; without them a
//! browser shows a refusal as a network error (WHATWG Fetch, "CORS protocol").
//!
//! They open nothing that was closed: such an answer holds nothing but what the caller is told anyway. Answers of an
//! upstream, preflights included, are the upstream's own and get none of these.

use super::accept::Form;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Scripts read only seven response fields unless the others are named.
const EXPOSED: &str = "Retry-After, RateLimit, RateLimit-Policy, RateLimit-Limit, RateLimit-Remaining, \
     RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, retry-after-ms";

/// As [`EXPOSED`], with what a gRPC-Web client in a browser has to read.
const EXPOSED_GRPC: &str = "Retry-After, RateLimit, RateLimit-Policy, RateLimit-Limit, RateLimit-Remaining, \
     RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, retry-after-ms, \
     grpc-status, grpc-message, grpc-retry-pushback-ms";

/// An origin is a scheme, a host name and a port; nothing real is longer.
const MAX_ORIGIN_BYTES: usize = 512;

/// The request's one valid origin. `Vary: Origin` belongs on an answer that was made with it.
pub fn origin(request_headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = request_headers.get_all(header::ORIGIN).into_iter();
    let only = values.next().filter(|value| is_origin(value.as_bytes()))?;
    values.next().is_none().then_some(only)
}

/// The fields for an answer to a request of `origin`.
pub fn fields(origin: &HeaderValue, form: Form) -> [(HeaderName, HeaderValue); 3] {
    let exposed = if form == Form::Grpc { EXPOSED_GRPC } else { EXPOSED };
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed)),
    ]
}

/// Whether these bytes are an origin as browsers write it (RFC 6454 section 6.2): `null`, or scheme, host and port.
fn is_origin(bytes: &[u8]) -> bool {
    if bytes == b"null" {
        return true;
    }
    let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return false };
    let (scheme, rest) = bytes.split_at(colon);
    let Some(host) = rest.strip_prefix(b"://") else { return false };
    bytes.len() <= MAX_ORIGIN_BYTES
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        && !host.is_empty()
        && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%:[]".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(origins: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_bytes(origin).expect("a field value"));
        }
        headers
    }

    #[test]
    fn b121_a_valid_origin_is_echoed_with_every_field_that_a_script_may_read() {
        for text in ["https://app.example.com", "http://localhost:3000", "http://[::1]:8080", "null", "app+x://host"] {
            let headers = request(&[text.as_bytes()]);
            let origin = origin(&headers).expect("a valid origin");
            let fields = fields(origin, Form::Json);
            assert_eq!(fields[0], (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static(text)));
            assert_eq!(fields[1].1, "true");
            for name in ["Retry-After", "retry-after-ms", "RateLimit-Policy", "X-RateLimit-Reset", "X-Request-Id"] {
                let exposed = fields[2].1.to_str().expect("ASCII");
                assert!(exposed.split(", ").any(|exposed| exposed == name), "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_origin_is_not_echoed() {
        let bad: [&[&[u8]]; 9] = [
            &[],
            &[b""],
            &[b"app.example.com"],
            &[b"https://"],
            &[b"https://a.example, https://b.example"],
            &[b"https://a.example/path"],
            &[b"https://\xff\xfe"],
            &[b"https://a.example\"<script>"],
            &[b"https://a.example", b"https://b.example"],
        ];
        for origins in bad {
            assert_eq!(origin(&request(origins)), None, "{origins:?}");
        }
        let long = format!("https://{}", "a".repeat(MAX_ORIGIN_BYTES));
        assert_eq!(origin(&request(&[long.as_bytes()])), None);
    }
}
