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
