//! A key to its record: who it belongs to, and why it may not be used.
//!
//! Keys are known by the SHA-256 of the whole key alone; with keys of 128 random bits and more a slow hash would
//! buy nothing but a way to tire the gateway. The digest is the place in the table, and since nobody can choose it,
//! the time of a lookup tells nothing of the keys stored; it is compared in constant time all the same. A key that
//! is unknown does the same work as one that is known but may not be used, against a decoy.
//!
//! A record is kept small (a million keys are an ordinary fleet): what most keys lack stands behind one pointer.
//!
//! Never done here: keeping a key, reading a clock, or deciding what a wrong key costs.

use super::client::contains;
use super::credential::Presented;
use super::path::canonical_literal;
use crate::config::model::KeyPattern;
use crate::time::{Millis, Timestamp};
use hashbrown::HashTable;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// When a key without an end expires.
const NEVER: Timestamp = Timestamp(i64::MAX);

/// How long before its end a key is said to expire soon: 14 days, time enough to hand out another.
pub const EXPIRES_SOON: Millis = Millis(14 * 86_400_000);

/// A key as it is given to [`KeyTable::build`].
#[derive(Clone, Debug)]
pub struct NewKey {
    /// SHA-256 of the whole key.
    pub digest: [u8; 32],
    /// Index of the consumer it belongs to.
    pub consumer: usize,
    /// What logs, metrics and the upstream are shown of it.
    pub id: Box<str>,
    /// The first instant at which it is valid; absent: always was.
    pub not_before: Option<Timestamp>,
    /// The first instant at which it is no longer; absent: never.
    pub expires: Option<Timestamp>,
    /// Absent: every route.
    pub routes: Option<Vec<KeyPattern>>,
    /// Absent: every address.
    pub allow_ips: Option<Vec<IpNet>>,
    pub disabled: bool,
}

/// What is known of a key.
#[derive(Debug)]
pub struct KeyRecord {
    digest: [u8; 32],
    not_before: Timestamp,
    expires: Timestamp,
    id: Box<str>,
    restriction: Option<Box<Restriction>>,
    consumer: u32,
    disabled: bool,
}

/// Where a key may be used.
#[derive(Debug)]
struct Restriction {
    routes: Option<Box<[KeyScope]>>,
    allow_ips: Option<Box<[IpNet]>>,
}

/// A [`KeyPattern`] with its path in the form of requests.
#[derive(Debug)]
struct KeyScope {
    method: Option<Box<str>>,
    /// What stands between the slashes, the empty text before the first included. With `any_rest` the last one is the
    /// beginning of what may follow.
    pieces: Box<[Piece]>,
    any_rest: bool,
}

/// One segment of a key's scope.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(Box<str>),
    /// Any one segment that is not empty.
    Parameter,
}

/// All keys, by digest.
#[derive(Debug)]
pub struct KeyTable {
    records: Vec<KeyRecord>,
    by_digest: HashTable<u32>,
    decoy: KeyRecord,
    /// When keys that are not disabled expire, sorted.
    ends: Box<[Timestamp]>,
}

/// Two keys of one digest: the indexes in the list that was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    pub first: usize,
    pub second: usize,
}

/// Who calls, as far as keys tell.
#[derive(Clone, Copy, Debug)]
pub enum Identity {
    /// No key.
    Anonymous,
    /// An index into the table.
    Known(usize),
    /// To the client all of these are one: the same answer, byte for byte.
    Wrong(WrongKey),
    /// Two different keys.
    Ambiguous,
}

/// Why a key is wrong; for the log and the metrics, never for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongKey {
    /// Unknown.
    Invalid,
    NotYetValid,
    Expired,
    Disabled,
    /// Not even a key in form.
    Malformed,
}

impl WrongKey {
    /// The label in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid | Self::Malformed => "invalid",
            Self::NotYetValid => "not_yet_valid",
            Self::Expired => "expired",
            Self::Disabled => "disabled",
        }
    }
}

impl KeyTable {
    /// Builds the table, or tells which keys are there twice.
    ///
    /// # Panics
    /// Never with fewer than 2^32 keys and consumers, which no file that fits in memory has.
    pub fn build(keys: Vec<NewKey>) -> Result<Self, Vec<DuplicateKey>> {
        let mut table = Self {
            records: Vec::with_capacity(keys.len()),
            by_digest: HashTable::with_capacity(keys.len()),
            decoy: KeyRecord::decoy(),
            ends: Box::default(),
        };
        let mut duplicates = Vec::new();
        for (second, key) in keys.into_iter().enumerate() {
            if let Some(first) = table.position(&key.digest) {
                duplicates.push(DuplicateKey { first: first as usize, second });
            } else {
                let index = u32::try_from(second).expect("the number of keys is bounded by the size of their file");
                let records = &table.records;
                let hash = place(&key.digest);
                table.by_digest.insert_unique(hash, index, |index| place(&records[*index as usize].digest));
            }
            // A duplicate is kept too, so that indexes stay those of the list until all of them are told.
            table.records.push(KeyRecord::new(key));
        }
        let ending = table.records.iter().filter(|record| record.expires < NEVER && !record.disabled);
        let mut ends: Vec<Timestamp> = ending.map(|record| record.expires).collect();
        ends.sort_unstable();
        table.ends = ends.into();
        if duplicates.is_empty() { Ok(table) } else { Err(duplicates) }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many keys expire soon ([`KeyRecord::expires_soon`]).
    pub fn expiring(&self, now: Timestamp) -> usize {
        let until = |instant: Timestamp| self.ends.partition_point(|end| *end <= instant);
        until(now + EXPIRES_SOON).saturating_sub(until(now))
    }

    /// The place of the key with that id; looks at every key, so never on a request's way.
    pub fn find_id(&self, id: &str) -> Option<usize> {
        self.records.iter().position(|record| &*record.id == id)
    }

    /// Every key, in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = &KeyRecord> {
        self.records.iter()
    }

    /// The key that [`Identity::Known`] names.
    pub fn record(&self, index: usize) -> &KeyRecord {
        &self.records[index]
    }

    /// Whose key a request shows at `now`.
    pub fn identify(&self, presented: &Presented<'_>, now: Timestamp) -> Identity {
        match presented {
            Presented::None => Identity::Anonymous,
            Presented::Ambiguous => Identity::Ambiguous,
            Presented::Malformed => Identity::Wrong(WrongKey::Malformed),
            Presented::One(key) => self.lookup(key, now),
        }
    }

    fn lookup(&self, key: &[u8], now: Timestamp) -> Identity {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let index = self.position(&digest).map(|index| index as usize);
        let record = index.map_or(&self.decoy, |index| &self.records[index]);
        // All of it is worked out, whatever the first says, so that each kind of wrong key takes the same time.
        let is_known = bool::from(record.digest.ct_eq(&digest));
        match (index.filter(|_| is_known), record.fault(now)) {
            (None, _) => Identity::Wrong(WrongKey::Invalid),
            (Some(_), Some(fault)) => Identity::Wrong(fault),
            (Some(index), None) => Identity::Known(index),
        }
    }

    /// What a request by the key at this index is at `now`, as if it had shown it.
    pub fn standing(&self, index: usize, now: Timestamp) -> Identity {
        self.records[index].fault(now).map_or(Identity::Known(index), Identity::Wrong)
    }

    fn position(&self, digest: &[u8; 32]) -> Option<u32> {
        let is_it = |index: &u32| bool::from(self.records[*index as usize].digest.ct_eq(digest));
        self.by_digest.find(place(digest), is_it).copied()
    }
}

/// A digest's place in the table. Digests are evenly spread, so a part of one is as good as a hash of it.
fn place(digest: &[u8; 32]) -> u64 {
    let (first, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    u64::from_le_bytes(*first)
}

impl KeyRecord {
    fn new(key: NewKey) -> Self {
        let restriction = (key.routes.is_some() || key.allow_ips.is_some()).then(|| {
            let routes = key.routes.map(|patterns| patterns.iter().map(KeyScope::new).collect());
            Box::new(Restriction { routes, allow_ips: key.allow_ips.map(Vec::into_boxed_slice) })
        });
        Self {
            digest: key.digest,
            not_before: key.not_before.unwrap_or(Timestamp(i64::MIN)),
            expires: key.expires.unwrap_or(NEVER),
            id: key.id,
            restriction,
            consumer: u32::try_from(key.consumer).expect("consumers are bounded by the size of their file"),
            disabled: key.disabled,
        }
    }

    /// What an unknown key is compared with. Should a key have this digest, the table would not know it either.
    fn decoy() -> Self {
        Self {
            digest: [0; 32],
            not_before: Timestamp(i64::MIN),
            expires: NEVER,
            id: Box::default(),
            restriction: None,
            consumer: 0,
            disabled: true,
        }
    }

    /// Why it may not be used at `now`.
    fn fault(&self, now: Timestamp) -> Option<WrongKey> {
        let (is_early, is_late) = (now < self.not_before, now >= self.expires);
        match (self.disabled, is_early, is_late) {
            (true, ..) => Some(WrongKey::Disabled),
            (_, true, _) => Some(WrongKey::NotYetValid),
            (_, _, true) => Some(WrongKey::Expired),
            _ => None,
        }
    }

    /// Index of the consumer it belongs to.
    pub fn consumer(&self) -> usize {
        self.consumer as usize
    }

    /// What logs, metrics and the upstream are shown of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it ends within [`EXPIRES_SOON`], and has not yet.
    pub fn expires_soon(&self, now: Timestamp) -> bool {
        !self.disabled && now < self.expires && self.expires <= now + EXPIRES_SOON && self.expires < NEVER
    }

    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Whether the key may make this request: `path` in its matching form, `address` the client's own and not its
    /// group.
    pub fn permits(&self, method: &str, path: &str, address: IpAddr) -> bool {
        let Some(restriction) = &self.restriction else { return true };
        let route =
            restriction.routes.as_ref().is_none_or(|scopes| scopes.iter().any(|scope| scope.takes(method, path)));
        route && restriction.allow_ips.as_ref().is_none_or(|nets| contains(nets, address))
    }
}

impl KeyScope {
    fn new(pattern: &KeyPattern) -> Self {
        Self {
            method: pattern.method.as_deref().map(Into::into),
            pieces: pattern.path.split('/').map(Piece::new).collect(),
            any_rest: pattern.any_rest,
        }
    }

    fn takes(&self, method: &str, path: &str) -> bool {
        let by_method = match self.method.as_deref() {
            None => true,
            Some("GET") => matches!(method, "GET" | "HEAD"),
            Some(own) => own == method,
        };
        by_method && self.takes_path(path)
    }

    /// Segment by segment, so that `:id` takes one. An empty beginning of the rest (`/api/*`) also lets the path end
    /// before it, as `/api` and `/api/` are one path to routes.
    fn takes_path(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let (fixed, rest) = match self.pieces.split_last() {
            Some((Piece::Literal(beginning), fixed)) if self.any_rest => (fixed, Some(beginning)),
            _ => (&*self.pieces, None),
        };
        let takes_fixed = fixed.iter().all(|piece| segments.next().is_some_and(|segment| piece.takes(segment)));
        takes_fixed
            && match (rest, segments.next()) {
                (Some(beginning), Some(segment)) => segment.starts_with(&**beginning),
                (Some(beginning), None) => beginning.is_empty(),
                (None, next) => next.is_none(),
            }
    }
}

impl Piece {
    /// Told apart before escapes are taken away: `%3Aid` is the segment `:id`, and no parameter.
    fn new(text: &str) -> Self {
        if text.starts_with(':') { Self::Parameter } else { Self::Literal(canonical_literal(text).into()) }
    }

    fn takes(&self, segment: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *segment,
            Self::Parameter => !segment.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests;
