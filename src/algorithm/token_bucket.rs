//! A bucket of B tokens, refilled continuously at Q in W, full at the start: bursts up to B, Q/W in the long run.
//!
//! State: `[last, used, part]` (see [`super::bucket`]). It counts the tokens that are missing, so that a fresh
//! counter is all zeros and a burst that is changed by a reload applies at once. Refill has no ticks: any millisecond
//! at which the arithmetic says that a token is whole, it is.

use super::bucket::Bucket;
use super::{Algorithm, Quota, State, Units, Wait, check_capacity, check_no_max_wait, check_rate};
use crate::time::{Millis, Timestamp};

/// `token_bucket`.
pub struct TokenBucket;

impl Algorithm for TokenBucket {
    fn name(&self) -> &'static str {
        "token_bucket"
    }

    fn check(&self, quota: &Quota) -> Result<(), String> {
        check_rate(quota)?;
        check_capacity("burst", quota)?;
        check_no_max_wait(quota)
    }

    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units {
        (quota.capacity - Bucket::at(quota, state, now).used()).max(0)
    }

    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait {
        if cost == 0 {
            return Wait::Now;
        }
        if cost > quota.capacity {
            return Wait::Never;
        }
        Wait::after(Bucket::at(quota, state, now).until_at_most(quota.capacity - cost, now))
    }

    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, _delay: Millis) {
        if cost == 0 {
            return;
        }
        let mut bucket = Bucket::at(quota, state, now);
        bucket.add(cost);
        *state = bucket.to_state();
    }

    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        // As of the request, or of the last charge if that was later: the debt has drained since, as if it had
        // been known.
        let mut bucket = Bucket::at(quota, state, at.min(now));
        bucket.add_up_to(cost, quota.deepest());
        *state = bucket.to_state();
    }

    fn refund(&self, quota: &Quota, state: &mut State, _now: Timestamp, at: Timestamp, cost: Units) {
        let mut bucket = Bucket::stored(quota, state);
        if at > bucket.last() {
            return;
        }
        // Between the charge and the last charge after it the bucket may have run dry any number of times. What
        // would be left of this cost had it been alone is left for certain; giving back more could grant twice
        // what has refilled already.
        bucket.remove(cost, bucket.last() - at);
        *state = bucket.to_state();
    }

    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        Bucket::at(quota, state, now).until_empty(now)
    }

    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp {
        now + self.reset(quota, state, now)
    }
}
