//! Limits and verdicts for the tests of what clients see.

use crate::algorithm::{Quota, UNIT, Units, Wait, Window, by_name};
use crate::charge::Meter;
use crate::config::model::{Counts, Dialect, Headers, Layer, Mode, Reset};
use crate::limiter::verdict::{LimitStatus, Verdict};
use crate::policy::limit::Limit;
use crate::policy::limit_text::LimitText;
use crate::proxy::headers::Style;
use crate::time::{Millis, Timestamp};

/// `Tue, 01 Dec 2026 03:25:00 GMT`; UTC midnight is 74100 s away.
pub const DATE: Timestamp = Timestamp(1_796_095_500_000);

/// Whole seconds.
pub fn seconds(seconds: i64) -> Window {
    Window::Span(Millis::from_seconds(seconds))
}

/// A limit of the layer `key`, its capacity the count.
pub fn limit(name: &str, count: i64, window: Window) -> Limit {
    bucket("sliding_window_counter", name, count, window, count)
}

/// A limit whose capacity is set apart.
pub fn bucket(algorithm: &str, name: &str, count: i64, window: Window, capacity: i64) -> Limit {
    let algorithm = by_name(algorithm).expect("a known algorithm");
    let quota = Quota { count: count * UNIT, window, capacity: capacity * UNIT, max_wait: None };
    Limit {
        name: name.into(),
        layer: Layer::Key,
        text: LimitText::new(name, &quota, algorithm),
        meter: Meter::alone(name, algorithm, quota),
        per: Vec::new(),
        counts: Counts::Cost,
        tiers: None,
        mode: Mode::Enforce,
        expose: true,
        when: None,
    }
}

/// How a limit stands that does not refuse a request of cost 1.
pub fn fits(limit: &Limit, remaining: Units, reset_ms: i64) -> LimitStatus<'_> {
    LimitStatus { limit, cost: UNIT, remaining, wait: Wait::Now, reset: Millis(reset_ms) }
}

/// How a limit stands that refuses a request of cost 1.
pub fn refuses(limit: &Limit, remaining: Units, wait_ms: i64) -> LimitStatus<'_> {
    LimitStatus {
        limit,
        cost: UNIT,
        remaining,
        wait: Wait::After(Millis(wait_ms)),
        reset: Millis(wait_ms + 86_400_000),
    }
}

/// Admitted unless a status refuses.
pub fn verdict<'a>(statuses: impl IntoIterator<Item = LimitStatus<'a>>) -> Verdict<'a> {
    let statuses: smallvec::SmallVec<_> = statuses.into_iter().collect();
    let admitted = !statuses.iter().any(LimitStatus::refuses);
    Verdict { statuses, admitted, at: DATE, delay: Millis(0) }
}

/// A style with the `X-` fields.
pub fn style(dialect: Dialect, reset: Reset) -> Style {
    Style::new(&Headers { dialect, x_ratelimit: true, reset })
}
