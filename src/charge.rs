//! What is asked of a store, and what it answers.
//!
//! A [`Charge`] is one counter, its arithmetic and the cost to take. A store gets all charges of a request in
//! one call and takes all of them or none. Nothing here knows of requests, policies or configuration: a store
//! could serve another program.

use crate::algorithm::{Algorithm, Quota, Units, Wait};
use crate::time::{Millis, Timestamp};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::IpAddr;

/// Charges that fit without allocating; a request under more limits than this is served all the same.
pub const INLINE_CHARGES: usize = 6;

/// What becomes of a charge whose store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// A limiter in the process takes over, with this gateway's share of the quota.
    #[default]
    Local,
    /// The charge passes, unknown.
    Open,
    /// The request is refused: nobody can say whether it fits.
    Closed,
}

/// The arithmetic of one limit and the identity of its counters.
#[derive(Debug)]
pub struct Meter {
    /// Names the counters together with the partition: limit name, algorithm and window. Stable over reloads
    /// that keep those three, whatever happens to quota, burst or cost.
    pub identity: Box<str>,
    /// The limit's name, for a store whose keys people read.
    pub name: Box<str>,
    /// The arithmetic.
    pub algorithm: &'static dyn Algorithm,
    /// What is granted.
    pub quota: Quota,
    /// What becomes of a charge while the store fails.
    pub on_error: OnError,
    /// The meter of [`OnError::Local`]: the same with this gateway's share of the quota. Absent where the store cannot
    /// fail, and in such a meter itself.
    pub local: Option<Box<Meter>>,
}

impl Meter {
    /// A meter that stands alone: its name is its identity, and nothing takes its place when a store fails.
    pub fn alone(identity: &str, algorithm: &'static dyn Algorithm, quota: Quota) -> Self {
        let identity: Box<str> = identity.into();
        Self { name: identity.clone(), identity, algorithm, quota, on_error: OnError::Local, local: None }
    }
}

/// One value that splits a limit into counters. Parts are tagged by kind, so that an address, a consumer or a header of
/// the same text never share a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// An address prefix (see the client address rules); IPv4 and IPv6 are different kinds.
    Address(IpAddr),
    /// A named value: the kind (`consumer`, `route`, `header:x-tenant`, …) and its bytes, whole.
    Named(&'a str, &'a [u8]),
    /// As `Named`, where the value had to be put together for this request or must outlive it.
    Owned(Cow<'a, str>, Box<[u8]>),
}

impl Part<'_> {
    /// The same part, borrowed from this one.
    pub fn reborrow(&self) -> Part<'_> {
        match self {
            Part::Address(address) => Part::Address(*address),
            Part::Named(kind, value) => Part::Named(kind, value),
            Part::Owned(kind, value) => Part::Named(kind, value),
        }
    }

    /// A copy that borrows nothing.
    pub fn to_static(&self) -> Part<'static> {
        match self {
            Part::Address(address) => Part::Address(*address),
            Part::Named(kind, value) => Part::Owned(Cow::Owned((*kind).to_owned()), (*value).into()),
            Part::Owned(kind, value) => Part::Owned(Cow::Owned(kind.clone().into_owned()), value.clone()),
        }
    }
}

/// The values that pick one counter of a limit, in the order of the limit's `per`.
pub type Parts<'a> = SmallVec<[Part<'a>; 2]>;

/// Kinds of parts in a counter's name.
mod tag {
    pub(super) const NAMED: u8 = 1;
    pub(super) const IPV4: u8 = 4;
    pub(super) const IPV6: u8 = 6;
}

/// Feeds `write` the bytes that name the counter of a meter's `identity` and these parts, piece by piece.
///
/// Every text is preceded by its length and every part by its kind, so that no two counters have the same bytes,
/// whatever a client puts into a part.
pub fn write_name(identity: &str, parts: &[Part<'_>], mut write: impl FnMut(&[u8])) {
    write(&identity.len().to_le_bytes());
    write(identity.as_bytes());
    for part in parts {
        let (kind, value): (&str, &[u8]) = match part {
            Part::Address(IpAddr::V4(address)) => {
                write(&[tag::IPV4]);
                write(&address.octets());
                continue;
            }
            Part::Address(IpAddr::V6(address)) => {
                write(&[tag::IPV6]);
                write(&address.octets());
                continue;
            }
            Part::Named(kind, value) => (kind, value),
            Part::Owned(kind, value) => (kind, value),
        };
        write(&[tag::NAMED]);
        for text in [kind.as_bytes(), value] {
            write(&text.len().to_le_bytes());
            write(text);
        }
    }
}

/// One counter and what to take from it.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    /// Which arithmetic.
    pub meter: &'a Meter,
    /// Which of the limit's counters.
    pub parts: Parts<'a>,
    /// What to take; 0 reads without taking.
    pub cost: Units,
    /// Whether a refusal by this counter refuses the request (a shadow limit's does not).
    pub enforced: bool,
}

impl Charge<'_> {
    /// The same charge, borrowed from this one.
    pub fn reborrow(&self) -> Charge<'_> {
        let parts = self.parts.iter().map(Part::reborrow).collect();
        Charge { meter: self.meter, parts, cost: self.cost, enforced: self.enforced }
    }
}

/// All charges of one request.
pub type Charges<'a> = SmallVec<[Charge<'a>; INLINE_CHARGES]>;

/// What one counter said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// False when the store could not say: then the rest means nothing and must not be shown.
    pub known: bool,
    /// Whether what stands in for a store that failed said so, and holds the charge.
    pub stand_in: bool,
    /// Units left: after the charge when the request was admitted, as they stand when it was not.
    pub remaining: Units,
    /// Whether the cost fitted before anything was taken, and if not, when it will.
    pub wait: Wait,
    /// The reset to show on an accepted response.
    pub reset: Millis,
}

/// The store's answer to one call of `acquire`.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether all enforced charges fitted, and so all charges that fitted were taken.
    pub admitted: bool,
    /// The store's instant of the decision.
    pub at: Timestamp,
    /// How long the request is to be held before it goes on (leaky bucket).
    pub delay: Millis,
    /// Whether the store failed and this is what was decided without it.
    pub degraded: bool,
    /// One for each charge, in order.
    pub readings: SmallVec<[Reading; INLINE_CHARGES]>,
}

/// A later change of what was charged: a give-back when negative, a debt when positive.
#[derive(Clone, Debug)]
pub struct Correction<'a> {
    /// Which arithmetic.
    pub meter: &'a Meter,
    /// Which counter.
    pub parts: Parts<'a>,
    /// The instant of the charge that is corrected.
    pub at: Timestamp,
    /// Units to add (debt) or, negative, to give back.
    pub delta: Units,
    /// [`Reading::stand_in`] of the charge: a correction goes where its charge was taken.
    pub stand_in: bool,
}

impl Correction<'_> {
    /// The same correction, borrowed from this one.
    pub fn reborrow(&self) -> Correction<'_> {
        let parts = self.parts.iter().map(Part::reborrow).collect();
        Correction { meter: self.meter, parts, at: self.at, delta: self.delta, stand_in: self.stand_in }
    }
}
