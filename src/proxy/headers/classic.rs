//! The fields of the first drafts (draft-ietf-httpapi-ratelimit-headers-06 and before), as most gateways send them:
//! three single values, and a policy that lists every limit.
//!
//! The drafts' reset is a number of seconds; the configuration may make it an epoch instead.

use super::{FieldGroup, Frame, Sink};
use crate::config::model::Dialect;
use http::{HeaderName, HeaderValue};
use smallvec::SmallVec;

static POLICY_NAME: HeaderName = HeaderName::from_static("ratelimit-policy");

static TRIPLE_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// `RateLimit-Policy: 20;w=1, 100;w=60`. Where the structured fields are on, the name is theirs.
pub static POLICY: FieldGroup =
    FieldGroup { name: "classic policy", enabled: |headers| headers.dialect == Dialect::Classic, write: write_policy };

/// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
pub static TRIPLE: FieldGroup = FieldGroup {
    name: "classic",
    enabled: |headers| matches!(headers.dialect, Dialect::Classic | Dialect::Both),
    write: |frame, sink| {
        if let Some(single) = &frame.single {
            single.write(&TRIPLE_NAMES, sink);
        }
    },
};

fn write_policy(frame: &Frame<'_, '_>, sink: &mut Sink<'_>) {
    let mut policy = SmallVec::<[u8; 128]>::new();
    for status in frame.verdict.visible() {
        if !policy.is_empty() {
            policy.extend_from_slice(b", ");
        }
        policy.extend_from_slice(status.limit.text.classic_item.as_bytes());
    }
    if !policy.is_empty() {
        let value = HeaderValue::from_bytes(&policy).expect("items are digits and parameters");
        sink(POLICY_NAME.clone(), value);
    }
}
