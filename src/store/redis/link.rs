//! One connection to one Redis, always the current one.
//!
//! All requests share one multiplexed connection and its commands are pipelined. When it breaks, a task of its own connects
//! again, with pauses that grow and are jittered, so that a server which comes back meets a few attempts a second from each gateway and
//! not one from each request. A request never connects, and without a connection it fails at once; only for the first attempt, at
//! a server that was just named or after a connection that just broke, it waits.

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

/// How often a connection that works is checked to lead to the right server still. One that lasted as long was no mistake.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps a connection.
pub struct Link {
    current: ArcSwapOption<Connection>,
    broken: Notify,
    closed: AtomicBool,
    /// Whether the first attempt to connect, since there is no connection, has ended.
    tried: watch::Sender<bool>,
    /// Told of each connection.
    connected: Arc<Notify>,
    target: Target,
    connect_timeout: Duration,
}

impl Link {
    /// A link that is not connected yet; [`Link::keep`] connects it.
    pub fn new(target: Target, timeout: Duration, connected: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwapOption::empty(),
            broken: Notify::new(),
            closed: AtomicBool::new(false),
            tried: watch::Sender::new(false),
            connected,
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
            // First, so that nobody finds neither a connection nor an attempt to wait for; a closed link makes none.
            self.tried.send_replace(self.closed.load(Ordering::Acquire));
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
        let (mut pause, mut told) = (FIRST_PAUSE, false);
        while !self.closed.load(Ordering::Acquire) {
            let attempt = self.connect().await;
            if let Ok((connection, _)) = &attempt {
                self.current.store(Some(connection.clone()));
                self.connected.notify_one();
            }
            self.tried.send_replace(true);
            match attempt {
                Ok((connection, server)) => {
                    told = false;
                    tracing::info!(server = %self.target, "connected to the store");
                    if self.follow(&connection, &server).await {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                }
                Err(error) => self.tell(&error, std::mem::replace(&mut told, true)),
            }
            // Nobody waits for an attempt that is put off.
            self.tried.send_replace(true);
            // Between half and all of the pause, so that gateways do not come in step.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Once an outage where everybody sees it: the reason may be a wrong password.
    fn tell(&self, error: &RedisError, again: bool) {
        let error = brief(error);
        if again {
            tracing::debug!(server = %self.target, error, "cannot connect to the store");
        } else {
            tracing::warn!(server = %self.target, error, "cannot connect to the store");
        }
    }

    /// Waits until the connection is dropped, closed by its server, or leads to a server that is the wrong one by now. True when it
    /// lasted: one that breaks at once is followed by a pause, like one that could not be made.
    async fn follow(&self, connection: &Arc<Connection>, server: &Server) -> bool {
        let is_current = || self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, connection));
        let mut lasted = false;
        while is_current() && !self.closed.load(Ordering::Acquire) {
            tokio::select! {
                () = connection.end() => self.drop_connection(connection),
                () = self.broken.notified() => {}
                () = tokio::time::sleep(FOLLOW_INTERVAL) => {
                    lasted = true;
                    if self.target.has_moved(server, self.connect_timeout).await {
                        tracing::info!(server = %self.target, "the sentinels name another server");
                        self.drop_connection(connection);
                    }
                }
            }
        }
        lasted
    }

    async fn connect(&self) -> Result<(Arc<Connection>, Server), RedisError> {
        let server = self.target.server(self.connect_timeout).await?;
        let connection = server.connect(self.connect_timeout, self.connect_timeout * 4).await?;
        connection.greet(self.connect_timeout).await?;
        Ok((Arc::new(connection), server))
    }
}
