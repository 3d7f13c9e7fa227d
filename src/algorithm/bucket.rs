//! What the token bucket and the leaky bucket share: a level that drains at Q units in W.
//!
//! State: `[last, used, part]`, a level of `used + part/W` units as it stood at the instant `last`; the fraction is
//! kept, so that a drop that takes a third of a second takes exactly that, however often the bucket is looked
//! at. Here the level is one number scaled by W, so that a millisecond drains exactly Q of it: no division, no
//! rounding. It holds what is *used*, never what is left: a changed quota or burst then needs no conversion.
//! This module knows no capacity: what may be inside is for the two algorithms to say.

use super::exact::{div_ceil, div_floor};
use super::{HORIZON_MS, MAX_SPAN_MS, Quota, State, Units, held, is_known};
use crate::time::{Millis, Timestamp};

/// A level at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Q: what drains in one window, and so the scaled level that drains in one millisecond.
    rate: i64,
    /// W in milliseconds.
    window: i64,
    /// When the level was, or will be, as it is here.
    last: i64,
    /// Units times W; not negative.
    level: i128,
}

impl Bucket {
    /// The level as the state has it, at the instant of its last charge.
    pub(super) fn stored(quota: &Quota, state: &State) -> Self {
        let [last, used, part] = state.cells();
        let window = quota.window.nominal().0;
        let level = i128::from(held(used)) * i128::from(window) + i128::from(part.clamp(0, window - 1));
        Self { rate: quota.count, window, last, level: if is_known(last) { level } else { 0 } }
    }

    /// The level at `now`, or at the last charge if `now` is earlier: a clock that steps back drains nothing.
    pub(super) fn at(quota: &Quota, state: &State, now: Timestamp) -> Self {
        let mut bucket = Self::stored(quota, state);
        bucket.drain_to(now);
        bucket
    }

    pub(super) fn drain_to(&mut self, now: Timestamp) {
        let now = now.0.clamp(-HORIZON_MS, HORIZON_MS);
        if self.level == 0 {
            self.last = now;
        } else if now > self.last {
            self.level = (self.level - self.drained_in(now - self.last)).max(0);
            self.last = now;
        }
    }

    /// The instant of the level.
    pub(super) fn last(&self) -> Timestamp {
        Timestamp(self.last)
    }

    /// Units inside, rounded up.
    pub(super) fn used(&self) -> Units {
        div_ceil(self.level, self.window)
    }

    /// From `now`, how long until at most `units` are inside.
    pub(super) fn until_at_most(&self, units: Units, now: Timestamp) -> Millis {
        self.until_level(self.scaled(units), now)
    }

    /// From `now`, how long until the bucket is empty.
    pub(super) fn until_empty(&self, now: Timestamp) -> Millis {
        self.until_level(0, now)
    }

    fn until_level(&self, level: i128, now: Timestamp) -> Millis {
        let excess = self.level - level;
        if excess <= 0 {
            return Millis(0);
        }
        // While the clock is behind `last`, it first has to get there.
        let behind = self.last - now.0.clamp(-HORIZON_MS, HORIZON_MS);
        Millis(div_ceil(excess, self.rate).saturating_add(behind).clamp(0, MAX_SPAN_MS))
    }

    /// Adds cost.
    pub(super) fn add(&mut self, cost: Units) {
        self.level += self.scaled(held(cost));
    }

    /// Adds cost, but not so that more than `limit` units are inside.
    pub(super) fn add_up_to(&mut self, cost: Units, limit: Units) {
        let wanted = self.level + self.scaled(held(cost));
        self.level = wanted.min(self.scaled(limit)).max(self.level);
    }

    /// Makes the bucket empty at `instant`, which is not before it drains by itself, and keeps it from draining until
    /// then.
    pub(super) fn idle_until(&mut self, instant: Timestamp) {
        self.last = instant.0.clamp(self.last, HORIZON_MS);
        self.level = 0;
    }

    /// Takes out cost, down to empty, less what drains in `gone`.
    pub(super) fn remove(&mut self, cost: Units, gone: Millis) {
        let inside = (self.scaled(held(cost)) - self.drained_in(gone.0.max(0))).max(0);
        self.level = (self.level - inside).max(0);
    }

    /// The state of this level.
    pub(super) fn to_state(self) -> State {
        let used = div_floor(self.level, self.window);
        // Held units end far beyond any quota; what is cut there was a debt that nobody will live to work off.
        let part = self.level - self.scaled(used);
        State::Cells([self.last, held(used), i64::try_from(part).unwrap_or(0)])
    }

    fn scaled(&self, units: Units) -> i128 {
        i128::from(units) * i128::from(self.window)
    }

    fn drained_in(&self, span: i64) -> i128 {
        i128::from(span) * i128::from(self.rate)
    }
}
