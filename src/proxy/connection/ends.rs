//! How listeners and their connections come to an end, step by step.
//!
//! With all three at once nothing is waited for but what is under way. A process whose successor accepts in its stead leaves time before
//! the last: a client that sends a request on a kept connection at that moment is answered, and told that it was the last.

use std::future::Future;
use tokio::sync::watch;

/// Ends them.
#[derive(Debug, Default)]
pub struct Stop {
    accepting: watch::Sender<bool>,
    reuse: watch::Sender<bool>,
    waiting: watch::Sender<bool>,
}

impl Stop {
    /// No connection is accepted any more.
    pub fn accepting(&self) {
        self.accepting.send_replace(true);
    }

    /// Each connection ends with the answer to its next request.
    pub fn reuse(&self) {
        self.reuse.send_replace(true);
    }

    /// Connections on which no request has begun are closed.
    pub fn waiting(&self) {
        self.waiting.send_replace(true);
    }

    pub fn ends(&self) -> Ends {
        Ends { accepting: self.accepting.subscribe(), reuse: self.reuse.subscribe(), waiting: self.waiting.subscribe() }
    }
}

/// What a listener and its connections know of their end. It never comes when nobody is left who could say so.
#[derive(Clone, Debug)]
pub struct Ends {
    accepting: watch::Receiver<bool>,
    reuse: watch::Receiver<bool>,
    waiting: watch::Receiver<bool>,
}

impl Ends {
    pub(super) async fn of_accepting(&mut self) {
        ended(&mut self.accepting).await;
    }

    pub(super) fn of_waiting(&self) -> impl Future<Output = ()> + use<> {
        let mut waiting = self.waiting.clone();
        async move { ended(&mut waiting).await }
    }

    /// In the form that the HTTP stack takes.
    pub fn of_reuse(&self) -> &watch::Receiver<bool> {
        &self.reuse
    }
}

async fn ended(receiver: &mut watch::Receiver<bool>) {
    if receiver.wait_for(|ended| *ended).await.is_err() {
        std::future::pending().await
    }
}
