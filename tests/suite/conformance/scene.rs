//! One script under way: a store, an algorithm, a clock that the script moves, and what was answered so far.

use sluicegate::algorithm::{Algorithm, Quota, UNIT, Units, Wait, Window};
use sluicegate::charge::{Charge, Correction, Meter, OnError, Outcome, Part, Parts};
use sluicegate::store::{Store, StoreError};
use sluicegate::time::{Millis, Timestamp};
use tokio::runtime::Runtime;

pub const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;

/// 16 January 2090, 12:30 UTC: the middle of an hour, and later than any machine's clock, since what is forgotten is
/// forgotten at the time of Redis.
pub const START: i64 = 3_788_080_200_000;

/// More requests than any script's quota lets through.
const ENOUGH: usize = 50;

/// What has a counter of its own.
#[derive(Clone, Copy, Debug)]
pub enum Per {
    Caller,
    CallerAndRoute,
    OtherCaller,
    Tenant,
    Route,
    Global,
}

/// A limit of the script.
#[derive(Debug)]
pub struct Limit {
    pub meter: Meter,
    per: Per,
}

/// What one request asks of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    limit: &'a Limit,
    cost: Units,
    enforced: bool,
}

pub fn take(limit: &Limit, cost: Units) -> Ask<'_> {
    Ask { limit, cost, enforced: true }
}

pub fn one(limit: &Limit) -> Ask<'_> {
    take(limit, UNIT)
}

/// Reads and takes nothing.
pub fn peek(limit: &Limit) -> Ask<'_> {
    take(limit, 0)
}

pub fn shadow(limit: &Limit, cost: Units) -> Ask<'_> {
    Ask { limit, cost, enforced: false }
}

pub struct Scene<'a> {
    store: &'a dyn Store,
    runtime: &'a Runtime,
    pub algorithm: &'static dyn Algorithm,
    /// No other scene's, so that scenes share servers and no counters.
    name: String,
    is_stand_in: bool,
    pub now: i64,
    pub answers: Vec<String>,
}

impl<'a> Scene<'a> {
    pub fn new(
        store: &'a dyn Store,
        runtime: &'a Runtime,
        is_stand_in: bool,
        script: &str,
        algorithm: &'static dyn Algorithm,
    ) -> Self {
        let name = format!("{script}.{}", algorithm.name());
        Self { store, runtime, algorithm, name, is_stand_in, now: START, answers: Vec::new() }
    }

    /// A limit of `count` an hour.
    pub fn limit(&self, name: &str, per: Per, count: i64) -> Limit {
        self.sized(name, per, count, count)
    }

    /// A limit of `count` an hour of which `capacity` can be left: the burst or the queue where the algorithm has one, else
    /// the count itself.
    pub fn sized(&self, name: &str, per: Per, count: i64, capacity: i64) -> Limit {
        self.windowed(name, per, self.quota(count, capacity))
    }

    pub fn quota(&self, count: i64, capacity: i64) -> Quota {
        let window = Window::Span(Millis(HOUR));
        let quota = Quota { count: count * UNIT, window, capacity: capacity * UNIT, max_wait: None };
        match self.algorithm.check(&quota) {
            Ok(()) => quota,
            Err(_) => Quota { count: capacity * UNIT, ..quota },
        }
    }

    pub fn windowed(&self, name: &str, per: Per, quota: Quota) -> Limit {
        self.of_algorithm(name, per, self.algorithm, quota)
    }

    pub fn of_algorithm(&self, name: &str, per: Per, algorithm: &'static dyn Algorithm, quota: Quota) -> Limit {
        algorithm.check(&quota).expect("a quota that the algorithm can serve");
        let identity = format!("{}.{name}", self.name);
        let meter = |local| Meter {
            identity: identity.as_str().into(),
            name: identity.as_str().into(),
            algorithm,
            quota,
            on_error: OnError::Local,
            local,
        };
        Limit { meter: meter(Some(Box::new(meter(None)))), per }
    }

    /// Another quota of the same limit, as a reload would bring it.
    pub fn regrant(&self, limit: &mut Limit, quota: Quota) {
        limit.meter.quota = quota;
        limit.meter.local.as_mut().expect("made with one").quota = quota;
    }

    fn parts<'p>(&self, per: Per) -> Parts<'p> {
        let part = |kind: &'static str, tail: &str| {
            Part::Owned(kind.into(), format!("{}{tail}", self.name).into_bytes().into_boxed_slice())
        };
        let parts = match per {
            Per::Caller => vec![part("consumer", "")],
            Per::CallerAndRoute => vec![part("consumer", ""), part("route", "")],
            Per::OtherCaller => vec![part("consumer", ".other")],
            Per::Tenant => vec![part("header:x-tenant", "")],
            Per::Route => vec![part("route", "")],
            Per::Global => vec![Part::Owned("global".into(), Box::default())],
        };
        parts.into_iter().collect()
    }

    fn charges<'l>(&self, asks: &[Ask<'l>]) -> Vec<Charge<'l>> {
        let charge = |ask: &Ask<'l>| Charge {
            meter: &ask.limit.meter,
            parts: self.parts(ask.limit.per),
            cost: ask.cost,
            enforced: ask.enforced,
        };
        asks.iter().map(charge).collect()
    }

    /// Decides one request.
    #[track_caller]
    pub fn decide(&mut self, asks: &[Ask<'_>]) -> Outcome {
        let charges = self.charges(asks);
        let outcome = self.runtime.block_on(self.store.acquire(Timestamp(self.now), &charges).resolve());
        let mut outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert_eq!(outcome.degraded, self.is_stand_in, "{}: decided by another than was asked", self.name);
        for reading in &mut outcome.readings {
            assert_eq!(reading.stand_in, self.is_stand_in, "{}: read from another than was asked", self.name);
            reading.stand_in = false;
        }
        let told = (outcome.admitted, outcome.at, outcome.delay, &outcome.readings);
        self.answers.push(format!("at {}: {told:?}", self.now - START));
        outcome
    }

    #[track_caller]
    pub fn admitted(&mut self, asks: &[Ask<'_>]) -> Outcome {
        let outcome = self.decide(asks);
        assert!(outcome.admitted, "{}: refused {outcome:?}\n{}", self.name, self.story());
        outcome
    }

    /// Refused; gives the longest wait of those that refuse.
    #[track_caller]
    pub fn refused(&mut self, asks: &[Ask<'_>]) -> Wait {
        let outcome = self.decide(asks);
        assert!(!outcome.admitted, "{}: admitted {outcome:?}\n{}", self.name, self.story());
        let enforced = asks.iter().zip(&outcome.readings).filter(|(ask, _)| ask.enforced);
        let longest = |wait: &Wait| match wait {
            Wait::Now => 0,
            Wait::After(span) => span.0,
            Wait::Never => i64::MAX,
        };
        enforced.map(|(_, reading)| reading.wait).max_by_key(longest).expect("something refused it")
    }

    /// Refused for that long; never is a failure of the script.
    #[track_caller]
    pub fn refused_for(&mut self, asks: &[Ask<'_>]) -> i64 {
        match self.refused(asks) {
            Wait::After(span) => span.0,
            wait => panic!("{}: refused with {wait:?}\n{}", self.name, self.story()),
        }
    }

    #[track_caller]
    pub fn remaining(&mut self, limit: &Limit) -> Units {
        self.admitted(&[peek(limit)]).readings[0].remaining
    }

    /// Takes ones until one is refused; gives how many were taken and the wait.
    #[track_caller]
    pub fn fill(&mut self, limit: &Limit) -> (usize, i64) {
        for taken in 0..ENOUGH {
            if self.remaining(limit) < UNIT {
                return (taken, self.refused_for(&[one(limit)]));
            }
            self.admitted(&[one(limit)]);
        }
        panic!("{}: never full", self.name)
    }

    pub fn pass(&mut self, span_ms: i64) {
        self.now += span_ms;
    }

    /// Corrects what was charged at an instant: a debt, or negative a give-back.
    #[track_caller]
    pub fn settle(&mut self, limit: &Limit, at: i64, delta: Units) {
        let parts = self.parts(limit.per);
        let stand_in = self.is_stand_in;
        let corrections = [Correction { meter: &limit.meter, parts, at: Timestamp(at), delta, stand_in }];
        let settled = self.runtime.block_on(self.store.settle(Timestamp(self.now), &corrections).resolve());
        settled.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Forgets counters, of which those that are `expected` were there. What stands in forgets too, and says that the store
    /// was not reached.
    #[track_caller]
    pub fn forget(&mut self, limits: &[&Limit], expected: &[bool]) {
        let asks: Vec<Ask<'_>> = limits.iter().map(|limit| peek(limit)).collect();
        let charges = self.charges(&asks);
        match self.runtime.block_on(self.store.forget(&charges).resolve()) {
            Ok(existed) => assert_eq!(existed, expected, "{}\n{}", self.name, self.story()),
            Err(StoreError::Unavailable(_)) if self.is_stand_in => {}
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    fn story(&self) -> String {
        self.answers.join("\n")
    }
}
