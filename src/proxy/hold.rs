//! Holding a request until its turn in a leaky bucket, and noticing when its client leaves.
//!
//! While it waits, its body is read into Pingora's bounded retry buffer, from where it is forwarded later: only a
//! connection with nothing left to read can show that the client has gone.

use super::parking::{self, Parking, Place};
use super::snapshot::Snapshot;
use crate::limiter::Receipt;
use crate::time::{Clock, Millis, Timestamp};
use pingora::proxy::Session;
use std::sync::Arc;

/// Pingora's retry buffer: past it the body stays with the client, and a client that leaves is noticed only at
/// the request's turn.
const BUFFERED_BODY_BYTES: usize = 64 * 1024;

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is the request's turn.
    Turn,
    /// The client left; the request must not be forwarded.
    Left,
    /// Too many requests are held already.
    Full,
}

/// The place of an admitted request in its bucket's queue; absent when the gateway holds too many.
fn place(parking: &Arc<Parking>, snapshot: &Snapshot, receipt: &Receipt) -> Option<(Place, Millis)> {
    let policy = &snapshot.policy;
    let first = receipt.queues(policy).next()?;
    let meter = &policy.limits[first.limit].meter;
    let bucket = parking::bucket(meter, &first.parts);
    let place = parking.park(snapshot.server.max_parked, bucket, receipt.at + receipt.delay)?;
    let span = if receipt.moves_up(policy) { parking::span_of(meter, first.cost) } else { Millis(0) };
    Some((place, span))
}

/// Waits for the turn of an admitted request that arrived at `arrived` by the gateway's clock.
pub async fn hold(
    session: &mut Session,
    parking: &Arc<Parking>,
    snapshot: &Snapshot,
    receipt: &Receipt,
    arrived: Timestamp,
    clock: Clock,
) -> Held {
    let Some((mut place, span)) = place(parking, snapshot, receipt) else { return Held::Full };
    session.enable_retry_buffering();
    let mut buffered = 0;
    loop {
        // The store may have a clock of its own, so only the difference of its instants is used.
        let turn = arrived + (place.departs() - receipt.at);
        let wait = (turn - clock.now()).to_duration();
        let watching = buffered < BUFFERED_BODY_BYTES;
        let body_done = watching && session.is_body_done();
        tokio::select! {
            () = tokio::time::sleep(wait) => return Held::Turn,
            () = place.moved() => {}
            read = session.read_body_or_idle(body_done), if watching => match read {
                Ok(Some(bytes)) => buffered += bytes.len(),
                Ok(None) => {}
                Err(_) => {
                    place.leave(span);
                    return Held::Left;
                }
            },
        }
    }
}
