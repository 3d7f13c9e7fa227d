//! The arithmetic of limits: what a counter holds, whether a cost fits, and how long to wait if it does not.
//!
//! An [`Algorithm`] is a handful of integer functions over a small [`State`]. It reads no clock, does no I/O and
//! knows neither requests nor stores: time and cost come in as values, the new state goes out. A store owns
//! atomicity alone. All arithmetic is exact: costs are thousandths of a request ([`UNIT`]), time is whole
//! milliseconds, products that pass 64 bits are taken in 128 ([`exact`]). Nothing is ever rounded in a caller's favour.
//!
//! Time that steps back grants nothing: an algorithm works with the later of `now` and what its state has seen.
//! `docs/algorithms.md` is the definition that this code follows.

mod bucket;
pub mod calendar;
pub mod exact;
mod fixed_window;
mod leaky_bucket;
mod sliding_log;
mod sliding_window;
mod token_bucket;

#[cfg(test)]
mod tests;

use crate::time::{Millis, Timestamp};

pub use fixed_window::FixedWindow;
pub use leaky_bucket::LeakyBucket;
pub use sliding_log::{Log, MAX_LOG_COUNT, SlidingLog};
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// Cost and quota in thousandths of a request, so that a cost of three decimals is a whole number.
pub type Units = i64;

/// One request of cost 1.
pub const UNIT: Units = 1000;

/// The largest count a quota may have: 1e12 requests, 1e15 units, far below 2^53.
pub const MAX_COUNT: i64 = 1_000_000_000_000;

/// The longest window, ten years and a little: long enough for any contract, short enough that no edge overflows.
pub const MAX_WINDOW: Millis = Millis(3_660 * 86_400_000);

/// Instants further than this from the epoch (some 278 years) count as this far; a state with such an instant is broken
/// and counts as fresh.
pub const HORIZON_MS: i64 = 1 << 43;

/// The longest span an answer names, some 140 000 years; a longer wait (a burst of 1e12 at one a year) is shown as
/// this.
const MAX_SPAN_MS: i64 = 1 << 52;

/// The most units a counter holds: above twice the largest quota and burst together, exact in a double.
const MAX_HELD: Units = 1 << 52;

/// The length of time that a quota is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// A fixed span; windows are aligned to the Unix epoch (so a day is a UTC day).
    Span(Millis),
    /// A calendar month, UTC. For algorithms without aligned windows: 30 days.
    Month,
    /// A calendar year, UTC. For algorithms without aligned windows: 365 days.
    Year,
}

impl Window {
    /// Its length for comparing and for algorithms without aligned windows: a month is 30 days, a year 365.
    pub const fn nominal(self) -> Millis {
        match self {
            Self::Span(span) => span,
            Self::Month => Millis(30 * 86_400_000),
            Self::Year => Millis(365 * 86_400_000),
        }
    }
}

/// What a limit grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Q: units in one window; 1 to [`MAX_COUNT`] requests.
    pub count: Units,
    /// W.
    pub window: Window,
    /// What can be left at most: a bucket's burst, a leaky bucket's queue, else `count`.
    pub capacity: Units,
    /// Leaky bucket: refuse instead of holding longer than this.
    pub max_wait: Option<Millis>,
}

impl Quota {
    /// The most that may be inside once costs known late are charged: a debt is at most one quota deep.
    const fn deepest(&self) -> Units {
        self.capacity + self.count
    }
}

/// What a counter remembers. `Cells` of zeros is a fresh counter for every algorithm but the log, whose fresh
/// state is an empty `Log`; a state of the other kind (an old format, a broken value) counts as fresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Up to three integers, their meaning given by the algorithm; unused ones are 0.
    Cells([i64; 3]),
    /// The sliding log's entries.
    Log(Box<Log>),
}

impl State {
    /// A counter that nothing has been charged to.
    pub const FRESH: Self = Self::Cells([0; 3]);

    /// The integers; those of a fresh counter when the state is of the other kind.
    pub fn cells(&self) -> [i64; 3] {
        match self {
            Self::Cells(cells) => *cells,
            Self::Log(_) => [0; 3],
        }
    }
}

/// How long until a cost fits, absent other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It fits now.
    Now,
    /// It fits after this span (at least 1 ms) and not one millisecond earlier.
    After(Millis),
    /// It is more than the limit can ever hold.
    Never,
}

impl Wait {
    /// This span, which is no wait at all when it is not positive.
    fn after(span: Millis) -> Self {
        if span.0 <= 0 { Self::Now } else { Self::After(Millis(span.0.min(MAX_SPAN_MS))) }
    }
}

/// One rate-limiting algorithm. For all methods: `quota` has passed [`Algorithm::check`], `cost` is ≥ 0.
///
/// Invariants, held by the property tests of every algorithm in [`ALGORITHMS`]:
/// `remaining >= cost` ⇔ `wait(cost) == Now` for cost > 0; a cost of 0 always fits and charging it changes
/// nothing; after `wait(cost)` the cost fits and one millisecond earlier it does not; charging and refunding
/// at one instant leaves what can be admitted unchanged; at `fresh_at` the state admits what a fresh one admits.
pub trait Algorithm: Sync + 'static {
    /// The name in configuration, metrics and documentation.
    fn name(&self) -> &'static str;

    /// Refuses a quota this algorithm cannot serve, saying why for an operator.
    fn check(&self, quota: &Quota) -> Result<(), String>;

    /// Units that could be admitted now; never negative.
    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units;

    /// How long until `cost` fits.
    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait;

    /// How long an admitted request is held before it goes on; only the leaky bucket holds any.
    fn delay(&self, _quota: &Quota, _state: &State, _now: Timestamp) -> Millis {
        Millis(0)
    }

    /// Takes `cost`. `delay` is how long the request is really held (the longest of all its limits);
    /// only the leaky bucket heeds it, so that departures stay apart. Charging more than `remaining` is
    /// allowed (a debt, a shadow limit) and never overflows.
    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, delay: Millis);

    /// Takes `cost` that became known only after its request was charged at `at`: never from a later window than the
    /// request's, and never so that more than one quota of debt stands open. What has left the window is not charged.
    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let _ = at;
        self.charge(quota, state, now, cost, Millis(0));
    }

    /// Gives back `cost` that was charged at `at`, as far as it is certain to be still in the window, the log or the
    /// bucket: what has left or drained is not given back twice.
    fn refund(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units);

    /// The reset shown on an accepted response: the end of the current window, when the oldest entry of a log
    /// leaves, or when a bucket is full again. Not 0 while `remaining` is below one request.
    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis;

    /// From this instant on the counter equals a fresh one and may be forgotten.
    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp;
}

impl std::fmt::Debug for dyn Algorithm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Units as a counter may hold them: a broken value is the nearest sane one.
fn held(units: Units) -> Units {
    units.clamp(0, MAX_HELD)
}

/// Whether an instant in a state can be one.
fn is_known(instant: i64) -> bool {
    (-HORIZON_MS..=HORIZON_MS).contains(&instant)
}

fn check_rate(quota: &Quota) -> Result<(), String> {
    if !(UNIT..=MAX_COUNT * UNIT).contains(&quota.count) {
        return Err(format!("the count must be from 1 to {MAX_COUNT}"));
    }
    if !(Millis(1)..=MAX_WINDOW).contains(&quota.window.nominal()) {
        return Err(format!("the window must be from 1 ms to {} days", MAX_WINDOW.0 / 86_400_000));
    }
    Ok(())
}

fn check_capacity(field: &str, quota: &Quota) -> Result<(), String> {
    if (UNIT..=MAX_COUNT * UNIT).contains(&quota.capacity) {
        Ok(())
    } else {
        Err(format!("the {field} must be from 1 to {MAX_COUNT}"))
    }
}

fn check_no_capacity(name: &str, quota: &Quota) -> Result<(), String> {
    if quota.capacity == quota.count { Ok(()) } else { Err(format!("{name} has neither a burst nor a queue")) }
}

fn check_no_max_wait(quota: &Quota) -> Result<(), String> {
    if quota.max_wait.is_none() { Ok(()) } else { Err("only leaky_bucket has a max_wait".to_owned()) }
}

/// Every algorithm; the configuration, the property tests and the conformance suite read this list.
pub static ALGORITHMS: &[&dyn Algorithm] = &[&FixedWindow, &SlidingLog, &SlidingWindow, &TokenBucket, &LeakyBucket];

/// The algorithm of that name, if there is one.
pub fn by_name(name: &str) -> Option<&'static dyn Algorithm> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name() == name)
}
