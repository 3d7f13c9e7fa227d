//! Requests that a leaky bucket holds until their turn.
//!
//! A held request knows its departure from the decision. When one leaves the queue early (its client hung up),
//! everyone behind it in the same bucket moves up by the time it would have taken, so that departures stay as far apart
//! as before, and the store gets its cost back, so that none of the capacity is lost. A request that stands in several
//! queues is pinned: what would be right for one of them may be too early for another. Whoever is behind a pinned one
//! stays too, and then the place is not given back, since the end of the queue has not moved.
//! The store does the arithmetic; this file only keeps the appointments. It never holds more than `max_parked` requests.

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
    /// The same as what `told` was told last.
    departs: Timestamp,
    /// How long the bucket takes to let it go.
    span: Millis,
    /// Whether it stands in other queues too.
    pinned: bool,
    told: watch::Sender<Timestamp>,
}

/// A bucket that a request stands in the queue of.
#[derive(Clone, Debug)]
pub struct Stand {
    pub bucket: Vec<u8>,
    /// How long the bucket takes to let the request go.
    pub span: Millis,
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

/// A place in one or more queues. Dropping it gives the place up without moving anyone.
pub struct Place {
    parking: Arc<Parking>,
    stands: Vec<Stand>,
    ticket: u64,
    departs: watch::Receiver<Timestamp>,
}

impl Parking {
    /// Takes a place in the queues of some buckets; absent when `capacity` requests are held already.
    ///
    /// A decision and its parking are two steps. When a place is given back in between, two requests may be told the
    /// same departure, so one that would meet another goes to the end of the queue instead.
    pub fn park(self: &Arc<Self>, capacity: u64, stands: Vec<Stand>, departs: Timestamp) -> Option<Place> {
        let mut state = self.state.lock();
        if state.held >= capacity {
            return None;
        }
        let queues = |stand: &Stand| state.queues.get(&stand.bucket).map_or(&[][..], Vec::as_slice);
        let meets = |stand: &Stand| queues(stand).iter().any(|waiter| waiter.meets(departs, stand.span));
        let departs = if stands.iter().any(meets) {
            let ends = stands.iter().flat_map(queues).map(|waiter| waiter.departs + waiter.span);
            ends.fold(departs, Timestamp::max)
        } else {
            departs
        };
        state.held += 1;
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let (told, receiver) = watch::channel(departs);
        let pinned = stands.len() > 1;
        for Stand { bucket, span } in &stands {
            let waiter = Waiter { ticket, departs, span: *span, pinned, told: told.clone() };
            state.queues.entry(bucket.clone()).or_default().push(waiter);
        }
        drop(state);
        Some(Place { parking: self.clone(), stands, ticket, departs: receiver })
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

    /// Leaves the queue before its turn: those behind move up, as far as nobody pinned stands before them. True when
    /// all of them did, so that the store may have the cost back.
    #[must_use]
    pub fn leave(self) -> bool {
        let [Stand { bucket, span }] = &self.stands[..] else { return false };
        let mut state = self.parking.state.lock();
        // Under the lock, or one that leaves at the same moment moves this place meanwhile, and those behind it are missed.
        let own = self.departs();
        let Some(queue) = state.queues.get_mut(bucket) else { return true };
        let behind = |waiter: &Waiter| waiter.ticket != self.ticket && waiter.departs > own;
        let pinned = queue.iter().filter(|waiter| behind(waiter) && waiter.pinned).map(|waiter| waiter.departs).min();
        for waiter in queue.iter_mut().filter(|waiter| behind(waiter)) {
            if pinned.is_none_or(|pinned| waiter.departs < pinned) {
                waiter.departs = own.max(waiter.departs + Millis(-span.0));
                waiter.told.send_replace(waiter.departs);
            }
        }
        pinned.is_none()
    }
}

impl Waiter {
    /// Whether one that departs at `departs` and takes `span` would be too near.
    fn meets(&self, departs: Timestamp, span: Millis) -> bool {
        departs < self.departs + self.span && self.departs < departs + span
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.parking.state.lock();
        state.held -= 1;
        for Stand { bucket, .. } in &self.stands {
            if let Some(queue) = state.queues.get_mut(bucket) {
                queue.retain(|waiter| waiter.ticket != self.ticket);
                if queue.is_empty() {
                    state.queues.remove(bucket);
                }
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

    const CAPACITY: u64 = 100;
    const SPAN: Millis = Millis(500);

    fn stand(bucket: &str) -> Stand {
        Stand { bucket: bucket.into(), span: SPAN }
    }

    fn park(parking: &Arc<Parking>, buckets: &[&str], departs: i64) -> Place {
        let stands = buckets.iter().map(|bucket| stand(bucket)).collect();
        parking.park(CAPACITY, stands, Timestamp(departs)).unwrap()
    }

    fn places(parking: &Arc<Parking>, departures: &[i64]) -> Vec<Place> {
        departures.iter().map(|at| park(parking, &["bucket"], *at)).collect()
    }

    fn departures(places: &[Place]) -> Vec<i64> {
        places.iter().map(|place| place.departs().0).collect()
    }

    #[test]
    fn those_behind_a_leaver_move_up_and_those_before_do_not() {
        let parking = Arc::new(Parking::default());
        let mut queue = places(&parking, &[500, 1000, 1500, 2000]);
        assert!(queue.remove(1).leave());
        assert_eq!(departures(&queue), [500, 1000, 1500]);
        assert_eq!(parking.held(), 3);
    }

    #[test]
    fn many_who_leave_at_once_leave_the_others_apart() {
        for round in 0..200 {
            let parking = Arc::new(Parking::default());
            let mut queue = places(&parking, &std::array::from_fn::<i64, 24, _>(|index| 500 * (index as i64 + 1)));
            let leavers: Vec<Place> = (0..12).map(|index| queue.remove(index)).collect();
            let start = std::sync::Barrier::new(leavers.len());
            std::thread::scope(|scope| {
                for place in leavers {
                    scope.spawn(|| {
                        start.wait();
                        assert!(place.leave());
                    });
                }
            });
            let expected: Vec<i64> = (1..=12).map(|turn| 500 * turn).collect();
            assert_eq!(departures(&queue), expected, "round {round}");
        }
    }

    #[test]
    fn nobody_moves_up_onto_one_that_stands_in_two_queues() {
        let parking = Arc::new(Parking::default());
        let mut queue = places(&parking, &[500, 1000]);
        queue.push(park(&parking, &["other", "bucket"], 1500));
        queue.push(park(&parking, &["bucket"], 2000));
        assert!(!queue.remove(0).leave(), "the end of the queue has not moved");
        assert_eq!(departures(&queue), [500, 1500, 2000]);
        assert!(!queue.remove(1).leave(), "its places stay taken");
        assert_eq!(departures(&queue), [500, 2000]);
    }

    #[test]
    fn one_that_stands_in_two_queues_stays_apart_from_the_other_queue_too() {
        let parking = Arc::new(Parking::default());
        let first = park(&parking, &["a"], 1000);
        let before = park(&parking, &["b"], 1000);
        let both = park(&parking, &["a", "b"], 1500);
        assert!(!first.leave());
        assert_eq!(departures(&[before, both]), [1000, 1500]);
    }

    #[test]
    fn one_that_was_told_the_turn_of_another_goes_behind_the_last() {
        let parking = Arc::new(Parking::default());
        let queue = places(&parking, &[500, 1000, 1000, 1499]);
        assert_eq!(departures(&queue), [500, 1000, 1500, 2000]);
        assert_eq!(park(&parking, &["other"], 1000).departs(), Timestamp(1000));
    }

    #[test]
    fn no_more_than_the_capacity_is_held() {
        let parking = Arc::new(Parking::default());
        let held = places(&parking, &[1, 2]);
        assert!(parking.park(2, vec![stand("other")], Timestamp(3)).is_none());
        drop(held);
        assert!(parking.park(2, vec![stand("other")], Timestamp(3)).is_some());
    }

    #[test]
    fn an_empty_queue_is_forgotten() {
        let parking = Arc::new(Parking::default());
        drop(vec![park(&parking, &["a", "b"], 1), park(&parking, &["b"], 2)]);
        assert!(parking.state.lock().queues.is_empty());
    }
}
