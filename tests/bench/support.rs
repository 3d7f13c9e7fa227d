//! What both benchmarks measure: one decision with three limits of one caller, in memory.

use sluicegate::algorithm::{FixedWindow, Quota, SlidingWindow, TokenBucket, UNIT, Window};
use sluicegate::charge::{Charge, Charges, Meter, Part, Parts};
use sluicegate::store::Store;
use sluicegate::store::memory::MemoryStore;
use sluicegate::time::{Millis, Timestamp};
use smallvec::smallvec;
use std::net::{IpAddr, Ipv4Addr};

/// Callers that take turns.
pub const SUBJECTS: u32 = 1_000_000;

/// The limits: an address window, a key's bucket, an endpoint window; never reached.
pub struct Scene {
    meters: [Meter; 3],
    pub store: MemoryStore,
    now: i64,
    next: u32,
}

impl Scene {
    pub fn new() -> Self {
        let quota = |count: i64, seconds: i64| Quota {
            count: count * UNIT,
            window: Window::Span(Millis::from_seconds(seconds)),
            capacity: count * UNIT,
            max_wait: None,
        };
        let meters = [
            Meter::alone("per-ip", &SlidingWindow, quota(1_000_000, 60)),
            Meter::alone("pro-burst", &TokenBucket, quota(1_000_000, 60)),
            Meter::alone("export-day", &FixedWindow, quota(1_000_000, 86_400)),
        ];
        Self { meters, store: MemoryStore::new(8_000_000), now: 1_796_095_500_000, next: 0 }
    }

    /// One decision of the next caller. Callers come in a fixed, scattered order.
    pub fn decide(&mut self) -> bool {
        self.next = (self.next + 7_919) % SUBJECTS;
        let caller = self.next;
        self.now += i64::from(caller.is_multiple_of(16));
        let address = Part::Address(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | caller)));
        let name = caller.to_be_bytes();
        let consumer = Part::Named("consumer", &name);
        let route = Part::Named("route", b"POST /api/export");
        let parts: [Parts<'_>; 3] = [smallvec![address], smallvec![consumer.clone()], smallvec![consumer, route]];
        let charges: Charges<'_> = self
            .meters
            .iter()
            .zip(parts)
            .map(|(meter, parts)| Charge { meter, parts, cost: UNIT, enforced: true })
            .collect();
        match self.store.acquire(Timestamp(self.now), &charges) {
            sluicegate::store::Answer::Ready(Ok(outcome)) => outcome.admitted,
            _ => panic!("the memory store answers at once and never fails"),
        }
    }

    /// Lets every caller come once, so that what is measured is the steady state.
    pub fn warm(&mut self) {
        for _ in 0..SUBJECTS {
            assert!(self.decide());
        }
    }
}
