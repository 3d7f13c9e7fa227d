//! What goes upstream: the normalised path, without the key, with the headers that the gateway vouches for.
//!
//! Client-sent copies of our headers are removed first, in every spelling that a backend may fold into the same name
//! (`X_Consumer_Id`), so that what arrives under these names always comes from us.

use super::context::Context;
use super::request_id::REQUEST_ID;
use crate::policy::Policy;
use crate::request::credential;
use http::{HeaderName, HeaderValue, header};
use pingora::Result;
use pingora::http::RequestHeader;
use std::borrow::Cow;

const CONSUMER_ID: HeaderName = HeaderName::from_static("x-consumer-id");
const CONSUMER_TIER: HeaderName = HeaderName::from_static("x-consumer-tier");
const KEY_ID: HeaderName = HeaderName::from_static("x-key-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

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
pub fn rewrite(request: &mut RequestHeader, context: &Context) -> Result<()> {
    let policy = &context.snapshot.policy;
    set_target(request, context)?;
    // Pingora removes it from HTTP/1.1 alone.
    request.remove_header(&header::PROXY_AUTHORIZATION);
    remove_spoofed(request, context.trusted_peer);
    if !policy.forward_credentials {
        remove_credentials(request, policy)?;
    }
    join_cookies(request)?;
    set_origin(request, context)?;
    set_identity(request, context)
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

fn remove_spoofed(request: &mut RequestHeader, trusted_peer: bool) {
    let spoofed = |name: &HeaderName| {
        let name = name.as_str();
        let has_underscore = name.contains('_');
        if !has_underscore && !matches!(name.as_bytes()[0], b'x' | b't' | b'c' | b'f') {
            return false;
        }
        let is_in = |names: &[&str]| names.iter().any(|owned| folds_to(name, owned));
        is_in(&OWNED) || (is_in(&ORIGIN) && (!trusted_peer || has_underscore))
    };
    let names: Vec<HeaderName> = request.headers.keys().filter(|name| spoofed(name)).cloned().collect();
    for name in &names {
        request.remove_header(name);
    }
}

/// Whether a backend that takes `_` for `-` reads `name` as `owned`.
fn folds_to(name: &str, owned: &str) -> bool {
    let folded = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.len() == owned.len() && folded.eq(owned.bytes())
}

fn remove_credentials(request: &mut RequestHeader, policy: &Policy) -> Result<()> {
    for (name, values) in credential::strip_headers(&policy.sources, &request.headers) {
        request.remove_header(&name);
        for value in values {
            request.append_header(name.clone(), value)?;
        }
    }
    Ok(())
}

/// HTTP/2 clients send each cookie in a field of its own; whoever knows HTTP/1.1 alone reads the first (RFC 9113, section 8.2.3).
fn join_cookies(request: &mut RequestHeader) -> Result<()> {
    let cookies: Vec<&[u8]> = request.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1 {
        let joined =
            HeaderValue::from_bytes(&cookies.join(&b"; "[..])).expect("header values joined are a header value");
        request.insert_header(header::COOKIE, joined)?;
    }
    Ok(())
}

fn set_origin(request: &mut RequestHeader, context: &Context) -> Result<()> {
    if let Some(peer) = context.peer {
        let peer = peer.to_string();
        let lines = request.headers.get_all(&FORWARDED_FOR).iter();
        let chain: Vec<&[u8]> = lines.map(HeaderValue::as_bytes).chain([peer.as_bytes()]).collect();
        let chain = HeaderValue::from_bytes(&chain.join(&b", "[..]));
        request.insert_header(FORWARDED_FOR, chain.expect("header values and an address joined are a header value"))?;
    }
    if !request.headers.contains_key(&FORWARDED_PROTO) {
        let scheme = if context.is_tls { "https" } else { "http" };
        request.insert_header(FORWARDED_PROTO, HeaderValue::from_static(scheme))?;
    }
    if let Some(host) = &context.host {
        if request.headers.get(header::HOST) != Some(host) {
            request.insert_header(header::HOST, host.clone())?;
        }
        if !request.headers.contains_key(&FORWARDED_HOST) {
            request.insert_header(FORWARDED_HOST, host.clone())?;
        }
    }
    request.insert_header(REQUEST_ID, context.request_id.clone())
}

fn set_identity(request: &mut RequestHeader, context: &Context) -> Result<()> {
    let policy = &context.snapshot.policy;
    // A name that is no header value fails the request: an upstream must not take an empty one for an identity.
    if let Some(consumer) = context.consumer {
        request.insert_header(CONSUMER_ID, &*policy.consumers[consumer].name)?;
    }
    if let Some(key) = context.key {
        request.insert_header(KEY_ID, policy.keys.record(key).id())?;
    }
    request.insert_header(CONSUMER_TIER, context.snapshot.tier_header(context.tier).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use crate::metrics::Metrics;
    use crate::proxy::snapshot::Snapshot;
    use crate::time::Timestamp;
    use std::sync::Arc;

    /// A request on the first of these routes, as far as the decision has learnt.
    fn context(route: &str, path: &str, query: Option<&[u8]>) -> Context {
        let main = format!("[upstreams.a]\nservers = [\"127.0.0.1:9\"]\n[[routes]]\nmatch = \"*\"\n{route}");
        let config = load_text("test.toml", &main, None, &|_| None).config.expect("valid");
        let snapshot = Snapshot::compile(&config, 1).0.expect("valid");
        let mut context = Context::new(Arc::new(snapshot), Timestamp(0), Arc::new(Metrics::new()));
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
            let mut request = request(b"/", &lines);
            remove_spoofed(&mut request, trusted);
            assert_eq!(request.headers.len(), kept, "{:?}", request.headers);
            assert!(request.headers.values().all(|value| value != "evil"));
        }
    }
}
