//! The decision: facts and policy make charges, the store takes all or none, the readings become a [`Decision`].
//!
//! There is one call of the store for each request, whatever the number of limits. A decision keeps indices into its
//! policy, not references, so that it can outlive the request's header; [`Decision::verdict`] joins the two again.
//! Nothing here reads a clock or knows HTTP, so a decision can be made again from recorded facts.

pub mod assess;
pub mod rejection;
pub mod verdict;

use crate::algorithm::{Algorithm, LeakyBucket, Units, Wait};
use crate::charge::{Correction, INLINE_CHARGES, Outcome, Part, Parts, Reading};
use crate::config::model::Mode;
use crate::policy::facts::{Draw, Facts};
use crate::policy::{Policy, Selection};
use crate::store::{Answer, Store, StoreError};
use crate::time::{Millis, Timestamp};
use rejection::Rejection;
use smallvec::SmallVec;
use verdict::{LimitStatus, Verdict};

#[cfg(test)]
mod tests;

/// What was decided for one request, as plain data.
#[derive(Clone, Debug)]
pub struct Decision {
    entries: SmallVec<[Entry; INLINE_CHARGES]>,
    pub admitted: bool,
    /// The store's instant.
    pub at: Timestamp,
    /// How long the request is held before it goes on.
    pub delay: Millis,
    /// Whether the store failed, and this was decided without it.
    pub degraded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    limit: usize,
    cost: Units,
    reading: Reading,
}

/// One charge that can be given back: which counter and how much.
#[derive(Clone, Debug)]
pub struct Taken {
    /// An index into the policy's limits.
    pub limit: usize,
    pub parts: Parts<'static>,
    pub cost: Units,
    /// [`Reading::stand_in`].
    pub stand_in: bool,
}

/// What an admitted request took, so that it can be given back. Made only for requests that are held.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub at: Timestamp,
    /// How long it is held.
    pub delay: Millis,
    pub taken: SmallVec<[Taken; INLINE_CHARGES]>,
}

impl Receipt {
    /// The corrections that give everything back; without `places`, all but the places in queues.
    pub fn refund<'a>(&'a self, policy: &'a Policy, places: bool) -> Vec<Correction<'a>> {
        let correction = |taken: &'a Taken| Correction {
            meter: &policy.limits[taken.limit].meter,
            parts: taken.parts.iter().cloned().collect(),
            at: self.at,
            delta: -taken.cost,
            stand_in: taken.stand_in,
        };
        let given_back = self.taken.iter().filter(|taken| places || !holds(policy, taken.limit));
        given_back.map(correction).collect()
    }

    /// What was taken from the buckets that hold the request.
    pub fn queues<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = &'a Taken> {
        self.taken.iter().filter(|taken| holds(policy, taken.limit))
    }
}

/// Whether a limit holds requests until their turn. One in shadow mode only counts them.
fn holds(policy: &Policy, limit: usize) -> bool {
    let limit = &policy.limits[limit];
    limit.mode == Mode::Enforce && limit.meter.algorithm.name() == LeakyBucket.name()
}

impl Decision {
    /// Joined with the policy it was made by.
    pub fn verdict<'p>(&self, policy: &'p Policy) -> Verdict<'p> {
        let statuses = self.statuses(policy).map(|(_, status)| status).collect();
        Verdict { statuses, admitted: self.admitted, at: self.at, delay: self.delay }
    }

    /// What each limit said, and the limit's index.
    pub fn statuses<'p>(&self, policy: &'p Policy) -> impl Iterator<Item = (usize, LimitStatus<'p>)> {
        self.entries.iter().map(|entry| {
            let Reading { remaining, wait, reset, .. } = entry.reading;
            let limit = &policy.limits[entry.limit];
            (entry.limit, LimitStatus { limit, cost: entry.cost, remaining, wait, reset })
        })
    }

    /// Why the limits refuse, once they do.
    pub fn rejection(&self, policy: &Policy) -> Rejection {
        match self.verdict(policy).refusing().map(|status| status.wait) {
            Some(Wait::Never) => Rejection::CostExceedsLimit,
            _ => Rejection::RateLimited,
        }
    }

    /// Turns an admission into a refusal by its leaky limits: the gateway holds too many requests already. The
    /// wait is the time that the request would have been held, at least a second.
    pub fn refuse_held(&mut self, policy: &Policy) {
        self.admitted = false;
        let wait = Millis(self.delay.0.max(1000));
        for entry in &mut self.entries {
            if holds(policy, entry.limit) {
                entry.reading.wait = Wait::After(wait);
            }
        }
    }

    /// Whether the request was admitted and has to wait for its turn.
    fn is_held(&self) -> bool {
        self.admitted && self.delay > Millis(0)
    }

    /// Whether no limit applied.
    pub fn is_unlimited(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Decides one request: one call of the store. A request that is to be held comes with the receipt of what it took.
pub async fn decide(
    policy: &Policy,
    facts: &Facts<'_>,
    draw: Draw,
    store: &dyn Store,
    now: Timestamp,
) -> Result<(Decision, Option<Receipt>), StoreError> {
    let selection = policy.select(facts, draw);
    if selection.charges.is_empty() {
        let decision =
            Decision { entries: SmallVec::new(), admitted: true, at: now, delay: Millis(0), degraded: false };
        return Ok((decision, None));
    }
    // Not `resolve`, which would move what is there already through a future of its own.
    let outcome = match store.acquire(now, &selection.charges) {
        Answer::Ready(outcome) => outcome?,
        Answer::Later(outcome) => outcome.await?,
    };
    debug_assert_eq!(outcome.readings.len(), selection.charges.len(), "a store answers every charge");
    let entries = selection.limits.iter().zip(&selection.charges).zip(&outcome.readings);
    // What a store could not say is not shown, counted or logged as if it had.
    let entries = entries.filter(|(_, reading)| reading.known).map(|((limit, charge), reading)| Entry {
        limit: *limit,
        cost: charge.cost,
        reading: *reading,
    });
    let decision = Decision {
        entries: entries.collect(),
        admitted: outcome.admitted,
        at: outcome.at,
        delay: outcome.delay,
        degraded: outcome.degraded,
    };
    let receipt = decision.is_held().then(|| receipt(&selection, &outcome));
    Ok((decision, receipt))
}

/// What an admitted request took: every charge but those of shadow limits that it did not fit.
fn receipt(selection: &Selection<'_>, outcome: &Outcome) -> Receipt {
    let asked = selection.limits.iter().zip(&selection.charges).zip(&outcome.readings);
    let taken = asked.filter(|((_, charge), reading)| charge.cost > 0 && reading.known && reading.wait == Wait::Now);
    let taken = taken.map(|((limit, charge), reading)| Taken {
        limit: *limit,
        parts: charge.parts.iter().map(Part::to_static).collect(),
        cost: charge.cost,
        stand_in: reading.stand_in,
    });
    Receipt { at: outcome.at, delay: outcome.delay, taken: taken.collect() }
}
