//! Holding a request until its turn in a leaky bucket, and noticing when its client leaves.
//!
//! A connection with nothing left to read shows at once that the client has gone. So a body that is sure to fit into
//! Pingora's bounded retry buffer is read into it while the request waits, and forwarded from there. Any other body
//! stays with the client, for what does not fit would be lost; then the state of the socket is looked at.

use super::early;
use super::parking::{self, Parking, Place, Stand};
use super::snapshot::Snapshot;
use crate::limiter::Receipt;
use crate::time::{Clock, Timestamp};
use http::{Version, header};
use pingora::proxy::Session;
use std::sync::Arc;
use std::time::Duration;

/// What Pingora's retry buffer holds.
const BUFFERED_BODY_BYTES: u64 = 64 * 1024;

/// How often the socket of a client with an unread body is looked at.
const SOCKET_POLL: Duration = Duration::from_millis(100);

/// The states of a TCP connection that the other side has ended (`TCP_CLOSE` and `TCP_CLOSE_WAIT` of the kernel).
const ENDED: [u8; 2] = [7, 8];

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is the request's turn.
    Turn,
    /// The client left; the request must not be forwarded. With `place_free` its place in the queue can be given back.
    Left { place_free: bool },
    /// Too many requests are held already.
    Full,
}

/// The place of an admitted request in its buckets' queues; absent when the gateway holds too many.
fn place(parking: &Arc<Parking>, snapshot: &Snapshot, receipt: &Receipt) -> Option<Place> {
    let policy = &snapshot.policy;
    let stand = |taken: &crate::limiter::Taken| {
        let meter = &policy.limits[taken.limit].meter;
        Stand { bucket: parking::bucket(meter, &taken.parts), span: parking::span_of(meter, taken.cost) }
    };
    let stands = receipt.queues(policy).map(stand).collect();
    parking.park(snapshot.server.max_parked, stands, receipt.at + receipt.delay)
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
    let Some(mut place) = place(parking, snapshot, receipt) else { return Held::Full };
    session.enable_retry_buffering();
    let readable = is_readable(session);
    loop {
        // The store may have a clock of its own, so only the difference of its instants is used.
        let turn = arrived + (place.departs() - receipt.at);
        let wait = (turn - clock.now()).to_duration();
        tokio::select! {
            () = tokio::time::sleep(wait) => return Held::Turn,
            () = place.moved() => {}
            left = leaves(session, readable) => if left {
                return Held::Left { place_free: place.leave() };
            },
        }
    }
}

/// Whether the body is sure to fit into the retry buffer, and to come without being asked for.
fn is_readable(session: &Session) -> bool {
    let headers = &session.req_header().headers;
    !headers.contains_key(header::TRANSFER_ENCODING)
        && !headers.contains_key(header::EXPECT)
        && early::declared_length(headers).is_some_and(|length| length <= BUFFERED_BODY_BYTES)
}

/// Resolves to true when the client has left, and to false when a part of the body was read.
async fn leaves(session: &mut Session, readable: bool) -> bool {
    let done = session.is_body_done();
    // An HTTP/2 stream shows a reset without being read.
    if done || readable || session.req_header().version == Version::HTTP_2 {
        return session.read_body_or_idle(done || !readable).await.is_err();
    }
    loop {
        let socket = session.digest().and_then(|digest| digest.socket_digest.as_ref());
        if socket.and_then(|socket| socket.tcp_info()).is_some_and(|info| ENDED.contains(&info.tcpi_state)) {
            return true;
        }
        tokio::time::sleep(SOCKET_POLL).await;
    }
}
