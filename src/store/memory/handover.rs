//! Decisions about counters that have moved to another process.
//!
//! A sealed store decides nothing more, so that what is read from it stays true. A charge that comes later is put to the
//! process that has the counters now, under the digest of its counter, which both processes share with the secret: names
//! of callers do not leave this one. Integers are little-endian; whatever cannot be read is no call and no answer.

use super::key::Key;
use super::{Held, Inline, MemoryStore};
use crate::algorithm::{Quota, Wait, Window, by_name};
use crate::charge::{Charge, Correction, Meter, Outcome, Parts, Reading};
use crate::time::{Millis, Timestamp};
use smallvec::SmallVec;

/// Charges or corrections that one call may have.
const MAX_ITEMS: u64 = 4096;

const ACQUIRE: u8 = 1;
const SETTLE: u8 = 2;

/// No longest wait.
const NONE: i64 = -1;

impl Held<'_> {
    fn is_sealed(&self) -> bool {
        self.guards.iter().any(|(_, guard)| guard.sealed)
    }
}

impl MemoryStore {
    /// From the return on nothing changes in a sealed store; what asks gets no decision until it is opened again.
    pub fn seal(&self, sealed: bool) {
        for shard in &self.shards {
            shard.0.lock().sealed = sealed;
        }
    }

    /// [`Self::decide`], unless a counter is sealed.
    pub fn decide_unless_sealed(&self, now: Timestamp, charges: &[Charge<'_>]) -> Option<Outcome> {
        self.decide_keys_unless_sealed(now, &self.keys(charges), charges)
    }

    fn decide_keys_unless_sealed(&self, now: Timestamp, keys: &[Key], charges: &[Charge<'_>]) -> Option<Outcome> {
        let mut held = self.lock(keys);
        (!held.is_sealed()).then(|| self.decide_in(&mut held, now, keys, charges))
    }

    /// Applies all corrections, or says false and applies none: a counter is sealed.
    pub fn settle_unless_sealed(&self, now: Timestamp, corrections: &[Correction<'_>]) -> bool {
        let key = |correction: &Correction<'_>| self.secret.key(&correction.meter.identity, &correction.parts);
        self.settle_keys_unless_sealed(now, &corrections.iter().map(key).collect::<Inline<Key>>(), corrections)
    }

    fn settle_keys_unless_sealed(&self, now: Timestamp, keys: &[Key], corrections: &[Correction<'_>]) -> bool {
        let mut held = self.lock(keys);
        if held.is_sealed() {
            return false;
        }
        for (correction, key) in corrections.iter().zip(keys) {
            self.settle_in(held.shard(self.shard_of(*key)), now, *key, correction);
        }
        true
    }

    /// The bytes that put these charges to another process.
    pub fn acquire_call(&self, charges: &[Charge<'_>]) -> Vec<u8> {
        let mut call = begin(ACQUIRE, charges.len());
        for charge in charges {
            write_counter(&mut call, self.secret.key(&charge.meter.identity, &charge.parts), charge.meter);
            call.extend_from_slice(&charge.cost.to_le_bytes());
            call.push(u8::from(charge.enforced));
        }
        call
    }

    /// The bytes that put these corrections to another process.
    pub fn settle_call(&self, corrections: &[Correction<'_>]) -> Vec<u8> {
        let mut call = begin(SETTLE, corrections.len());
        for correction in corrections {
            write_counter(&mut call, self.secret.key(&correction.meter.identity, &correction.parts), correction.meter);
            call.extend_from_slice(&correction.at.0.to_le_bytes());
            call.extend_from_slice(&correction.delta.to_le_bytes());
        }
        call
    }

    /// Carries out a call of another process; absent when a counter is sealed here too. An answer without bytes says that
    /// the call was not understood.
    pub fn answer(&self, now: Timestamp, call: &[u8]) -> Option<Vec<u8>> {
        match Call::read(call) {
            None => Some(Vec::new()),
            Some(Call::Acquire(charges)) => {
                let keys: Inline<Key> = charges.iter().map(|(key, ..)| *key).collect();
                let charges: Vec<Charge<'_>> = charges
                    .iter()
                    .map(|(_, meter, cost, enforced)| Charge {
                        meter,
                        parts: Parts::new(),
                        cost: *cost,
                        enforced: *enforced,
                    })
                    .collect();
                Some(write_outcome(&self.decide_keys_unless_sealed(now, &keys, &charges)?))
            }
            Some(Call::Settle(corrections)) => {
                let keys: Inline<Key> = corrections.iter().map(|(key, ..)| *key).collect();
                let corrections: Vec<Correction<'_>> = corrections
                    .iter()
                    .map(|(_, meter, at, delta)| Correction {
                        meter,
                        parts: Parts::new(),
                        at: *at,
                        delta: *delta,
                        stand_in: false,
                    })
                    .collect();
                self.settle_keys_unless_sealed(now, &keys, &corrections).then(|| vec![SETTLE])
            }
        }
    }
}

/// What another process asks: counters with their arithmetic.
enum Call {
    Acquire(Vec<(Key, Meter, i64, bool)>),
    Settle(Vec<(Key, Meter, Timestamp, i64)>),
}

impl Call {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = Input(bytes);
        let kind = input.byte()?;
        let items = input.number()?.cast_unsigned();
        if items > MAX_ITEMS {
            return None;
        }
        let call = match kind {
            ACQUIRE => {
                let mut charge = || {
                    let (key, meter) = input.counter()?;
                    Some((key, meter, input.number()?.max(0), input.byte()? != 0))
                };
                Self::Acquire((0..items).map(|_| charge()).collect::<Option<_>>()?)
            }
            SETTLE => {
                let mut correction = || {
                    let (key, meter) = input.counter()?;
                    Some((key, meter, Timestamp(input.number()?), input.number()?))
                };
                Self::Settle((0..items).map(|_| correction()).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        input.0.is_empty().then_some(call)
    }
}

fn begin(kind: u8, items: usize) -> Vec<u8> {
    let mut call = vec![kind];
    call.extend_from_slice(&(items as u64).to_le_bytes());
    call
}

fn write_counter(out: &mut Vec<u8>, key: Key, meter: &Meter) {
    out.extend_from_slice(&key.high.to_le_bytes());
    out.extend_from_slice(&key.low.to_le_bytes());
    let name = meter.algorithm.name();
    out.push(u8::try_from(name.len()).expect("names of algorithms are short"));
    out.extend_from_slice(name.as_bytes());
    let quota = &meter.quota;
    let (kind, span) = match quota.window {
        Window::Span(span) => (0, span.0),
        Window::Month => (1, 0),
        Window::Year => (2, 0),
    };
    out.push(kind);
    for number in [span, quota.count, quota.capacity, quota.max_wait.map_or(NONE, |wait| wait.0)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// An answer to [`MemoryStore::acquire_call`]: one byte, then numbers.
fn write_outcome(outcome: &Outcome) -> Vec<u8> {
    let mut out = vec![ACQUIRE, u8::from(outcome.admitted)];
    let mut number = |number: i64| out.extend_from_slice(&number.to_le_bytes());
    number(outcome.at.0);
    number(outcome.delay.0);
    for reading in &outcome.readings {
        number(reading.remaining);
        number(match reading.wait {
            Wait::Now => 0,
            Wait::After(span) => span.0,
            Wait::Never => NONE,
        });
        number(reading.reset.0);
    }
    out
}

/// What another process decided about so many charges.
pub(in crate::store) fn read_outcome(answer: &[u8], charges: usize) -> Option<Outcome> {
    let mut input = Input(answer);
    if input.byte()? != ACQUIRE {
        return None;
    }
    let admitted = input.byte()? != 0;
    let (at, delay) = (Timestamp(input.number()?), Millis(input.number()?));
    let mut readings = SmallVec::with_capacity(charges);
    for _ in 0..charges {
        let remaining = input.number()?;
        let wait = match input.number()? {
            0 => Wait::Now,
            span @ 1.. => Wait::After(Millis(span)),
            _ => Wait::Never,
        };
        readings.push(Reading { known: true, stand_in: false, remaining, wait, reset: Millis(input.number()?) });
    }
    input.0.is_empty().then_some(Outcome { admitted, at, delay, degraded: false, readings })
}

/// Bytes, read from the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<i64> {
        self.bytes(8).and_then(|bytes| bytes.try_into().ok()).map(i64::from_le_bytes)
    }

    /// A counter and its arithmetic, which must be one that this program can carry out.
    fn counter(&mut self) -> Option<(Key, Meter)> {
        let key = Key { high: self.number()?.cast_unsigned(), low: self.number()?.cast_unsigned() };
        let length = usize::from(self.byte()?);
        let algorithm = by_name(std::str::from_utf8(self.bytes(length)?).ok()?)?;
        let (kind, span) = (self.byte()?, Millis(self.number()?));
        let window = match kind {
            0 => Window::Span(span),
            1 => Window::Month,
            2 => Window::Year,
            _ => return None,
        };
        let (count, capacity) = (self.number()?, self.number()?);
        let max_wait = Some(self.number()?).filter(|wait| *wait != NONE).map(Millis);
        let quota = Quota { count, window, capacity, max_wait };
        algorithm.check(&quota).ok()?;
        Some((key, Meter::alone("", algorithm, quota)))
    }
}
