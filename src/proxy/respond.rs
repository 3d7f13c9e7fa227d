//! What the gateway says on an upstream's response: the request's id and its limits.
//!
//! The fields are changed as `http` holds them, for the reason of [`super::forward::rewrite`]. Never touched here: the body,
//! the status, and fields that are the upstream's own.

use super::context::Context;
use super::request_id::REQUEST_ID;
use crate::time::Clock;
use http::response::Parts;
use http::{HeaderMap, HeaderName};
use pingora::Result;
use pingora::http::ResponseHeader;

/// Fields that the gateway adds at most.
const ADDED: usize = 8;

/// Completes a response; of fields that are the gateway's to say, an upstream's copies go.
pub fn complete(response: &mut ResponseHeader, context: &Context) -> Result<()> {
    let canonical = response.status.canonical_reason();
    let reason = response.get_reason_phrase().filter(|reason| Some(*reason) != canonical).map(str::to_owned);
    let nothing = ResponseHeader::from(http::Response::new(()).into_parts().0);
    let mut parts = Parts::from(std::mem::replace(response, nothing));
    parts.headers.reserve(ADDED);
    parts.headers.entry(&REQUEST_ID).or_insert_with(|| context.request_id.clone());
    tell_limits(&mut parts.headers, context);
    *response = ResponseHeader::from(parts);
    match reason {
        Some(reason) => response.set_reason_phrase(Some(&reason)),
        None => Ok(()),
    }
}

fn tell_limits(headers: &mut HeaderMap, context: &Context) {
    let snapshot = &context.snapshot;
    let Some(decision) = context.decision.as_ref().filter(|decision| !decision.is_unlimited()) else { return };
    if headers.keys().any(may_be_owned) {
        for name in snapshot.style.owned_names() {
            headers.remove(name);
        }
    }
    snapshot.style.stamp(&decision.verdict(&snapshot.policy), Clock::wall(), &mut |name, value| {
        headers.insert(name, value);
    });
}

/// Whether it is worth looking for the gateway's names: all of them begin so, and few others do.
fn may_be_owned(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("ratelimit") || name.starts_with("x-ratelimit")
}
