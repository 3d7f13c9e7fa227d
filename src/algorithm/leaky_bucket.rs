//! A queue that lets one request go each W/Q: admitted ones are held until their turn, the rest is refused at once.
//!
//! State: `[last, used, part]` (see [`super::bucket`]), the backlog: what has been admitted and has not drained. A
//! request departs when what was before it has drained, so the backlog before it, divided by the rate, is its delay.
//! Nothing is kept of single requests. The queue bounds the backlog; `max_wait` refuses what would be held longer.

use super::bucket::Bucket;
use super::{Algorithm, Quota, State, Units, Wait, check_capacity, check_rate};
use crate::time::{Millis, Timestamp};

/// `leaky_bucket`.
pub struct LeakyBucket;

impl LeakyBucket {
    /// From `now`, how long until a request would be held no longer than `max_wait`: each millisecond that passes
    /// takes one off the delay.
    fn until_short_enough(quota: &Quota, bucket: &Bucket, now: Timestamp) -> Millis {
        quota.max_wait.map_or(Millis(0), |max| Millis((bucket.until_empty(now).0 - max.0).max(0)))
    }
}

impl Algorithm for LeakyBucket {
    fn name(&self) -> &'static str {
        "leaky_bucket"
    }

    fn check(&self, quota: &Quota) -> Result<(), String> {
        check_rate(quota)?;
        check_capacity("queue", quota)?;
        match quota.max_wait {
            Some(max) if max.0 < 0 => Err("max_wait must not be negative".to_owned()),
            _ => Ok(()),
        }
    }

    fn remaining(&self, quota: &Quota, state: &State, now: Timestamp) -> Units {
        let bucket = Bucket::at(quota, state, now);
        if Self::until_short_enough(quota, &bucket, now).0 > 0 { 0 } else { (quota.capacity - bucket.used()).max(0) }
    }

    fn wait(&self, quota: &Quota, state: &State, now: Timestamp, cost: Units) -> Wait {
        if cost == 0 {
            return Wait::Now;
        }
        if cost > quota.capacity {
            return Wait::Never;
        }
        let bucket = Bucket::at(quota, state, now);
        let room = bucket.until_at_most(quota.capacity - cost, now);
        Wait::after(room.max(Self::until_short_enough(quota, &bucket, now)))
    }

    fn delay(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        Bucket::at(quota, state, now).until_empty(now)
    }

    fn charge(&self, quota: &Quota, state: &mut State, now: Timestamp, cost: Units, delay: Millis) {
        if cost == 0 {
            return;
        }
        let mut bucket = Bucket::at(quota, state, now);
        // Another limit holds the request longer than this one would. At its departure all before it have gone, so
        // that is where the level starts anew, in the future, and the next one is apart from it. The hole in
        // between is not filled and takes no room in the queue. This bucket's own delay is never rounded in: whole
        // milliseconds would slow a rate above 1000 a second.
        if delay > bucket.until_empty(now) {
            bucket.idle_until(now + delay);
        }
        bucket.add(cost);
        *state = bucket.to_state();
    }

    fn debit(&self, quota: &Quota, state: &mut State, now: Timestamp, at: Timestamp, cost: Units) {
        let mut bucket = Bucket::at(quota, state, at.min(now));
        bucket.add_up_to(cost, quota.deepest());
        *state = bucket.to_state();
    }

    fn refund(&self, quota: &Quota, state: &mut State, now: Timestamp, _at: Timestamp, cost: Units) {
        // A request whose turn has not come is inside in full, wherever in the queue it stands. Those behind it have
        // later turns, told when they were admitted: whoever gives a place back moves them up, else the next one
        // admitted would depart together with the last of them.
        let mut bucket = Bucket::at(quota, state, now);
        bucket.remove(cost, Millis(0));
        *state = bucket.to_state();
    }

    fn reset(&self, quota: &Quota, state: &State, now: Timestamp) -> Millis {
        Bucket::at(quota, state, now).until_empty(now)
    }

    fn fresh_at(&self, quota: &Quota, state: &State, now: Timestamp) -> Timestamp {
        now + self.reset(quota, state, now)
    }
}
