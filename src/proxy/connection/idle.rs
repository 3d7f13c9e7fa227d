//! Waiting for the next request of a connection that is kept.
//!
//! A timer and a listener for the end that are made anew with each request go through locks of the runtime four times a
//! request. Here both live as long as the connection: the timer is left where it is, and set to a later instant only once
//! it fires too early.

use super::Ends;
use crate::time::Stopwatch;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// What ends a connection on which no request has begun.
pub(super) struct Idle {
    timeout: Duration,
    waiting: Stopwatch,
    timer: Pin<Box<Sleep>>,
    end_of_waiting: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Idle {
    pub fn new(ends: &Ends, timeout: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(timeout));
        Self { timeout, waiting: Stopwatch::start(), timer, end_of_waiting: Box::pin(ends.of_waiting()) }
    }

    /// Begins to wait anew.
    pub fn restart(&mut self) {
        self.waiting = Stopwatch::start();
    }

    /// Ready when the connection has been idle for too long, or is not to wait any more.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end_of_waiting.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let left = self.timeout.saturating_sub(self.waiting.elapsed());
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.timer.set(tokio::time::sleep(left));
        }
    }
}
