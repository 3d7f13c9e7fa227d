//! When to come back: one wait, as the several fields tell it.
//!
//! All of them round up, so that a client that obeys any of them is not refused again by this wait.

use crate::time::Millis;
use http::{HeaderName, HeaderValue, header};

static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Waits below this are told in milliseconds too: whole seconds would make a client of a short window idle for most
/// of it.
pub const MILLISECONDS_BELOW: Millis = Millis::from_seconds(10);

/// `Retry-After` (RFC 9110 section 10.2.3): whole seconds, at least 1.
pub fn after_seconds(wait: Millis) -> i64 {
    wait.seconds_up().max(1)
}

/// `retry-after-ms`, a convention of several SDKs: whole milliseconds, at least 1; only for waits under ten seconds.
pub fn after_ms(wait: Millis) -> Option<i64> {
    (wait < MILLISECONDS_BELOW).then_some(wait.0.max(1))
}

/// The fields that tell `wait`.
pub fn fields(wait: Millis) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let seconds = (header::RETRY_AFTER, HeaderValue::from(after_seconds(wait)));
    let milliseconds = after_ms(wait).map(|ms| (RETRY_AFTER_MS.clone(), HeaderValue::from(ms)));
    std::iter::once(seconds).chain(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b115_a_wait_is_rounded_up_and_at_least_one_second() {
        let vectors =
            [(-7, 1), (0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (23_400, 24), (2_500, 3), (74_100_000, 74_100)];
        for (wait, seconds) in vectors {
            assert_eq!(after_seconds(Millis(wait)), seconds, "{wait} ms");
        }
        assert_eq!(after_seconds(Millis(i64::MAX)), i64::MAX / 1000 + 1);
    }

    #[test]
    fn milliseconds_are_told_of_short_waits_alone() {
        for (wait, ms) in [(-1, Some(1)), (0, Some(1)), (60, Some(60)), (9_999, Some(9_999)), (10_000, None)] {
            assert_eq!(after_ms(Millis(wait)), ms, "{wait} ms");
        }
    }
}
