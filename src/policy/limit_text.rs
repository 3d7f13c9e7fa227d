//! The texts of one limit that are the same in every response, written once at load time.
//!
//! The header styles and the refusal copy these and add only what a request changes. Nothing here knows of a request,
//! of what is left or of time.

use crate::algorithm::{Algorithm, Quota, UNIT, Window};
use crate::time::Millis;

/// The largest integer that a structured field can hold (RFC 9651 section 3.3.1): one digit more makes the recipient
/// drop the whole field.
pub const MAX_FIELD_INTEGER: i64 = 999_999_999_999_999;

/// The algorithms whose capacity is a thing apart from the count, so that a policy names both.
const BUCKETS: [&str; 2] = ["token_bucket", "leaky_bucket"];

/// What is written of one limit, whatever the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitText {
    /// Its item in the classic `RateLimit-Policy`: `100;w=60`, `600;w=60;burst=100`.
    pub classic_item: Box<str>,
    /// Its item in the `RateLimit-Policy` of structured fields: `"minute";q=100;w=60`.
    pub ietf_item: Box<str>,
    /// Its name as a structured-field string, quotes included.
    pub ietf_name: Box<str>,
    /// `100 requests per minute`.
    pub rate: Box<str>,
    /// The window as bodies have it: `60s`, `0.5s`, `month`, `year`.
    pub window: Box<str>,
}

impl LimitText {
    /// `name` has passed the configuration's check of names, so that it needs no escaping in any of the texts.
    pub fn new(name: &str, quota: &Quota, algorithm: &dyn Algorithm) -> Self {
        debug_assert!(name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-')));
        let is_bucket = BUCKETS.contains(&algorithm.name());
        let ietf_name = format!("\"{name}\"");
        Self {
            classic_item: classic_item(quota, is_bucket).into(),
            ietf_item: ietf_item(&ietf_name, quota, is_bucket).into(),
            ietf_name: ietf_name.into(),
            rate: rate_phrase(quota).into(),
            window: window_text(quota.window).into(),
        }
    }
}

/// `value` thousandths as a decimal number: at most three decimals, none that say nothing.
pub fn thousandths(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let (whole, part) = (value.unsigned_abs() / 1000, value.unsigned_abs() % 1000);
    if part == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{part:03}").trim_end_matches('0').to_owned()
}

fn classic_item(quota: &Quota, is_bucket: bool) -> String {
    let mut item = field_integer(quota.count / UNIT).to_string();
    if let Window::Span(span) = quota.window
        && let Some(seconds) = whole_seconds(i128::from(span.0))
    {
        item += &format!(";w={seconds}");
    }
    if is_bucket {
        item += &format!(";burst={}", field_integer(quota.capacity / UNIT));
    }
    item
}

/// `q` is what can be left at most, so that a client never reads `r` above `q`. For a bucket `w` is therefore the time
/// in which an empty one fills: `q` in `w` is the same rate as the configured one, whatever the burst.
fn ietf_item(quoted_name: &str, quota: &Quota, is_bucket: bool) -> String {
    let mut item = format!("{quoted_name};q={}", field_integer(quota.capacity / UNIT));
    let window = match quota.window {
        Window::Span(span) if is_bucket => {
            let product = i128::from(span.0) * i128::from(quota.capacity);
            let count = i128::from(quota.count.max(1));
            (product % count == 0).then_some(product / count)
        }
        Window::Span(span) => Some(i128::from(span.0)),
        Window::Month | Window::Year => None,
    };
    if let Some(seconds) = window.and_then(whole_seconds) {
        item += &format!(";w={seconds}");
    }
    item
}

/// A span as the parameter `w` can tell it: whole seconds, at least 1.
fn whole_seconds(span_ms: i128) -> Option<i64> {
    let seconds = (span_ms > 0 && span_ms % 1000 == 0).then_some(span_ms / 1000)?;
    i64::try_from(seconds).ok().filter(|seconds| *seconds <= MAX_FIELD_INTEGER)
}

fn field_integer(value: i64) -> i64 {
    value.clamp(0, MAX_FIELD_INTEGER)
}

fn window_text(window: Window) -> String {
    match window {
        Window::Span(Millis(span)) => format!("{}s", thousandths(span)),
        Window::Month => "month".to_owned(),
        Window::Year => "year".to_owned(),
    }
}

/// The rate in words, in the largest unit of time that divides its window.
fn rate_phrase(quota: &Quota) -> String {
    const UNITS_MS: [(i64, &str); 5] =
        [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"), (1, "millisecond")];
    let requests = counted(quota.count / UNIT, "request");
    match quota.window {
        Window::Month => format!("{requests} per month"),
        Window::Year => format!("{requests} per year"),
        Window::Span(Millis(span)) => {
            let (unit_ms, unit) = UNITS_MS
                .into_iter()
                .find(|(unit_ms, _)| span % unit_ms == 0)
                .expect("every span is whole milliseconds");
            match span / unit_ms {
                1 => format!("{requests} per {unit}"),
                number => format!("{requests} per {}", counted(number, unit)),
            }
        }
    }
}

/// A number and its noun, which takes an `s` for any number but 1.
pub fn counted(number: i64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests;
