//! A count in windows that all callers share the edges of: aligned to the Unix epoch, or to the UTC calendar.
//!
//! State: `[window start, used, 0]`. The cheapest of all and the one that contracts and invoices speak of; its price is
//! that the end of one window and the start of the next may each take a whole quota.

use super::calendar::Frame;
use super::{Algorithm, Quota, State, Units, Wait, check_no_capacity, check_no_max_wait, check_rate, held, is_known};
use crate::time::{Millis, Timestamp};

/// `fixed_window`.
pub struct FixedWindow;

/// The window that counts, and what was used in it.
struct View {
    frame: Frame,
    used: Units,
}

impl View {
    fn at(quota: &Quota, state: &State, now: Timestamp) -> Self {
        let [start, used, _] = state.cells();
        let used = held(used);
        let seen = if used > 0 && is_known(start) { now.max(Timestamp(start)) } else { now };
        let frame = Frame::containing(quota.window, seen);
        Self { used: if start == frame.start.0 { used } else { 0 }, frame }
    }

    fn to_state(&self) -> State {
        State::Cells([self.frame.start.0, held(self.used), 0])
    }
}

impl Algorithm for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed_window"
    }

    fn check(&self, quota: &Quota) -> Result<(), String> {
        check_rate(quota)?;
        check_no_capacity(self.name(), quota)?;
        check_no_max_wait(quota)
    }

    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units {
        (quota.count - View::at(quota, state, now).used).max(0)
    }

    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait {
        if cost == 0 {
            return Wait::Now;
        }
        if cost > quota.count {
            return Wait::Never;
        }
        let view = View::at(quota, state, now);
        if view.used <= quota.count - cost { Wait::Now } else { Wait::after(view.frame.end - now) }
    }

    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, _delay: Millis) {
        if cost == 0 {
            return;
        }
        let mut view = View::at(quota, state, now);
        view.used += held(cost);
        *state = view.to_state();
    }

    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let mut view = View::at(quota, state, now);
        if at >= view.frame.start {
            view.used = (view.used + held(cost)).min(quota.deepest()).max(view.used);
            *state = view.to_state();
        }
    }

    fn refund(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let mut view = View::at(quota, state, now);
        if at >= view.frame.start {
            view.used = (view.used - held(cost)).max(0);
            *state = view.to_state();
        }
    }

    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        View::at(quota, state, now).frame.end - now
    }

    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp {
        let view = View::at(quota, state, now);
        if view.used == 0 { now } else { view.frame.end }
    }
}
