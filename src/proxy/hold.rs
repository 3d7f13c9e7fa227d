//! Holding a request until its turn in a leaky bucket, and noticing when its client leaves.
//!
//! While it waits, its body is read into Pingora's bounded retry buffer, from where it is forwarded later: only a
//! connection with nothing left to read can show that the client has gone.

use super::parking::{self, Parking, Place};
use crate::algorithm::Algorithm;
use crate::limiter::Receipt;
use crate::policy::Policy;
use crate::time::{Clock, Millis};
use pingora::proxy::Session;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

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
fn place(parking: &Arc<Parking>, policy: &Policy, receipt: &Receipt) -> Option<(Place, Millis)> {
    let mut leaky = receipt
        .taken
        .iter()
        .filter(|taken| policy.limits[taken.limit].meter.algorithm.name() == crate::algorithm::LeakyBucket.name());
    let first = leaky.next()?;
    let meter = &policy.limits[first.limit].meter;
    let place = parking.park(parking::bucket(meter, &first.parts), receipt.at + receipt.delay)?;
    // With several leaky limits nobody moves up: what is right for one queue may be too early for another.
    let span = if leaky.next().is_some() { Millis(0) } else { parking::span_of(meter, first.cost) };
    Some((place, span))
}

/// Waits for the turn of an admitted request.
pub async fn hold(
    session: &mut Session,
    parking: &Arc<Parking>,
    policy: &Policy,
    receipt: &Receipt,
    clock: Clock,
) -> Held {
    let Some((mut place, span)) = place(parking, policy, receipt) else { return Held::Full };
    // The decision was made at `receipt.at` by the store's clock; only differences are used here.
    let started = Instant::now();
    let behind = clock.now() - receipt.at;
    session.enable_retry_buffering();
    let mut buffered = 0;
    loop {
        let wait = place.departs() - receipt.at;
        let turn = started + Duration::from_millis(Millis(wait.0 - behind.0.max(0)).0.max(0).unsigned_abs());
        let watching = buffered < BUFFERED_BODY_BYTES;
        let body_done = watching && session.is_body_done();
        tokio::select! {
            () = tokio::time::sleep_until(turn) => return Held::Turn,
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
