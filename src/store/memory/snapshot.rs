//! All counters as bytes, and back: for a file that outlives the process, and for the process that takes over.
//!
//! Bytes: 16 of magic, a version, the secret under which counters are known, the store's instant; then a record for each
//! counter; an end with the number of records; the SHA-256 of all that. Integers are little-endian. Reading and writing go
//! record by record, so memory stays bounded whatever the store holds, and a lock is held for a slice of places at a time.
//!
//! Never done here: opening a file or a socket.

use super::key::{Key, Secret};
use super::{MemoryStore, Shard};
use crate::algorithm::{Log, MAX_LOG_COUNT, State};
use crate::time::{Millis, Timestamp};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

const MAGIC: &[u8; 16] = b"sluicegate count";

/// Of the bytes; another one is not read.
const VERSION: u32 = 1;

/// Places that one piece looks at under one lock.
const SLICE_PLACES: usize = 4096;

/// A piece that has as many bytes ends, even within a slice; the record that reaches it may be a log of 1.6 MB.
const PIECE_BYTES: usize = 128 << 10;

/// How often one shard is begun again because its slots changed places. After that a counter that moved may be missed, until
/// the next snapshot; a store in which nothing is decided any more moves nothing.
const MAX_RESTARTS: u32 = 16;

/// How far the instant of a snapshot may be ahead: as long it could make callers wait.
pub const MAX_AHEAD: Millis = Millis(86_400_000);

/// What begins a record.
mod tag {
    pub(super) const END: u8 = 0;
    pub(super) const CELLS: u8 = 1;
    pub(super) const LOG: u8 = 2;
}

/// Gives the bytes of a store, piece by piece.
pub struct Export<'a> {
    store: &'a MemoryStore,
    digest: Sha256,
    records: u64,
    shard: usize,
    place: usize,
    /// The moves of the shard when it was begun.
    moves: Option<u64>,
    restarts: u32,
    stage: Stage,
}

enum Stage {
    Head(Timestamp),
    Counters,
    Done,
}

impl<'a> Export<'a> {
    /// `now` is the instant of the store's clock.
    pub fn new(store: &'a MemoryStore, now: Timestamp) -> Self {
        Self {
            store,
            digest: Sha256::new(),
            records: 0,
            shard: 0,
            place: 0,
            moves: None,
            restarts: 0,
            stage: Stage::Head(now),
        }
    }

    /// Counters written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Replaces `piece` with the next bytes; false when there are none left.
    pub fn next(&mut self, piece: &mut Vec<u8>) -> bool {
        piece.clear();
        match self.stage {
            Stage::Head(now) => {
                piece.extend_from_slice(MAGIC);
                piece.extend_from_slice(&VERSION.to_le_bytes());
                let secret = &self.store.secret;
                for number in [secret.0, secret.1] {
                    piece.extend_from_slice(&number.to_le_bytes());
                }
                piece.extend_from_slice(&now.0.to_le_bytes());
                self.stage = Stage::Counters;
            }
            Stage::Counters if self.shard < self.store.shards.len() => self.slice(piece),
            Stage::Counters => {
                piece.push(tag::END);
                piece.extend_from_slice(&self.records.to_le_bytes());
                self.digest.update(&piece);
                piece.extend_from_slice(&self.digest.finalize_reset());
                self.stage = Stage::Done;
                return true;
            }
            Stage::Done => return false,
        }
        self.digest.update(&piece);
        true
    }

    fn slice(&mut self, piece: &mut Vec<u8>) {
        let shard = self.store.shards[self.shard].0.lock();
        let moves = shard.moves();
        if self.moves.is_some_and(|begun| begun != moves) && self.restarts < MAX_RESTARTS {
            (self.place, self.restarts) = (0, self.restarts + 1);
        }
        self.moves = Some(moves);
        let next = shard.walk(self.place, SLICE_PLACES, |key, expires, state| {
            write_record(piece, key, expires, state);
            self.records += 1;
            if piece.len() < PIECE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match next {
            Some(place) => self.place = place,
            None => (self.shard, self.place, self.moves, self.restarts) = (self.shard + 1, 0, None, 0),
        }
    }
}

fn write_record(out: &mut Vec<u8>, key: Key, expires: Timestamp, state: &State) {
    out.push(match state {
        State::Cells(_) => tag::CELLS,
        State::Log(_) => tag::LOG,
    });
    out.extend_from_slice(&key.high.to_le_bytes());
    out.extend_from_slice(&key.low.to_le_bytes());
    out.extend_from_slice(&expires.0.to_le_bytes());
    match state {
        State::Cells(cells) => cells.iter().for_each(|cell| out.extend_from_slice(&cell.to_le_bytes())),
        State::Log(log) => {
            out.extend_from_slice(&u32::try_from(log.len()).unwrap_or(u32::MAX).to_le_bytes());
            for (at, cost) in log.entries() {
                out.extend_from_slice(&at.0.to_le_bytes());
                out.extend_from_slice(&cost.to_le_bytes());
            }
        }
    }
}

/// Why bytes are not the counters of a store.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("it is not a snapshot of counters")]
    Foreign,
    #[error("it has version {0} of the format, and this program reads version {VERSION}")]
    Version(u32),
    #[error("it is cut off")]
    CutOff,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it is from {} s ahead of the clock", .0.seconds_up())]
    Ahead(Millis),
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Unreadable(error),
        }
    }
}

/// Bytes whose head was read.
pub struct Import<R> {
    reader: R,
    digest: Sha256,
    secret: Secret,
    /// The store's instant when they were written.
    pub at: Timestamp,
}

impl<R: Read> Import<R> {
    /// Reads the head; `reader` should be buffered.
    pub fn open(reader: R) -> Result<Self, Fault> {
        let mut import = Self { reader, digest: Sha256::new(), secret: Secret(0, 0), at: Timestamp(0) };
        // Whatever is too short to say what it is is no snapshot either.
        if import.take().map_or(true, |magic: [u8; 16]| magic != *MAGIC) {
            return Err(Fault::Foreign);
        }
        match u32::from_le_bytes(import.take()?) {
            VERSION => {}
            version => return Err(Fault::Version(version)),
        }
        import.secret = Secret(import.number()?.cast_unsigned(), import.number()?.cast_unsigned());
        import.at = Timestamp(import.number()?);
        Ok(import)
    }

    /// Reads the rest into a new store of at most `max_entries` counters. What has expired at `now` is left out.
    pub fn restore(mut self, max_entries: usize, now: Timestamp) -> Result<MemoryStore, Fault> {
        let ahead = self.at - now;
        if ahead > MAX_AHEAD {
            return Err(Fault::Ahead(ahead));
        }
        let store = MemoryStore::under(Secret(self.secret.0, self.secret.1), max_entries);
        let mut records = 0;
        loop {
            let [kind] = self.take()?;
            if kind == tag::END {
                break;
            }
            let key = Key { high: self.number()?.cast_unsigned(), low: self.number()?.cast_unsigned() };
            let expires = Timestamp(self.number()?);
            let state = self.state(kind)?;
            records += 1;
            if expires > now {
                store.put_back(key, state, expires, now);
            }
        }
        if self.number()? != records {
            return Err(Fault::Damaged("counters are missing"));
        }
        let expected = self.digest.clone().finalize();
        if self.take::<32>()? != expected[..] {
            return Err(Fault::Damaged("its checksum differs"));
        }
        Ok(store)
    }

    fn state(&mut self, kind: u8) -> Result<State, Fault> {
        match kind {
            tag::CELLS => Ok(State::Cells([self.number()?, self.number()?, self.number()?])),
            tag::LOG => {
                let length = i64::from(u32::from_le_bytes(self.take()?));
                if length > MAX_LOG_COUNT {
                    return Err(Fault::Damaged("a log is too long"));
                }
                let entries = (0..length).map(|_| Ok((Timestamp(self.number()?), self.number()?)));
                Ok(State::Log(Box::new(Log::from_entries(entries.collect::<Result<Vec<_>, Fault>>()?))))
            }
            _ => Err(Fault::Damaged("a record is of no known kind")),
        }
    }

    fn number(&mut self) -> Result<i64, Fault> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.digest.update(bytes);
        Ok(bytes)
    }
}

impl MemoryStore {
    /// Keeps a counter that another store kept; the same counter given again replaces the first.
    fn put_back(&self, key: Key, state: State, expires: Timestamp, now: Timestamp) {
        let shard: &mut Shard = &mut self.shards[self.shard_of(key)].0.lock();
        if shard.remove(key) {
            self.entries.fetch_sub(1, Relaxed);
        }
        self.make_room(shard, key, &[key], now);
        shard.insert(key, state, expires);
    }
}

#[cfg(test)]
mod tests;
