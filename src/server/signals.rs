//! What signals do: HUP reloads, USR1 opens logs again, TERM and QUIT drain, INT ends.

use super::notify;
use crate::metrics::Metrics;
use crate::proxy::access_log::AccessLog;
use crate::proxy::snapshot::Live;
use crate::proxy::upstream::watch::Watch;
use crate::reload::Reloader;
use crate::time::Clock;
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Let open requests finish.
    Drain,
    /// At once.
    Now,
}

/// Reads the configuration again on demand.
pub(super) struct Reloads {
    pub reloader: Reloader,
    pub live: Arc<Live>,
    pub metrics: Arc<Metrics>,
    pub watch: Watch,
}

impl Reloads {
    pub async fn reload(&self) {
        notify::reloading();
        let succeeded = self.reloader.reload(&self.live).await;
        self.metrics.reload_finished(succeeded);
        if succeeded {
            self.watch.follow(&self.live.load());
            self.metrics.config_loaded(self.live.load().generation, Clock::wall().seconds());
        }
        notify::reloaded(succeeded);
    }
}

/// The signals of this process, caught from the registration on.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    quit: Signal,
    interrupt: Signal,
    user1: Signal,
}

impl Signals {
    pub fn register() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Serves HUP and USR1 until one of the others comes.
    pub async fn ending(&mut self, reloads: &Reloads, access_log: &AccessLog) -> Ending {
        loop {
            tokio::select! {
                biased;
                _ = self.interrupt.recv() => return Ending::Now,
                _ = self.terminate.recv() => return Ending::Drain,
                _ = self.quit.recv() => return Ending::Drain,
                _ = self.user1.recv() => access_log.reopen(),
                _ = self.hangup.recv() => {
                    tokio::select! {
                        biased;
                        _ = self.interrupt.recv() => return Ending::Now,
                        _ = self.terminate.recv() => return Ending::Drain,
                        _ = self.quit.recv() => return Ending::Drain,
                        () = reloads.reload() => {}
                    }
                }
            }
        }
    }

    /// A signal that ends a drain. Log files are opened again meanwhile.
    pub async fn second(&mut self, access_log: &AccessLog) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.user1.recv() => access_log.reopen(),
            }
        }
    }
}
