//! What every test of the suite stands on: a real gateway, a scripted upstream and a client that shows raw bytes.
//!
//! Blocking sockets and threads, so that a test reads from top to bottom. Nothing here waits a fixed time where a
//! condition can be waited for.

pub mod authority;
pub mod backend;
pub mod browser;
pub mod client;
pub mod fields;
pub mod frames;
pub mod gateway;
pub mod http2;
pub mod keys;
pub mod metrics;
pub mod program;
pub mod redis;
pub mod reply;
mod self_test;
pub mod stub_redis;
pub mod upstream;
pub mod wire;

pub use client::{Client, Response};
pub use gateway::{Gateway, Reload, Setup};
pub use keys::{consumer, key_of};
pub use reply::{Gate, Reply};
pub use upstream::{Recorded, Upstream};

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a test waits for something that must happen; generous, because machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Listening ports of tests: below the range that the kernel gives to outgoing connections, so that no client
/// takes a port between its choice and its use.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// Whether the condition came true before the deadline.
pub fn becomes_true(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Waits for the condition and fails the test when it does not come true in time.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(becomes_true(PATIENCE, condition), "not within {PATIENCE:?}: {what}");
}

/// A port that was free a moment ago and that no other test of this process gets.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let offset = u16::try_from(std::process::id() % u32::from(span)).expect("below the span, which is a u16");
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (offset.wrapping_mul(97).wrapping_add(step)) % span;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {PORTS:?}");
}

/// Milliseconds since the epoch.
pub fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set to after 1970");
    u64::try_from(since.as_millis()).expect("milliseconds since 1970 fit 64 bits")
}

/// Sleeps until the window of that length, aligned to the epoch, is `offset` old.
pub fn sleep_until_window_is(window: Duration, offset: Duration) {
    let (window, offset) = (window.as_millis() as u64, offset.as_millis() as u64);
    let age = epoch_ms() % window;
    thread::sleep(Duration::from_millis((offset + window - age) % window));
}

/// Sleeps until `after` has passed since `start`; for cases in which real time must pass.
pub fn sleep_until(start: Instant, after: Duration) {
    thread::sleep(after.saturating_sub(start.elapsed()));
}

/// Runs `job(0..count)` on `workers` threads and gives the results in order of the index.
pub fn burst<T: Send>(count: usize, workers: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results = std::sync::Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..workers.min(count) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = job(index);
                    results.lock().expect("no job panics while it holds the lock").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("all workers have ended");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// How many of the statuses are this one.
pub fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|each| **each == status).count()
}
