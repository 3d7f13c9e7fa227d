//! Placeholder.
use super::{Algorithm, Quota, State, Units, Wait};
use crate::time::{Millis, Timestamp};

/// Placeholder.
pub struct FixedWindow;

impl Algorithm for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed_window"
    }
    fn check(&self, _: &Quota) -> Result<(), String> {
        Ok(())
    }
    fn remaining(&self, quota: &Quota, _: &State, _: Timestamp) -> Units {
        quota.capacity
    }
    fn wait(&self, _: &Quota, _: &State, _: Timestamp, _: Units) -> Wait {
        Wait::Now
    }
    fn charge(&self, _: &Quota, _: &mut State, _: Timestamp, _: Units, _: Millis) {}
    fn refund(&self, _: &Quota, _: &mut State, _: Timestamp, _: Timestamp, _: Units) {}
    fn reset(&self, _: &Quota, _: &State, _: Timestamp) -> Millis {
        Millis(0)
    }
    fn fresh_at(&self, _: &Quota, _: &State, now: Timestamp) -> Timestamp {
        now
    }
}
