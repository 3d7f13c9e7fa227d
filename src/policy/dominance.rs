//! Whether one limit always refuses before another can, whatever the traffic.
//!
//! Both must see the same requests at the same costs in the same counters. Then what the tighter one admits is bounded: in any
//! span `t` by `a + Q·t/W`, where `a` depends on the algorithm. The other one never refuses when that bound fits into it.
//! The bounds are those of `docs/algorithms.md`, taken so that a doubt is a "no": a limit that could bind is never called useless.
//! A leaky bucket is compared with leaky buckets alone, for it holds requests too.

use super::limit::Limit;
use crate::algorithm::{Algorithm, Units};
use crate::algorithm::{FixedWindow, Quota, SlidingLog, SlidingWindow, TokenBucket, Window};
use crate::config::model::Mode;

/// The shortest and the longest a window can be.
const MONTH_DAYS: (i128, i128) = (28, 31);
const YEAR_DAYS: (i128, i128) = (365, 366);

/// Milliseconds of a day.
const DAY_MS: i128 = 86_400_000;

/// Whether `tight` refuses everything that `loose` would refuse.
pub fn always_first(tight: &Limit, loose: &Limit) -> bool {
    tight.mode == Mode::Enforce
        && loose.mode == Mode::Enforce
        && tight.counts == loose.counts
        && tight.per == loose.per
        && tight.meter.on_error == loose.meter.on_error
        && covers(tight.tiers.as_deref(), loose.tiers.as_deref())
        && (tight.when.is_none() || tight.when == loose.when)
        && bounds(tight, loose)
}

/// Whether the first list of tiers holds all of the second; absent holds all.
fn covers(wide: Option<&[usize]>, narrow: Option<&[usize]>) -> bool {
    match (wide, narrow) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) => narrow.iter().all(|tier| wide.contains(tier)),
    }
}

fn bounds(tight: &Limit, loose: &Limit) -> bool {
    let (small, large) = (&tight.meter.quota, &loose.meter.quota);
    let (tight, loose) = (tight.meter.algorithm.name(), loose.meter.algorithm.name());
    let is_same_window = small.window == large.window && small.max_wait == large.max_wait;
    if tight == loose && is_same_window {
        return small.count <= large.count && small.capacity <= large.capacity;
    }
    if is_aligned(tight) && loose == FixedWindow.name() && fits_whole(small, large) {
        return true;
    }
    let Some(at_once) = at_once(tight, small) else { return false };
    let at_once = i128::from(at_once);
    // Within the longest that the other's window can be; by the shortest that its own can be.
    let (shortest, _) = lengths(small.window);
    let in_window = |spans: i128| (at_once * spans + 1) * shortest + i128::from(small.count) * lengths(large.window).1;
    let room = |units: Units| i128::from(units) * shortest;
    match loose {
        name if name == FixedWindow.name() || name == SlidingLog.name() => in_window(1) <= room(large.count),
        // A share of the window before counts too.
        name if name == SlidingWindow.name() => in_window(2) <= room(large.count),
        name if name == TokenBucket.name() => {
            let is_slower = i128::from(small.count) * lengths(large.window).1 <= room(large.count);
            at_once <= i128::from(large.capacity) && is_slower
        }
        _ => false,
    }
}

/// Whether no aligned window admits more than the count.
fn is_aligned(algorithm: &str) -> bool {
    algorithm == FixedWindow.name() || algorithm == SlidingWindow.name()
}

/// Whether so many of the small windows as the large one consists of hold no more than it. Windows are aligned alike.
fn fits_whole(small: &Quota, large: &Quota) -> bool {
    let (Window::Span(span), (_, longest)) = (small.window, lengths(large.window)) else { return false };
    let span = i128::from(span.0);
    let is_whole = longest % span == 0 && (matches!(large.window, Window::Span(_)) || DAY_MS % span == 0);
    is_whole && i128::from(small.count) * (longest / span) <= i128::from(large.count)
}

/// What may be admitted at one moment beyond the steady rate; none for algorithms of which that is not said here.
fn at_once(algorithm: &str, quota: &Quota) -> Option<Units> {
    match algorithm {
        // The end of one window and the beginning of the next.
        name if is_aligned(name) => Some(2 * quota.count),
        name if name == SlidingLog.name() => Some(quota.count),
        name if name == TokenBucket.name() => Some(quota.capacity),
        _ => None,
    }
}

/// The shortest and the longest that a window can be, in milliseconds.
fn lengths(window: Window) -> (i128, i128) {
    match window {
        Window::Span(span) => (i128::from(span.0), i128::from(span.0)),
        Window::Month => (MONTH_DAYS.0 * DAY_MS, MONTH_DAYS.1 * DAY_MS),
        Window::Year => (YEAR_DAYS.0 * DAY_MS, YEAR_DAYS.1 * DAY_MS),
    }
}
