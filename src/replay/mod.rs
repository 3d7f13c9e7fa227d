//! `replay`: what a policy would have done to the traffic of an access log.
//!
//! One thread reads, parses and orders ([`input`], [`line`], [`record`], [`order`]), one decides ([`judge`]) and counts
//! ([`tally`], [`difference`]); batches go from the one to the other through a bounded queue. What decides is what the
//! gateway runs, with a memory store of its own and the recorded instants for a clock, so that a replay of a gateway's
//! own log gives the gateway's own decisions. It opens no port, asks no store and changes no file but the page it was
//! asked for. `docs/tuning.md` shows its use.

mod callers;
pub mod condition;
mod difference;
pub mod fields;
mod html;
mod input;
mod instant;
pub mod judge;
mod line;
mod order;
mod plot;
mod progress;
mod record;
pub mod report;
mod tally;
pub mod text;
mod timeline;

pub use html::page;

use difference::{Difference, Side};
use fields::Format;
use input::Lines;
use judge::{Judge, Outcome, Ruling};
use order::{Ordered, Read};
use progress::Progress;
use record::{Fate, Record};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tally::Tally;

/// Logs that may be open at once.
pub const MAX_LOGS: usize = 512;

/// Requests that go to the deciding thread at once.
const BATCH: usize = 512;

/// Batches that may wait.
const QUEUE_BATCHES: usize = 16;

/// What is replayed.
pub struct Plan {
    /// Files, or `-`.
    pub logs: Vec<String>,
    pub format: Format,
    pub judge: Judge,
    /// The policy that the new one is compared with.
    pub old: Option<Judge>,
}

/// What came of it.
pub struct Replayed {
    pub judge: Judge,
    pub old: Option<Judge>,
    pub tally: Tally,
    pub compared: Option<Difference>,
    /// Against what the log itself says; absent when it says nothing.
    pub recorded: Option<Difference>,
    pub read: Read,
    pub took: Duration,
}

type Batch = Vec<Box<Record>>;

/// Replays; the error names the log that could not be read.
pub fn run(plan: Plan) -> io::Result<Replayed> {
    let Plan { logs, format, judge, old } = plan;
    let bytes = Arc::new(AtomicU64::new(0));
    let total_bytes = logs.iter().map(|log| size(log)).sum();
    let open = |log: &String| {
        Lines::open(log, bytes.clone()).map_err(|error| io::Error::new(error.kind(), format!("{log}: {error}")))
    };
    let opened = logs.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    let mut progress = Progress::new(total_bytes);
    let mut replay = Replay {
        tally: Tally::new(&judge),
        compared: old.is_some().then(Difference::default),
        recorded: Difference::default(),
        judge,
        old,
    };
    let (sender, receiver) = sync_channel(QUEUE_BATCHES);
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(opened, &format, &sender_of(sender)));
        replay.decide_all(&receiver, |lines| progress.update(lines, bytes.load(Relaxed)));
        reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads has ended")))
    });
    progress.end();
    let Replay { judge, old, tally, compared, recorded } = replay;
    let recorded = (recorded.compared > 0).then_some(recorded);
    Ok(Replayed { judge, old, tally, compared, recorded, read: read?, took: progress.elapsed() })
}

/// Bytes of a log on disk; absent for what is not a file.
fn size(log: &str) -> Option<u64> {
    std::fs::metadata(log).ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
}

/// Moves the sender into the thread, so that the queue ends when the thread does.
fn sender_of(sender: SyncSender<Batch>) -> impl Fn(Batch) -> bool {
    move |batch| sender.send(batch).is_ok()
}

fn read_all(logs: Vec<Lines>, format: &Format, send: &dyn Fn(Batch) -> bool) -> io::Result<Read> {
    let mut ordered = Ordered::new(logs, format)?;
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(record) = ordered.next_record()? {
        batch.push(record);
        if batch.len() == BATCH && !send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))) {
            break;
        }
    }
    send(batch);
    Ok(ordered.read)
}

/// The deciding side.
struct Replay {
    judge: Judge,
    old: Option<Judge>,
    tally: Tally,
    compared: Option<Difference>,
    recorded: Difference,
}

impl Replay {
    fn decide_all(&mut self, batches: &Receiver<Batch>, mut progress: impl FnMut(u64)) {
        let mut lines = 0;
        for batch in batches {
            lines += batch.len() as u64;
            for record in batch {
                self.decide(&record);
            }
            progress(lines);
        }
    }

    fn decide(&mut self, record: &Record) {
        let ruling = self.judge.decide(record);
        self.tally.add(record.at, &ruling, &self.judge);
        let now = side(&ruling, &self.judge);
        if let (Some(old), Some(compared)) = (&self.old, &mut self.compared) {
            let ruling_then = old.decide(record);
            compared.add(record.at, ruling.caller, side(&ruling_then, old), now);
        }
        if let Some(fate) = record.then.fate {
            let then = Side { refused: fate == Fate::Refused, limit: &record.then.limit };
            self.recorded.add(record.at, ruling.caller, then, now);
        }
    }
}

fn side<'a>(ruling: &Ruling, judge: &'a Judge) -> Side<'a> {
    let limit = ruling.limit.map_or("", |limit| &judge.policy.limits[limit].name);
    Side { refused: ruling.outcome == Outcome::Refused, limit }
}
