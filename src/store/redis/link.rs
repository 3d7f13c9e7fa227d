//! One connection to one Redis, always the current one.
//!
//! All requests share one multiplexed connection and its commands are pipelined. When it breaks, a task of its own connects
//! again, with pauses that grow and are jittered, so that a server which comes back meets a few attempts a second from each gateway and
//! not one from each request. A request never connects, and without a connection it fails at once; only for the first attempt
//! at a server that was just named, by a redirection or by a new map of a Cluster, it waits.

use super::address::Target;
use super::connection::{Connection, Server, brief};
use arc_swap::ArcSwapOption;
use redis::RedisError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The first pause after a failed attempt, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The shortest time for an attempt to connect; a store timeout above it is used instead.
const SHORTEST_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How often a connection that works is checked to lead to the right server still.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps a connection.
pub struct Link {
    current: ArcSwapOption<Connection>,
    broken: Notify,
    closed: AtomicBool,
    /// Whether the first attempt to connect has ended.
    tried: watch::Sender<bool>,
    target: Target,
    connect_timeout: Duration,
}

impl Link {
    /// A link that is not connected yet; [`Link::keep`] connects it.
    pub fn new(target: Target, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwapOption::empty(),
            broken: Notify::new(),
            closed: AtomicBool::new(false),
            tried: watch::Sender::new(false),
            target,
            connect_timeout: timeout.max(SHORTEST_CONNECT_TIMEOUT),
        })
    }

    /// The connection, if there is one.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.current.load_full()
    }

    /// The connection, once the first attempt at it has ended. The caller has a deadline.
    pub async fn first_connection(&self) -> Option<Arc<Connection>> {
        // The sender is here, so waiting ends with the attempt.
        let mut tried = self.tried.subscribe();
        if tried.wait_for(|tried| *tried).await.is_err() {
            return None;
        }
        self.connection()
    }

    /// A connection turned out to be broken, or to lead to a server that is not the master any more. The one that took
    /// its place in the meantime is kept.
    pub fn drop_connection(&self, broken: &Arc<Connection>) {
        let current = self.current.load_full();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            self.current.compare_and_swap(&current, None);
            self.broken.notify_one();
        }
    }

    /// How long an attempt to connect may take.
    pub fn patience(&self) -> Duration {
        self.connect_timeout
    }

    /// Ends [`Link::keep`] and the connection.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.current.store(None);
        self.tried.send_replace(true);
        self.broken.notify_one();
    }

    /// Connects, and connects again whenever the connection was dropped, until the link is closed.
    pub async fn keep(self: Arc<Self>) {
        while !self.closed.load(Ordering::Acquire) {
            let (mut pause, mut connected) = (FIRST_PAUSE, None);
            while !self.closed.load(Ordering::Acquire) {
                let attempt = self.connect().await;
                if let Ok((connection, server)) = &attempt {
                    self.current.store(Some(connection.clone()));
                    connected = Some(server.clone());
                }
                self.tried.send_replace(true);
                match attempt {
                    Ok(_) => {
                        tracing::info!(server = %self.target, "connected to the store");
                        break;
                    }
                    // Once an outage where everybody sees it: the reason may be a wrong password.
                    Err(error) if pause == FIRST_PAUSE => {
                        tracing::warn!(server = %self.target, error = %brief(&error), "cannot connect to the store");
                    }
                    Err(error) => {
                        tracing::debug!(server = %self.target, error = %brief(&error), "cannot connect to the store");
                    }
                }
                // Between half and all of the pause, so that gateways do not come in step.
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            while !self.closed.load(Ordering::Acquire) && self.current.load().is_some() {
                let quiet = tokio::time::timeout(FOLLOW_INTERVAL, self.broken.notified()).await.is_err();
                if quiet
                    && let Some(server) = &connected
                    && self.target.has_moved(server, self.connect_timeout).await
                {
                    tracing::info!(server = %self.target, "the sentinels name another server");
                    self.current.store(None);
                }
            }
        }
    }

    async fn connect(&self) -> Result<(Arc<Connection>, Server), RedisError> {
        let server = self.target.server(self.connect_timeout).await?;
        let connection = server.connect(self.connect_timeout, self.connect_timeout * 4).await?;
        connection.greet(self.connect_timeout).await?;
        Ok((Arc::new(connection), server))
    }
}
