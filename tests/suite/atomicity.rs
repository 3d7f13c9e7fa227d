//! Many at once: the bound holds exactly, in one gateway and in two that share a Redis.

use crate::support::client::{self, render};
use crate::support::redis::RedisServer;
use crate::support::*;
use std::thread;

/// The algorithms that refuse at once what they do not admit.
const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

/// Requests of a burst, how many of them are under way at once, and the quota they meet.
const BURST: usize = 1000;
const CONCURRENCY: usize = 200;
const QUOTA: usize = 50;

/// Bursts for each algorithm, each on a key of its own.
const REPEATS: usize = 20;

#[test]
fn b31_concurrent_requests_never_pass_the_quota() {
    for algorithm in AT_ONCE {
        let gateway = Setup::ip_limited(&[&format!("algorithm = \"{algorithm}\", rate = \"50/h\"")]).trusted().start();
        for round in 1..=3 {
            let from = format!("203.0.113.{round}");
            let statuses = burst(200, 40, |_| gateway.get_from(&from, "/").status);
            assert_eq!((count(&statuses, 200), count(&statuses, 429)), (50, 150), "{algorithm}, round {round}");
        }
        assert_eq!(gateway.upstream.count(), 150);
    }
}

#[test]
fn b31_a_counter_that_all_callers_share_is_exact_too() {
    let gateway = Setup::limited(&[r#"name = "all", per = "global", rate = "50/h""#, r#"name = "own", rate = "10/h""#])
        .trusted()
        .start();
    let statuses = burst(200, 40, |index| gateway.get_from(&format!("203.0.113.{}", index % 10), "/").status);
    assert_eq!(count(&statuses, 200), 50);
}

#[test]
fn b143_the_first_request_is_counted_once() {
    for algorithm in AT_ONCE {
        let gateway = Setup::limited(&[&format!("algorithm = \"{algorithm}\", rate = \"2/h\"")]).start();
        let answers = [0; 3].map(|_| gateway.get("/"));
        assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429], "{algorithm}");
        assert_eq!(answers.each_ref().map(|answer| answer.remaining()), [1, 0, 0], "{algorithm}");
    }
}

/// Two gateways before one Redis, with a route for each algorithm. Nothing drains while the test runs.
fn two_gateways(redis: &RedisServer) -> [Gateway; 2] {
    let route = |algorithm: &str| {
        format!(
            "[[routes]]\nmatch = \"/{algorithm}\"\nlimits = [{{ name = \"{algorithm}\", algorithm = \"{algorithm}\", \
             rate = \"{QUOTA}/1000day\" }}]\n"
        )
    };
    let routes: String = AT_ONCE.iter().chain(&["leaky_bucket"]).map(|algorithm| route(algorithm)).collect();
    let store =
        format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"20s\"\n", redis.url());
    [(); 2].map(|()| Setup::new(format!("{store}{routes}")).trusted().log("access = \"off\"").start())
}

#[track_caller]
fn without_store_errors(gateways: &[Gateway; 2]) {
    for gateway in gateways {
        assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0, "{}", gateway.log());
    }
}

/// As many connections as may be under way at once, spread over threads and both gateways, each used again and again.
struct Callers(Vec<Vec<client::Client>>);

impl Callers {
    const THREADS: usize = 20;

    fn connect(gateways: &[Gateway; 2]) -> Self {
        let some = |_| (0..CONCURRENCY / Self::THREADS).map(|index| gateways[index % 2].connect()).collect();
        Self((0..Self::THREADS).map(some).collect())
    }

    /// Statuses of a burst.
    fn burst(&mut self, request: &[u8]) -> Vec<u16> {
        let ask = |some: &mut Vec<client::Client>| {
            let mut statuses = Vec::new();
            for _ in 0..BURST / CONCURRENCY {
                some.iter_mut().for_each(|client| client.send(request));
                statuses.extend(some.iter_mut().map(|client| client.read("GET").status));
            }
            statuses
        };
        thread::scope(|scope| {
            let workers: Vec<_> = self.0.iter_mut().map(|some| scope.spawn(move || ask(some))).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("every request is answered")).collect()
        })
    }
}

fn from(address: usize, path: &str) -> Vec<u8> {
    render("GET", path, &[("x-forwarded-for", &format!("203.0.113.{address}"))], b"")
}

#[test]
fn b31_two_gateways_on_one_redis_admit_exactly_the_quota_of_a_burst_every_time() {
    let redis = RedisServer::start();
    let gateways = two_gateways(&redis);
    let mut callers = Callers::connect(&gateways);
    for algorithm in AT_ONCE {
        for repeat in 0..REPEATS {
            let statuses = callers.burst(&from(repeat, &format!("/{algorithm}")));
            let counted = (count(&statuses, 200), count(&statuses, 429));
            assert_eq!(counted, (QUOTA, BURST - QUOTA), "{algorithm}, burst {repeat}");
        }
    }
    let reached: usize = gateways.iter().map(|gateway| gateway.upstream.count()).sum();
    assert_eq!(reached, AT_ONCE.len() * REPEATS * QUOTA);
    without_store_errors(&gateways);
}

#[test]
fn b31_two_gateways_on_one_redis_queue_exactly_what_the_bucket_holds_every_time() {
    let redis = RedisServer::start();
    let gateways = two_gateways(&redis);
    let in_flight =
        || -> f64 { gateways.iter().map(|gateway| gateway.metric("sluicegate_requests_in_flight", &[])).sum() };
    for repeat in 0..REPEATS {
        let request = from(repeat, "/leaky_bucket");
        let mut waiting: Vec<_> = (0..BURST).map(|index| gateways[index % 2].connect()).collect();
        for client in &mut waiting {
            client.send(&request);
        }
        // One leaves at once, the queue is held, all others are told so.
        let mut statuses = Vec::new();
        wait_until("all but the held are answered", || {
            let (ready, held) = std::mem::take(&mut waiting).into_iter().partition(client::Client::has_answer);
            waiting = held;
            let ready: Vec<client::Client> = ready;
            for mut client in ready {
                statuses.push(client.read("GET").status);
                client.reset();
            }
            statuses.len() > BURST - QUOTA
        });
        assert_eq!((count(&statuses, 200), count(&statuses, 429)), (1, BURST - QUOTA), "burst {repeat}");
        wait_until("the held and nobody else are in flight", || in_flight() == (QUOTA - 1) as f64);
        waiting.into_iter().for_each(client::Client::reset);
        wait_until("who left is given back", || in_flight() == 0.0);
    }
    let reached: usize = gateways.iter().map(|gateway| gateway.upstream.count()).sum();
    assert_eq!(reached, REPEATS);
    without_store_errors(&gateways);
}
