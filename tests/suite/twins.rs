//! The arithmetic in Lua against the arithmetic in Rust: the same histories, exactly the same numbers.
//!
//! First the functions of each algorithm in an embedded Lua 5.1, from the very files that are shipped; then whole decisions
//! in a real Redis against the store in memory. A new algorithm is covered by being listed.

mod functions;
mod lua;
mod stores;
mod straight;

use proptest::prelude::*;
use sluicegate::algorithm::{Algorithm, MAX_COUNT, MAX_LOG_COUNT, Quota, UNIT, Units, Window, exact};
use sluicegate::time::Millis;

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        2 => (1..=10i64).prop_map(|span| Window::Span(Millis(span))),
        4 => (100..=100_000i64).prop_map(|span| Window::Span(Millis(span))),
        1 => Just(Window::Span(Millis(86_400_000))),
        2 => Just(Window::Month),
        1 => Just(Window::Year),
        1 => Just(Window::Span(Millis(3_660 * 86_400_000))),
    ]
}

fn counts() -> impl Strategy<Value = Units> {
    prop_oneof![
        4 => (1..=20i64).prop_map(|count| count * UNIT),
        1 => 1000..=20_000i64,
        2 => (1..=MAX_COUNT).prop_map(|count| count * UNIT),
        1 => Just(MAX_COUNT * UNIT),
        1 => UNIT..=MAX_COUNT * UNIT,
    ]
}

/// What a quota is made of, whatever the algorithm.
#[derive(Clone, Debug)]
struct Grant {
    count: Units,
    /// Thousandths of the count, for buckets.
    capacity: i64,
    window: Window,
    max_wait: Option<Millis>,
}

fn grants() -> impl Strategy<Value = Grant> {
    let max_wait = prop_oneof![2 => Just(None), 1 => (0..=5000i64).prop_map(|wait| Some(Millis(wait)))];
    let capacity = prop_oneof![Just(1000i64), 1..=3000i64];
    (counts(), capacity, windows(), max_wait).prop_map(|(count, capacity, window, max_wait)| Grant {
        count,
        capacity,
        window,
        max_wait,
    })
}

impl Grant {
    /// The nearest quota that the algorithm can serve.
    fn quota(&self, algorithm: &dyn Algorithm) -> Quota {
        let mut quota = Quota { count: self.count, window: self.window, capacity: self.count, max_wait: None };
        if algorithm.check(&quota).is_err() {
            quota.count = quota.count.min(MAX_LOG_COUNT * UNIT);
            quota.capacity = quota.count;
        }
        let capacity = exact::mul_div_ceil(quota.count, self.capacity, 1000).clamp(UNIT, MAX_COUNT * UNIT);
        for richer in [Quota { capacity, ..quota }, Quota { capacity, max_wait: self.max_wait, ..quota }] {
            if algorithm.check(&richer).is_ok() {
                quota = richer;
            }
        }
        algorithm.check(&quota).expect("a quota that the algorithm can serve");
        quota
    }
}

/// Units, or thousandths of the capacity.
fn costs() -> impl Strategy<Value = (Units, i64)> {
    prop_oneof![
        4 => Just((UNIT, 0)),
        2 => (0..=3 * UNIT).prop_map(|units| (units, 0)),
        3 => (0..=1100i64).prop_map(|share| (0, share)),
    ]
}

fn cost_of((units, share): (Units, i64), quota: &Quota) -> Units {
    units + exact::mul_div_floor(quota.capacity, share, 1000)
}
