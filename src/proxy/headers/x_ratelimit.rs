//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`: the names that most clients know (GitHub's meaning of them, where
//! the reset is an epoch in seconds, is the default).

use super::FieldGroup;
use http::HeaderName;

static NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// The three single values.
pub static TRIPLE: FieldGroup = FieldGroup {
    name: "x_ratelimit",
    enabled: |headers| headers.x_ratelimit,
    write: |frame, sink| {
        if let Some(single) = &frame.single {
            single.write(&NAMES, sink);
        }
    },
};
