//! The memory store of a process that may hand its counters to the next one while requests still come.
//!
//! Counters are in one process at a time, and that one alone decides, so a handover grants nothing twice. Here they are
//! first; while they are packed, what asks waits; once they have gone, it is put to the process that has them. Should that
//! one leave, or never say that it has them, they are here again as they were packed.

use super::memory::MemoryStore;
use super::memory::handover::read_outcome;
use super::{Answer, Store, StoreError};
use crate::charge::{Charge, Correction, Outcome};
use crate::time::Timestamp;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Calls that may wait to be sent to the successor; what asks beyond waits for room.
const CALLS_WAITING: usize = 1024;

/// A call to the process that has the counters, and where its answer goes.
pub struct Call {
    pub bytes: Vec<u8>,
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// Where the counters are.
#[derive(Clone)]
enum Place {
    Here,
    /// On their way.
    Packed,
    Gone(mpsc::Sender<Call>),
}

/// A memory store whose counters may move away.
pub struct Moving {
    memory: Arc<MemoryStore>,
    place: watch::Sender<Place>,
}

impl Moving {
    pub fn new(memory: Arc<MemoryStore>) -> Self {
        Self { memory, place: watch::Sender::new(Place::Here) }
    }

    pub fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// From the return on the counters do not change, until [`Self::unpack`]. False when they are not here.
    pub fn pack(&self) -> bool {
        let is_here = self.place.send_if_modified(|place| {
            let is_here = matches!(place, Place::Here);
            if is_here {
                *place = Place::Packed;
            }
            is_here
        });
        if is_here {
            self.memory.seal(true);
        }
        is_here
    }

    /// The counters are here again.
    pub fn unpack(&self) {
        self.memory.seal(false);
        self.place.send_replace(Place::Here);
    }

    /// The counters are at a process that answers what comes out of here.
    pub fn gone(&self) -> mpsc::Receiver<Call> {
        let (calls, receiver) = mpsc::channel(CALLS_WAITING);
        self.place.send_replace(Place::Gone(calls));
        receiver
    }

    /// Answers a process that handed its counters to this one, wherever they are now.
    pub async fn answer(&self, now: Timestamp, call: Vec<u8>) -> Vec<u8> {
        loop {
            if let Some(answer) = self.memory.answer(now, &call) {
                return answer;
            }
            if let Some(answer) = self.elsewhere(call.clone()).await {
                return answer;
            }
        }
    }

    /// What the successor says; absent when the counters are here again.
    async fn elsewhere(&self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut place = self.place.subscribe();
        let settled = place.wait_for(|place| !matches!(place, Place::Packed)).await;
        let Place::Gone(calls) = settled.expect("its sender is in `self`").clone() else { return None };
        let (answer, answered) = oneshot::channel();
        if calls.send(Call { bytes, answer }).await.is_ok()
            && let Ok(answer) = answered.await
        {
            return Some(answer);
        }
        self.unpack();
        None
    }

    async fn acquire_elsewhere(&self, now: Timestamp, charges: &[Charge<'_>]) -> Result<Outcome, StoreError> {
        loop {
            if let Some(outcome) = self.memory.decide_unless_sealed(now, charges) {
                return Ok(outcome);
            }
            if let Some(answer) = self.elsewhere(self.memory.acquire_call(charges)).await {
                return read_outcome(&answer, charges.len())
                    .ok_or(StoreError::Nonsense("an answer of the process that took over"));
            }
        }
    }

    async fn settle_elsewhere(&self, now: Timestamp, corrections: &[Correction<'_>]) {
        while !self.memory.settle_unless_sealed(now, corrections)
            && self.elsewhere(self.memory.settle_call(corrections)).await.is_none()
        {}
    }
}

impl Store for Moving {
    fn name(&self) -> &'static str {
        self.memory.name()
    }

    fn acquire<'a>(&'a self, now: Timestamp, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Outcome, StoreError>> {
        match self.memory.decide_unless_sealed(now, charges) {
            Some(outcome) => Answer::Ready(Ok(outcome)),
            None => Answer::Later(Box::pin(self.acquire_elsewhere(now, charges))),
        }
    }

    fn settle<'a>(&'a self, now: Timestamp, corrections: &'a [Correction<'_>]) -> Answer<'a, Result<(), StoreError>> {
        if self.memory.settle_unless_sealed(now, corrections) {
            return Answer::Ready(Ok(()));
        }
        Answer::Later(Box::pin(async move {
            self.settle_elsewhere(now, corrections).await;
            Ok(())
        }))
    }

    /// Forgets what is here: nobody asks a process to forget that has handed its admin port over.
    fn forget<'a>(&'a self, charges: &'a [Charge<'_>]) -> Answer<'a, Result<Vec<bool>, StoreError>> {
        self.memory.forget(charges)
    }

    fn entries(&self) -> Option<u64> {
        self.memory.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{ALGORITHMS, Quota, UNIT, Window};
    use crate::charge::{Meter, Part};
    use crate::store::memory::snapshot::{Export, Import};
    use crate::time::Millis;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn meters(count: i64) -> Vec<Meter> {
        let window = Window::Span(Millis(3_600_000));
        let quota = Quota { count: count * UNIT, window, capacity: count * UNIT, max_wait: None };
        ALGORITHMS.iter().map(|algorithm| Meter::alone(algorithm.name(), *algorithm, quota)).collect()
    }

    fn charge(meter: &Meter, cost: i64) -> Charge<'_> {
        let parts = [Part::Named("consumer", b"acme")].into_iter().collect();
        Charge { meter, parts, cost, enforced: true }
    }

    fn copy(store: &MemoryStore) -> Moving {
        let (mut export, mut all, mut piece) = (Export::new(store, NOW), Vec::new(), Vec::new());
        while export.next(&mut piece) {
            all.extend_from_slice(&piece);
        }
        let copy = Import::open(&all[..]).and_then(|import| import.restore(1000, NOW)).expect("it is whole");
        Moving::new(Arc::new(copy))
    }

    /// Carries calls from one process to the other, as the socket between them does.
    fn connect(old: &Arc<Moving>, new: &Arc<Moving>) -> tokio::task::JoinHandle<()> {
        let (mut calls, new) = (old.gone(), new.clone());
        tokio::spawn(async move {
            while let Some(call) = calls.recv().await {
                let _ = call.answer.send(new.answer(NOW, call.bytes).await);
            }
        })
    }

    async fn take(store: &Moving, charges: &[Charge<'_>]) -> Outcome {
        store.acquire(NOW, charges).resolve().await.expect("a memory store answers")
    }

    #[tokio::test]
    async fn what_the_successor_decides_is_what_this_one_would_have_decided() {
        let meters = meters(7);
        let (alone, old) = (MemoryStore::new(1000), Arc::new(Moving::new(Arc::new(MemoryStore::new(1000)))));
        let charges = |cost| meters.iter().map(|meter| charge(meter, cost)).collect::<Vec<_>>();
        for cost in [UNIT, 2 * UNIT] {
            alone.decide(NOW, &charges(cost));
            take(&old, &charges(cost)).await;
        }
        assert!(old.pack());
        let new = Arc::new(copy(old.memory()));
        let _carrying = connect(&old, &new);
        for cost in [UNIT, 0, 5 * UNIT, 3 * UNIT, UNIT, 1000 * UNIT] {
            let (expected, found) = (alone.decide(NOW, &charges(cost)), take(&old, &charges(cost)).await);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "cost {cost}");
        }
        let correction = |delta| Correction {
            meter: &meters[0],
            parts: charge(&meters[0], 0).parts,
            at: NOW,
            delta,
            stand_in: false,
        };
        for delta in [-2 * UNIT, UNIT] {
            old.settle(NOW, &[correction(delta)]).resolve().await.expect("a memory store answers");
            let _ = alone.settle(NOW, &[correction(delta)]).resolve().await;
        }
        let read = [charge(&meters[0], 0)];
        assert_eq!(format!("{:?}", take(&new, &read).await), format!("{:?}", alone.decide(NOW, &read)));
    }

    #[tokio::test]
    async fn what_asks_while_the_counters_are_packed_waits_and_is_decided_once() {
        let meters = meters(3);
        let old = Arc::new(Moving::new(Arc::new(MemoryStore::new(1000))));
        assert!(take(&old, &[charge(&meters[0], UNIT)]).await.admitted);
        assert!(old.pack() && !old.pack(), "they are packed once");
        let admitted = AtomicUsize::new(0);
        let ask = || async {
            let outcome = take(&old, &[charge(&meters[0], UNIT)]).await;
            admitted.fetch_add(usize::from(outcome.admitted), SeqCst);
        };
        let move_on = async {
            tokio::task::yield_now().await;
            assert_eq!(admitted.load(SeqCst), 0, "nothing is decided on the way");
            let _carrying = connect(&old, &Arc::new(copy(old.memory())));
        };
        tokio::join!(move_on, ask(), ask(), ask());
        assert_eq!(admitted.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn a_handover_that_fails_gives_everything_back() {
        let meters = meters(3);
        let old = Arc::new(Moving::new(Arc::new(MemoryStore::new(1000))));
        assert!(take(&old, &[charge(&meters[0], UNIT)]).await.admitted);
        assert!(old.pack());
        let ask = async { take(&old, &[charge(&meters[0], UNIT)]).await };
        let (outcome, ()) = tokio::join!(ask, async { old.unpack() });
        assert_eq!(outcome.readings[0].remaining, UNIT);
        // A successor that is lost later costs what it decided, and no request.
        assert!(old.pack());
        drop(old.gone());
        assert_eq!(take(&old, &[charge(&meters[0], UNIT)]).await.readings[0].remaining, 0);
        assert!(!take(&old, &[charge(&meters[0], UNIT)]).await.admitted);
    }

    #[tokio::test]
    async fn counters_may_move_twice() {
        let meters = meters(5);
        let first = Arc::new(Moving::new(Arc::new(MemoryStore::new(1000))));
        assert!(take(&first, &[charge(&meters[1], UNIT)]).await.admitted && first.pack());
        let second = Arc::new(copy(first.memory()));
        let _carrying = connect(&first, &second);
        assert!(take(&second, &[charge(&meters[1], UNIT)]).await.admitted && second.pack());
        let third = Arc::new(copy(second.memory()));
        let _carrying = connect(&second, &third);
        for (store, left) in [(&first, 2), (&second, 1), (&third, 0)] {
            assert_eq!(take(store, &[charge(&meters[1], UNIT)]).await.readings[0].remaining, left * UNIT);
        }
        assert!(!take(&first, &[charge(&meters[1], UNIT)]).await.admitted);
    }

    #[test]
    fn nonsense_is_answered_with_nothing_and_changes_nothing() {
        let store = MemoryStore::new(10);
        for call in [&b""[..], b"\x01", b"\x07nonsense", &[1; 300], &[0xff; 64]] {
            assert_eq!(store.answer(NOW, call), Some(Vec::new()));
        }
        let good = store.acquire_call(&[charge(&meters(5)[0], UNIT)]);
        for length in 0..good.len() {
            assert_eq!(store.answer(NOW, &good[..length]), Some(Vec::new()));
        }
        assert_eq!(store.held(), 0);
        assert!(store.answer(NOW, &good).is_some_and(|answer| answer.len() > 1));
    }
}
