//! The arithmetic of limits: what a counter holds, whether a cost fits, and how long to wait if it does not.
//!
//! An [`Algorithm`] is a handful of integer functions over a small [`State`]. It reads no clock, does no I/O and
//! knows neither requests nor stores: time and cost come in as values, the new state goes out. A store owns
//! atomicity alone. All arithmetic is exact: costs are thousandths of a request ([`UNIT`]), time is whole
//! milliseconds, products that pass 64 bits are taken in 128 ([`exact`]). Nothing is ever rounded in a caller's favour.
//!
//! Time that steps back grants nothing: an algorithm works with the later of `now` and what its state has seen.
//! `docs/algorithms.md` is the definition that this code follows.

pub mod calendar;
pub mod exact;
mod fixed_window;
mod leaky_bucket;
mod sliding_log;
mod sliding_window;
mod token_bucket;

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

    /// Gives back `cost` that was charged at `at`; what has already left the window is not given back twice.
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

/// Every algorithm; the configuration, the property tests and the conformance suite read this list.
pub static ALGORITHMS: &[&dyn Algorithm] = &[&FixedWindow, &SlidingLog, &SlidingWindow, &TokenBucket, &LeakyBucket];

/// The algorithm of that name, if there is one.
pub fn by_name(name: &str) -> Option<&'static dyn Algorithm> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name() == name)
}
