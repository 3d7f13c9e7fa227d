//! Two aligned windows stand for one that slides: the previous count, weighed by how much of it is still inside the
//! last W, plus the current count.
//!
//! State: `[window start, current, previous]`. Constant memory and no double quota at an edge; the price is that the
//! previous window's requests are taken to have come evenly, so a count may be a little high or low for a real span.
//! The weighed share is rounded up. The waits are exact all the same: they say when this rule lets the cost pass.

use super::calendar::Frame;
use super::exact::{mul_div_ceil, mul_div_floor};
use super::{Algorithm, Quota, State, Units, Wait, check_no_capacity, check_no_max_wait, check_rate, held, is_known};
use crate::time::{Millis, Timestamp};

/// `sliding_window_counter`.
pub struct SlidingWindow;

/// Both windows as they count at an instant.
#[derive(Clone, Copy)]
struct View {
    frame: Frame,
    /// The instant: `now`, or the state's window if the clock is behind it.
    seen: Timestamp,
    current: Units,
    previous: Units,
}

impl View {
    fn at(quota: &Quota, state: &State, now: Timestamp) -> Self {
        let [start, current, previous] = state.cells();
        let (current, previous) = (held(current), held(previous));
        let counts = is_known(start) && (current > 0 || previous > 0);
        let seen = if counts { now.max(Timestamp(start)) } else { now };
        let frame = Frame::containing(quota.window, seen);
        let (current, previous) = if start == frame.start.0 {
            (current, previous)
        } else if start == frame.previous.0 {
            (0, current)
        } else {
            (0, 0)
        };
        Self { frame, seen, current, previous }
    }

    /// The window after this one, as it will stand if nothing is charged until then, at its first instant.
    fn next(&self, quota: &Quota) -> Self {
        let frame = Frame::containing(quota.window, self.frame.end);
        Self { frame, seen: frame.start, current: 0, previous: self.current }
    }

    fn estimate(&self) -> Units {
        let length = self.frame.previous_length().0;
        let share = (length - (self.seen - self.frame.start).0).clamp(0, length);
        mul_div_ceil(self.previous, share, length) + self.current
    }

    /// The first instant of this window, not before `seen`, at which `cost` fits.
    fn first_fit(&self, quota: &Quota, cost: Units) -> Option<Timestamp> {
        let room = quota.count - cost - self.current;
        if room < 0 {
            return None;
        }
        if self.previous <= room {
            return Some(self.seen);
        }
        // The share may be this long at most; ceil(previous * share / length) <= room says the same.
        let length = self.frame.previous_length();
        let share = mul_div_floor(room, length.0, self.previous);
        let fits = (self.frame.start + Millis(length.0 - share)).max(self.seen);
        (fits < self.frame.end).then_some(fits)
    }

    fn to_state(self) -> State {
        State::Cells([self.frame.start.0, held(self.current), held(self.previous)])
    }

    /// The count of the window that `at` was in, if it still counts.
    fn count_of(&mut self, at: Timestamp) -> Option<&mut Units> {
        if at >= self.frame.start {
            Some(&mut self.current)
        } else if at >= self.frame.previous {
            Some(&mut self.previous)
        } else {
            None
        }
    }
}

impl Algorithm for SlidingWindow {
    fn name(&self) -> &'static str {
        "sliding_window_counter"
    }

    fn check(&self, quota: &Quota) -> Result<(), String> {
        check_rate(quota)?;
        check_no_capacity(self.name(), quota)?;
        check_no_max_wait(quota)
    }

    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units {
        (quota.count - View::at(quota, state, now).estimate()).max(0)
    }

    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait {
        if cost == 0 {
            return Wait::Now;
        }
        if cost > quota.count {
            return Wait::Never;
        }
        let view = View::at(quota, state, now);
        if view.estimate() <= quota.count - cost {
            return Wait::Now;
        }
        let fits = view.first_fit(quota, cost).unwrap_or_else(|| {
            let next = view.next(quota);
            // In the window after the next nothing counts any more.
            next.first_fit(quota, cost).unwrap_or(next.frame.end)
        });
        Wait::after(fits - now)
    }

    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, _delay: Millis) {
        if cost == 0 {
            return;
        }
        let mut view = View::at(quota, state, now);
        view.current += held(cost);
        *state = view.to_state();
    }

    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let mut view = View::at(quota, state, now);
        if let Some(count) = view.count_of(at) {
            *count = (*count + held(cost)).min(quota.deepest()).max(*count);
            *state = view.to_state();
        }
    }

    fn refund(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let mut view = View::at(quota, state, now);
        if let Some(count) = view.count_of(at) {
            *count = (*count - held(cost)).max(0);
            *state = view.to_state();
        }
    }

    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        View::at(quota, state, now).frame.end - now
    }

    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp {
        let view = View::at(quota, state, now);
        match (view.current, view.previous) {
            (0, 0) => now,
            (0, _) => view.frame.end,
            _ => view.next(quota).frame.end,
        }
    }
}
