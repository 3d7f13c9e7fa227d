//! Requests that a leaky bucket holds until their turn.
//!
//! A held request knows its departure from the decision. When one leaves the queue early (its client hung up), the
//! store gets its cost back, and everyone behind it in the same bucket moves up by the time it would have taken, so
//! that departures stay as far apart as before and none of the capacity is lost. The store does the arithmetic; this
//! file only keeps the appointments. It never holds more than `max_parked` requests.

use crate::algorithm::exact::mul_div_floor;
use crate::charge::{Meter, Part, write_name};
use crate::time::{Millis, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// One bucket's queue, by the bucket's identity.
type Queues = HashMap<Vec<u8>, Vec<Waiter>>;

struct Waiter {
    ticket: u64,
    departs: watch::Sender<Timestamp>,
}

/// All held requests of the process.
#[derive(Default)]
pub struct Parking {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queues: Queues,
    held: u64,
    next_ticket: u64,
}

/// A place in a queue. Dropping it gives the place up without moving anyone.
pub struct Place {
    parking: Arc<Parking>,
    bucket: Vec<u8>,
    ticket: u64,
    departs: watch::Receiver<Timestamp>,
}

impl Parking {
    /// Takes a place in a bucket's queue; absent when `capacity` requests are held already.
    pub fn park(self: &Arc<Self>, capacity: u64, bucket: Vec<u8>, departs: Timestamp) -> Option<Place> {
        let mut state = self.state.lock();
        if state.held >= capacity {
            return None;
        }
        state.held += 1;
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let (sender, receiver) = watch::channel(departs);
        state.queues.entry(bucket.clone()).or_default().push(Waiter { ticket, departs: sender });
        drop(state);
        Some(Place { parking: self.clone(), bucket, ticket, departs: receiver })
    }

    /// Requests held now.
    pub fn held(&self) -> u64 {
        self.state.lock().held
    }
}

impl Place {
    /// When the request may go on.
    pub fn departs(&self) -> Timestamp {
        *self.departs.borrow()
    }

    /// Resolves when the departure has moved.
    pub async fn moved(&mut self) {
        if self.departs.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Leaves the queue before its turn: those behind move up by `span`.
    pub fn leave(self, span: Millis) {
        let own = self.departs();
        let state = self.parking.state.lock();
        for waiter in state.queues.get(&self.bucket).into_iter().flatten() {
            waiter.departs.send_if_modified(|departs| {
                let behind = waiter.ticket != self.ticket && *departs > own;
                if behind {
                    *departs = own.max(*departs + Millis(-span.0));
                }
                behind
            });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.parking.state.lock();
        state.held -= 1;
        if let Some(queue) = state.queues.get_mut(&self.bucket) {
            queue.retain(|waiter| waiter.ticket != self.ticket);
            if queue.is_empty() {
                state.queues.remove(&self.bucket);
            }
        }
    }
}

/// How long a bucket takes to let `cost` go.
pub fn span_of(meter: &Meter, cost: i64) -> Millis {
    Millis(mul_div_floor(cost, meter.quota.window.nominal().0, meter.quota.count))
}

/// The name of a bucket as bytes; no two buckets share one.
pub fn bucket(meter: &Meter, parts: &[Part<'_>]) -> Vec<u8> {
    let mut name = Vec::with_capacity(64);
    write_name(&meter.identity, parts, |bytes| name.extend_from_slice(bytes));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 10;

    fn places(parking: &Arc<Parking>, departures: &[i64]) -> Vec<Place> {
        departures.iter().map(|at| parking.park(CAPACITY, b"bucket".to_vec(), Timestamp(*at)).unwrap()).collect()
    }

    #[test]
    fn those_behind_a_leaver_move_up_and_those_before_do_not() {
        let parking = Arc::new(Parking::default());
        let mut queue = places(&parking, &[500, 1000, 1500, 2000]);
        queue.remove(1).leave(Millis(500));
        let departures: Vec<_> = queue.iter().map(|place| place.departs().0).collect();
        assert_eq!(departures, [500, 1000, 1500]);
        assert_eq!(parking.held(), 3);
    }

    #[test]
    fn no_more_than_the_capacity_is_held() {
        let parking = Arc::new(Parking::default());
        let held = places(&parking, &[1, 2]);
        assert!(parking.park(2, b"other".to_vec(), Timestamp(3)).is_none());
        drop(held);
        assert!(parking.park(2, b"other".to_vec(), Timestamp(3)).is_some());
    }

    #[test]
    fn an_empty_queue_is_forgotten() {
        let parking = Arc::new(Parking::default());
        drop(places(&parking, &[1, 2]));
        assert!(parking.state.lock().queues.is_empty());
    }
}
