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
    remove_spoofed(request, context.trusted_peer);
    if !policy.forward_credentials {
        remove_credentials(request, policy)?;
    }
    set_origin(request, context)?;
    set_identity(request, context)
}

/// Path and query as forwarded: normalised, the route's prefix stripped, the key removed.
fn set_target(request: &mut RequestHeader, context: &Context) -> Result<()> {
    let path = stripped(context);
    let target = match &context.query {
        Some(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    };
    if request.raw_path() != target.as_bytes() {
        request.set_raw_path(target.as_bytes())?;
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
        let folded = name.replace('_', "-");
        let owned = OWNED.contains(&folded.as_str());
        owned || (ORIGIN.contains(&folded.as_str()) && (!trusted_peer || has_underscore))
    };
    let names: Vec<HeaderName> = request.headers.keys().filter(|name| spoofed(name)).cloned().collect();
    for name in &names {
        request.remove_header(name);
    }
}

fn remove_credentials(request: &mut RequestHeader, policy: &Policy) -> Result<()> {
    let stripped = credential::strip(&policy.sources, &request.headers, None);
    for (name, values) in stripped.headers {
        request.remove_header(&name);
        for value in values {
            request.append_header(name.clone(), value)?;
        }
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
        request.insert_header(FORWARDED_PROTO, HeaderValue::from_static("http"))?;
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
    let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    if let Some(consumer) = context.consumer {
        request.insert_header(CONSUMER_ID, value(&policy.consumers[consumer].name))?;
    }
    if let Some(key) = context.key {
        request.insert_header(KEY_ID, value(policy.keys.record(key).id()))?;
    }
    request.insert_header(CONSUMER_TIER, value(&policy.tiers[context.tier].name))
}
