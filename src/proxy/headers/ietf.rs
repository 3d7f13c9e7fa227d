//! `RateLimit` and `RateLimit-Policy` as structured fields (draft-ietf-httpapi-ratelimit-headers-11, RFC 9651): one
//! item for each limit, named.
//!
//! A field that does not parse is dropped whole by its recipient, so integers are kept within the fifteen digits that
//! are allowed. `t` is the span until something is given back, never an epoch, whatever `reset` says.

use super::{FieldGroup, Frame, Sink, reset_seconds};
use crate::config::model::Dialect;
use crate::policy::limit_text::MAX_FIELD_INTEGER;
use http::{HeaderName, HeaderValue};
use smallvec::SmallVec;

static POLICY_NAME: HeaderName = HeaderName::from_static("ratelimit-policy");
static STATE_NAME: HeaderName = HeaderName::from_static("ratelimit");

/// `RateLimit-Policy: "minute";q=100;w=60` and `RateLimit: "minute";r=73;t=27`.
pub static PAIR: FieldGroup = FieldGroup {
    name: "ietf",
    enabled: |headers| matches!(headers.dialect, Dialect::Ietf | Dialect::Both),
    write: write_pair,
};

/// One field in the making; five limits of common names fit without allocating.
type Text = SmallVec<[u8; 256]>;

fn write_pair(frame: &Frame<'_, '_>, sink: &mut Sink<'_>) {
    let (mut policy, mut state) = (Text::new(), Text::new());
    for status in frame.verdict.visible() {
        if !policy.is_empty() {
            policy.extend_from_slice(b", ");
            state.extend_from_slice(b", ");
        }
        policy.extend_from_slice(status.limit.text.ietf_item.as_bytes());
        state.extend_from_slice(status.limit.text.ietf_name.as_bytes());
        state.extend_from_slice(b";r=");
        push_integer(&mut state, status.remaining_requests().min(MAX_FIELD_INTEGER));
        state.extend_from_slice(b";t=");
        push_integer(&mut state, reset_seconds(status, frame.verdict.admitted));
    }
    if !policy.is_empty() {
        for (name, text) in [(&POLICY_NAME, policy), (&STATE_NAME, state)] {
            let value = HeaderValue::from_bytes(&text).expect("items are names, digits and parameters");
            sink(name.clone(), value);
        }
    }
}

/// Writes a number that is not negative.
fn push_integer(text: &mut Text, number: i64) {
    /// As many as the largest `u64` has.
    const MAX_DIGITS: usize = 20;
    let mut digits = [b'0'; MAX_DIGITS];
    let mut rest = number.max(0).unsigned_abs();
    let mut start = MAX_DIGITS;
    loop {
        start -= 1;
        digits[start] = b"0123456789"[(rest % 10) as usize];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}
