//! The scripts that decide inside Redis: which parts of `lua/` make one, what it is given and what it answers.
//!
//! A script builds its functions anew on every call, so a script holds the functions of the algorithms that its
//! decision needs and no others: there is one text for each [`Shape`], joined when first wanted and kept. The decision that is
//! met most, a few charges and no log, has not even those: its text is written out for them by [`straight`].
//! Arguments and replies are doubles in one string: Redis passes a string on as it is, where every number of its own would be
//! written out and read again. Nothing here does I/O.

mod forget;
mod inline;
mod join;
mod straight;
#[cfg(test)]
mod tests;

use crate::algorithm::{Algorithm, Quota, Units, Wait, Window};
use crate::charge::{Charge, Correction, Outcome, Reading};
use crate::time::{Millis, Timestamp};
pub use forget::{read_forgotten, write_forgotten};
use parking_lot::RwLock;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;
use straight::Straight;

/// The most charges or corrections of one call: what the stack of a script holds, with room to spare.
pub const MAX_CHARGES: usize = 256;

/// The most charges of a text that is written out for them.
pub const MAX_STRAIGHT: usize = 4;
/// The most of these texts. An operator's limits make a handful; beyond, the text for any charges serves.
const MAX_STRAIGHT_TEXTS: usize = 512;

/// A double holds every whole number up to here.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// The most cost that is told apart: what a counter holds at most, more than any capacity.
const MAX_COST: Units = 1 << 52;
/// Numbers before the first row.
const HEAD: usize = 2;
/// Numbers of a charge or a correction; those of a charge in a text that is written out for it.
const ROW: usize = 10;
const STRAIGHT_ROW: usize = 7;
/// Numbers of a reply before the first reading, and of a reading.
const REPLY_HEAD: usize = 4;
const READING: usize = 3;

/// An algorithm's arithmetic in Lua.
#[derive(Debug)]
pub struct Twin {
    /// [`Algorithm::name`].
    pub name: &'static str,
    /// What its functions' names begin with: `<prefix>_wait` and so on.
    pub prefix: &'static str,
    /// The files that define them, in the order in which they are joined.
    pub files: &'static [&'static str],
    /// Whether a counter is a sorted set, with a key of its own, and not a record in its group's string.
    pub is_log: bool,
}

const EXACT_LUA: &str = include_str!("../../../lua/exact.lua");
const CALENDAR_LUA: &str = include_str!("../../../lua/calendar.lua");
const BUCKET_LUA: &str = include_str!("../../../lua/algorithm/bucket.lua");
const RECORDS_LUA: &str = include_str!("../../../lua/records.lua");
const ACQUIRE_LUA: &str = include_str!("../../../lua/acquire.lua");
const SETTLE_LUA: &str = include_str!("../../../lua/settle.lua");
const FORGET_LUA: &str = include_str!("../../../lua/forget.lua");

/// The twin of every algorithm of [`crate::algorithm::ALGORITHMS`].
pub static TWINS: &[Twin] = &[
    Twin {
        name: "fixed_window",
        prefix: "fixed_window",
        files: &[CALENDAR_LUA, include_str!("../../../lua/algorithm/fixed_window.lua")],
        is_log: false,
    },
    Twin {
        name: "sliding_window_log",
        prefix: "sliding_log",
        files: &[include_str!("../../../lua/algorithm/sliding_log.lua")],
        is_log: true,
    },
    Twin {
        name: "sliding_window_counter",
        prefix: "sliding_window",
        files: &[EXACT_LUA, CALENDAR_LUA, include_str!("../../../lua/algorithm/sliding_window.lua")],
        is_log: false,
    },
    Twin {
        name: "token_bucket",
        prefix: "token_bucket",
        files: &[EXACT_LUA, BUCKET_LUA, include_str!("../../../lua/algorithm/token_bucket.lua")],
        is_log: false,
    },
    Twin {
        name: "leaky_bucket",
        prefix: "leaky_bucket",
        files: &[EXACT_LUA, BUCKET_LUA, include_str!("../../../lua/algorithm/leaky_bucket.lua")],
        is_log: false,
    },
];

/// An algorithm's place in [`TWINS`]. The suite holds that there is one for each algorithm.
fn twin_index(algorithm: &dyn Algorithm) -> usize {
    TWINS.iter().position(|twin| twin.name == algorithm.name()).expect("every algorithm has a twin")
}

/// Whether counters of this algorithm are sorted sets with keys of their own.
pub fn is_log(algorithm: &dyn Algorithm) -> bool {
    TWINS[twin_index(algorithm)].is_log
}

/// What a script has to know: the algorithms of its rows, and whether one of them has a calendar window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape(u8);

/// Algorithms, and the bit for the calendar.
const SHAPE_BITS: usize = 6;
const CALENDAR_BIT: u8 = 1 << (SHAPE_BITS - 1);

impl Shape {
    /// The shape of a call with rows of these algorithms and windows.
    pub fn of<'a>(rows: impl IntoIterator<Item = (&'a dyn Algorithm, &'a Quota)>) -> Self {
        let bit = |(algorithm, quota): (&dyn Algorithm, &Quota)| {
            let calendar = if matches!(quota.window, Window::Span(_)) { 0 } else { CALENDAR_BIT };
            1 << twin_index(algorithm) | calendar
        };
        Self(rows.into_iter().map(bit).fold(0, |shape, bit| shape | bit))
    }

    /// The shape of these charges.
    pub fn of_charges(charges: &[Charge<'_>]) -> Self {
        Self::of(charges.iter().map(|charge| (charge.meter.algorithm, &charge.meter.quota)))
    }

    /// The shape of these corrections.
    pub fn of_corrections(corrections: &[Correction<'_>]) -> Self {
        Self::of(corrections.iter().map(|correction| (correction.meter.algorithm, &correction.meter.quota)))
    }

    fn twins(self) -> impl Iterator<Item = (usize, &'static Twin)> {
        TWINS.iter().enumerate().filter(move |(index, _)| self.0 & 1 << index != 0)
    }
}

/// What a script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Takes all charges of a request or none: `lua/acquire.lua`.
    Acquire,
    /// Corrects charges taken earlier: `lua/settle.lua`.
    Settle,
    /// Removes counters, whatever their algorithms: `lua/forget.lua`.
    Forget,
}

/// A script as Redis gets it.
#[derive(Debug)]
pub struct Script {
    /// For `SCRIPT LOAD` and `EVAL`.
    pub text: String,
    /// For `EVALSHA`: the SHA-1 of the text, 40 hexadecimal digits.
    pub sha1: String,
}

impl Script {
    /// The script for calls of this shape, joined once in the life of the process.
    pub fn of(purpose: Purpose, shape: Shape) -> &'static Self {
        static SCRIPTS: [[OnceLock<Script>; 1 << SHAPE_BITS]; 3] =
            [const { [const { OnceLock::new() }; 1 << SHAPE_BITS] }; 3];
        SCRIPTS[purpose as usize][usize::from(shape.0)].get_or_init(|| Self::join(purpose, shape))
    }

    /// The script written out for just these charges, if it may have a text of its own.
    fn straight(straight: Straight) -> Option<&'static Self> {
        static SCRIPTS: RwLock<BTreeMap<Straight, &'static Script>> = RwLock::new(BTreeMap::new());
        {
            let scripts = SCRIPTS.read();
            // When all there may be are there, nobody has to wait for the others either.
            if scripts.len() >= MAX_STRAIGHT_TEXTS || scripts.contains_key(&straight) {
                return scripts.get(&straight).copied();
            }
        }
        // Not under the lock: it takes milliseconds, and decisions whose text is there shall not wait for it.
        let written = Self::new(straight.join(RECORDS_LUA));
        let mut scripts = SCRIPTS.write();
        if scripts.len() >= MAX_STRAIGHT_TEXTS {
            return scripts.get(&straight).copied();
        }
        Some(*scripts.entry(straight).or_insert_with(|| Box::leak(Box::new(written))))
    }

    fn join(purpose: Purpose, shape: Shape) -> Self {
        let main = match purpose {
            Purpose::Acquire => ACQUIRE_LUA,
            Purpose::Settle => SETTLE_LUA,
            Purpose::Forget => FORGET_LUA,
        };
        Self::new(join::join(shape, RECORDS_LUA, main))
    }

    fn new(text: String) -> Self {
        let sha1 = hex(&Sha1::digest(text.as_bytes()));
        Self { text, sha1 }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    })
}

/// The number by which a group's value names a counter of that identity: 48 bits of its SHA-256, never 0. A group has a
/// handful of counters, and no client chooses an identity.
pub fn record_id(identity: &str) -> u64 {
    let digest = Sha256::digest(identity.as_bytes());
    let head = digest.iter().take(6).fold(0u64, |head, byte| head << 8 | u64::from(*byte));
    head.max(1)
}

/// Where a counter is among the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of its key, counted from 0: the groups' strings first, then a sorted set for each log.
    pub key: usize,
    /// Its id in the group, by [`record_id`]; of no meaning for a log.
    pub record: u64,
}

/// The script for these charges and its `ARGV[1]`. `clock` is for tests: absent, the decision is at the time of Redis.
/// `groups` is how many of the keys are strings; `places` has one entry for each charge, at most [`MAX_CHARGES`].
pub fn acquire(
    clock: Option<Timestamp>,
    groups: usize,
    charges: &[Charge<'_>],
    places: &[Place],
) -> (&'static Script, Vec<u8>) {
    debug_assert!(charges.len() == places.len() && charges.len() <= MAX_CHARGES, "one place for each charge");
    let straight = Straight::of(charges, places).and_then(Script::straight);
    let mut argument = Vec::new();
    if straight.is_some() {
        argument.reserve((1 + charges.len() * STRAIGHT_ROW) * size_of::<f64>());
        push(&mut argument, clock.map_or(0, |clock| clock.0));
    } else {
        write_head(&mut argument, clock, groups, charges.len());
    }
    for (index, (charge, place)) in charges.iter().zip(places).enumerate() {
        let (algorithm, quota) = (charge.meter.algorithm, &charge.meter.quota);
        let cost = charge.cost.clamp(0, MAX_COST);
        write_row(&mut argument, quota, [cost, i64::from(charge.enforced)], *place);
        if straight.is_none() {
            let same = places[..index].iter().rposition(|earlier| earlier == place).map_or(0, |earlier| earlier + 1);
            write_rest(&mut argument, algorithm, *place, same);
        }
    }
    (straight.unwrap_or_else(|| Script::of(Purpose::Acquire, Shape::of_charges(charges))), argument)
}

/// `ARGV[1]` of `settle.lua`, appended to `into`; as for [`acquire`].
pub fn write_corrections(
    into: &mut Vec<u8>,
    clock: Option<Timestamp>,
    groups: usize,
    corrections: &[Correction<'_>],
    places: &[Place],
) {
    debug_assert!(corrections.len() == places.len() && corrections.len() <= MAX_CHARGES, "one place for each");
    write_head(into, clock, groups, corrections.len());
    for (correction, place) in corrections.iter().zip(places).filter(|(correction, _)| correction.delta != 0) {
        let (algorithm, quota) = (correction.meter.algorithm, &correction.meter.quota);
        let delta = correction.delta.clamp(-MAX_COST, MAX_COST);
        write_row(into, quota, [delta, correction.at.0], *place);
        write_rest(into, algorithm, *place, 0);
    }
}

fn write_head(into: &mut Vec<u8>, clock: Option<Timestamp>, groups: usize, rows: usize) {
    into.reserve((HEAD + rows * ROW) * size_of::<f64>());
    push(into, clock.map_or(0, |clock| clock.0));
    push(into, groups as i64);
}

/// A row, as far as every script needs it; `own` is what a charge and a correction have of their own.
fn write_row(into: &mut Vec<u8>, quota: &Quota, own: [i64; 2], place: Place) {
    let window = match quota.window {
        Window::Span(Millis(span)) => span,
        Window::Month => -1,
        Window::Year => -2,
    };
    let of_quota =
        [quota.count, window, quota.capacity, quota.max_wait.map_or(-1, |max_wait| max_wait.0.min(MAX_COST))];
    for number in of_quota.into_iter().chain(own) {
        push(into, number);
    }
    push(into, place.record as i64);
}

/// What a script needs besides that is written for any rows.
fn write_rest(into: &mut Vec<u8>, algorithm: &dyn Algorithm, place: Place, same: usize) {
    for number in [twin_index(algorithm), place.key + 1, same] {
        push(into, number as i64);
    }
}

fn push(into: &mut Vec<u8>, number: i64) {
    debug_assert!(number.unsigned_abs() <= 1 << 53, "a double holds it");
    into.extend_from_slice(&(number as f64).to_le_bytes());
}

/// A reply that no script of ours gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reply of a script is not understood")]
pub struct Misread;

/// What `acquire.lua` answered.
#[derive(Debug)]
pub struct Acquired {
    pub outcome: Outcome,
    /// Keys whose value was of another type or format and that were replaced.
    pub replaced: u64,
}

/// Reads the reply of `acquire.lua` to that many charges.
pub fn read_acquired(reply: &[u8], charges: usize) -> Result<Acquired, Misread> {
    let mut numbers = Numbers::new(reply, REPLY_HEAD + charges * READING)?;
    let admitted = numbers.within(0, 1)? == 1;
    let at = Timestamp(numbers.within(-MAX_COST, MAX_COST)?);
    let delay = Millis(numbers.within(0, MAX_COST)?);
    let replaced = numbers.within(0, i64::MAX)?.unsigned_abs();
    let reading = |_| {
        let remaining = numbers.within(0, MAX_COST)?;
        let wait = match numbers.within(-1, MAX_COST)? {
            -1 => Wait::Never,
            0 => Wait::Now,
            span => Wait::After(Millis(span)),
        };
        Ok(Reading {
            known: true,
            stand_in: false,
            remaining,
            wait,
            reset: Millis(numbers.within(-MAX_COST, MAX_COST)?),
        })
    };
    let readings = (0..charges).map(reading).collect::<Result<_, Misread>>()?;
    Ok(Acquired { outcome: Outcome { admitted, at, delay, degraded: false, readings }, replaced })
}

/// What `settle.lua` answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The instant of the settlement, by the clock of Redis.
    pub at: Timestamp,
    /// As in [`Acquired`].
    pub replaced: u64,
}

/// Reads the reply of `settle.lua`.
pub fn read_settled(reply: &[u8]) -> Result<Settled, Misread> {
    let mut numbers = Numbers::new(reply, 2)?;
    let at = Timestamp(numbers.within(-MAX_COST, MAX_COST)?);
    Ok(Settled { at, replaced: numbers.within(0, i64::MAX)?.unsigned_abs() })
}

/// The doubles of a reply, as the whole numbers they are.
struct Numbers<'a>(std::slice::ChunksExact<'a, u8>);

impl<'a> Numbers<'a> {
    fn new(reply: &'a [u8], expected: usize) -> Result<Self, Misread> {
        if reply.len() == expected * size_of::<f64>() {
            Ok(Self(reply.chunks_exact(size_of::<f64>())))
        } else {
            Err(Misread)
        }
    }

    fn within(&mut self, least: i64, most: i64) -> Result<i64, Misread> {
        let bytes = self.0.next().ok_or(Misread)?.try_into().map_err(|_| Misread)?;
        let double = f64::from_le_bytes(bytes);
        if double.fract() != 0.0 || double.abs() > EXACT {
            return Err(Misread);
        }
        let number = double as i64;
        if (least..=most).contains(&number) { Ok(number) } else { Err(Misread) }
    }
}

const _: () = assert!(TWINS.len() < SHAPE_BITS, "an algorithm has a bit in a shape");
