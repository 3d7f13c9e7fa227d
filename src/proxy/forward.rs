//! What goes upstream: the normalised path, without the key, with the headers that the gateway vouches for.
//!
//! Client-sent copies of our headers are removed first, in every spelling that a backend may fold into the same name
//! (`X_Consumer_Id`), so that what arrives under these names always comes from us.

use super::context::Context;
use super::request_id::REQUEST_ID;
use crate::policy::Policy;
use crate::request::credential;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::http::RequestHeader;
use pingora::{ErrorType, OrErr, Result};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::IpAddr;

static CONSUMER_ID: HeaderName = HeaderName::from_static("x-consumer-id");
static CONSUMER_TIER: HeaderName = HeaderName::from_static("x-consumer-tier");
static KEY_ID: HeaderName = HeaderName::from_static("x-key-id");
static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Fields that the gateway adds at most.
const ADDED: usize = 8;

/// Names that only the gateway may send upstream.
const OWNED: [&str; 5] = ["x-consumer-id", "x-consumer-tier", "x-key-id", "x-request-id", "x-anonymous-consumer"];

/// Names that tell where a request came from: believed from trusted peers alone.
const ORIGIN: [&str; 11] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "forwarded",
];

/// Turns the request as received into the request as forwarded.
///
/// The fields are changed as `http` holds them: Pingora's own way keeps the spelling of each name beside it and costs four
/// allocations a field. What it costs is the spelling: names go on in lower case, as HTTP/2 has them.
pub fn rewrite(request: &mut RequestHeader, context: &Context) -> Result<()> {
    let policy = &context.snapshot.policy;
    let nothing = RequestHeader::from(http::Request::new(()).into_parts().0);
    let mut parts = Parts::from(std::mem::replace(request, nothing));
    parts.headers.reserve(ADDED);
    // Pingora removes it from HTTP/1.1 alone.
    parts.headers.remove(&header::PROXY_AUTHORIZATION);
    remove_spoofed(&mut parts.headers, context.trusted_peer);
    if !policy.forward_credentials {
        remove_credentials(&mut parts.headers, policy);
    }
    join_cookies(&mut parts.headers);
    set_origin(&mut parts.headers, context);
    set_identity(&mut parts.headers, context)?;
    *request = RequestHeader::from(parts);
    set_target(request, context)
}

/// Whether the name is one that the gateway vouches for, or that a trusted peer tells it by.
pub fn is_ours(name: &HeaderName) -> bool {
    OWNED.contains(&name.as_str()) || ORIGIN.contains(&name.as_str())
}

/// Path and query as forwarded: normalised, the route's prefix stripped, the key removed.
fn set_target(request: &mut RequestHeader, context: &Context) -> Result<()> {
    let path = stripped(context).as_bytes();
    let target = match &context.query {
        Some(query) if !query.is_empty() => Cow::Owned([path, query].join(&b'?')),
        _ => Cow::Borrowed(path),
    };
    if request.raw_path() != &*target {
        request.set_raw_path(&target)?;
    }
    Ok(())
}

fn stripped(context: &Context) -> &str {
    let route = context.route.map(|route| &context.snapshot.policy.routes[route]);
    let prefix = route.and_then(|route| route.strip_prefix.as_deref()).filter(|prefix| !prefix.is_empty());
    match prefix.and_then(|prefix| context.path.strip_prefix(prefix)) {
        Some("") => "/",
        // `/apiary` does not lie under the prefix `/api`.
        Some(rest) if rest.starts_with('/') => rest,
        _ => &context.path,
    }
}

fn remove_spoofed(headers: &mut HeaderMap, trusted_peer: bool) {
    let spoofed = |name: &HeaderName| {
        let name = name.as_str();
        let has_underscore = name.contains('_');
        if !has_underscore && !matches!(name.as_bytes()[0], b'x' | b't' | b'c' | b'f') {
            return false;
        }
        let is_in = |names: &[&str]| names.iter().any(|owned| folds_to(name, owned));
        is_in(&OWNED) || (is_in(&ORIGIN) && (!trusted_peer || has_underscore))
    };
    let names: Vec<HeaderName> = headers.keys().filter(|name| spoofed(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Whether a backend that takes `_` for `-` reads `name` as `owned`.
fn folds_to(name: &str, owned: &str) -> bool {
    let folded = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.len() == owned.len() && folded.eq(owned.bytes())
}

fn remove_credentials(headers: &mut HeaderMap, policy: &Policy) {
    for (name, values) in credential::strip_headers(&policy.sources, headers) {
        headers.remove(&name);
        for value in values {
            headers.append(name.clone(), value);
        }
    }
}

/// HTTP/2 clients send each cookie in a field of its own; whoever knows HTTP/1.1 alone reads the first (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1 {
        let joined = HeaderValue::from_bytes(&cookies.join(&b"; "[..]));
        headers.insert(header::COOKIE, joined.expect("header values joined are a header value"));
    }
}

fn set_origin(headers: &mut HeaderMap, context: &Context) {
    if let Some(peer) = context.peer {
        let mut chain = SmallVec::<[u8; 64]>::new();
        for line in headers.get_all(&FORWARDED_FOR) {
            chain.extend_from_slice(line.as_bytes());
            chain.extend_from_slice(b", ");
        }
        push_address(&mut chain, peer);
        let chain = HeaderValue::from_bytes(&chain);
        headers.insert(&FORWARDED_FOR, chain.expect("header values and an address joined are a header value"));
    }
    let scheme = if context.is_tls { "https" } else { "http" };
    headers.entry(&FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
    if let Some(host) = &context.host {
        if headers.get(header::HOST) != Some(host) {
            headers.insert(header::HOST, host.clone());
        }
        headers.entry(&FORWARDED_HOST).or_insert_with(|| host.clone());
    }
    headers.insert(&REQUEST_ID, context.request_id.clone());
}

/// Writes an address as text. Most are IPv4, for which `fmt` takes as long as the rest of this file.
fn push_address(text: &mut SmallVec<[u8; 64]>, address: IpAddr) {
    let IpAddr::V4(address) = address else { return text.extend_from_slice(address.to_string().as_bytes()) };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push(b'.');
        }
        for (divisor, least) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= least {
                text.push(b'0' + octet / divisor % 10);
            }
        }
    }
}

fn set_identity(headers: &mut HeaderMap, context: &Context) -> Result<()> {
    let policy = &context.snapshot.policy;
    // A name that is no header value fails the request: an upstream must not take an empty one for an identity.
    let value =
        |text: &str| HeaderValue::from_str(text).or_err(ErrorType::InvalidHTTPHeader, "a name that is no header value");
    if let Some(consumer) = context.consumer {
        headers.insert(&CONSUMER_ID, value(&policy.consumers[consumer].name)?);
    }
    if let Some(key) = context.key {
        headers.insert(&KEY_ID, value(policy.keys.record(key).id())?);
    }
    headers.insert(&CONSUMER_TIER, context.snapshot.tier_header(context.tier).clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use crate::metrics::Metrics;
    use crate::proxy::snapshot::Snapshot;
    use crate::time::{Stopwatch, Timestamp};
    use std::sync::Arc;

    /// A request on the first of these routes, as far as the decision has learnt.
    fn context(route: &str, path: &str, query: Option<&[u8]>) -> Context {
        let main = format!("[upstreams.a]\nservers = [\"127.0.0.1:9\"]\n[[routes]]\nmatch = \"*\"\n{route}");
        let config = load_text("test.toml", &main, None, &|_| None).config.expect("valid");
        let snapshot = Snapshot::compile(&config, 1).0.expect("valid");
        let mut context = Context::new(Arc::new(snapshot), Timestamp(0), Stopwatch::start(), Arc::new(Metrics::new()));
        context.route = Some(0);
        path.clone_into(&mut context.path);
        context.query = query.map(<[u8]>::to_vec);
        context
    }

    fn request(target: &[u8], lines: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", target, None).expect("a request");
        for (name, value) in lines {
            request.append_header(*name, *value).expect("a header");
        }
        request
    }

    #[test]
    fn path_and_query_go_on_as_normalised_and_byte_for_byte() {
        let strip = "strip_prefix = \"/api\"";
        let vectors = [
            ("", "/api/a", None, &b"/api/a"[..]),
            ("", "/api/a", Some(&b""[..]), b"/api/a"),
            ("", "/a", Some(b"x=%7e&y=+"), b"/a?x=%7e&y=+"),
            ("", "/a", Some(b"x=\xff\xc3"), b"/a?x=\xff\xc3"),
            (strip, "/api/a", Some(b"q"), b"/a?q"),
            (strip, "/api", None, b"/"),
            (strip, "/apiary", None, b"/apiary"),
        ];
        for (route, path, query, target) in vectors {
            let mut request = request(b"/raw", &[]);
            set_target(&mut request, &context(route, path, query)).expect("a target");
            assert_eq!(request.raw_path(), target, "{path} {query:?}");
        }
    }

    #[test]
    fn an_address_is_written_as_the_standard_library_writes_it() {
        let mut addresses: Vec<IpAddr> = (0..=255).map(|octet| IpAddr::from([octet, 0, 255 - octet, 10])).collect();
        addresses.push("2001:db8::1".parse().expect("an address"));
        for address in addresses {
            let mut text = SmallVec::new();
            push_address(&mut text, address);
            assert_eq!(text.as_slice(), address.to_string().as_bytes());
        }
    }

    #[test]
    fn names_that_a_backend_may_fold_into_ours_are_removed() {
        let lines = [
            ("x-consumer-id", "evil"),
            ("X_Consumer_ID", "evil"),
            ("x-consumer_tier", "evil"),
            ("x_forwarded_for", "evil"),
            ("x-forwarded-for", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
            ("x-consumer-idle", "kept"),
            ("my_header", "kept"),
        ];
        for (trusted, kept) in [(false, 2), (true, 4)] {
            let mut headers = request(b"/", &lines).headers.clone();
            remove_spoofed(&mut headers, trusted);
            assert_eq!(headers.len(), kept, "{headers:?}");
            assert!(headers.values().all(|value| value != "evil"));
        }
    }
}
