//! The leaky bucket holds requests until their turn.

use crate::support::client::{chunked, render};
use crate::support::*;
use std::time::{Duration, Instant};

const TWENTY: &str = r#"algorithm = "leaky_bucket", rate = "20/s", queue = 10"#;

#[test]
fn of_fifty_at_once_ten_pass_spaced_and_forty_are_refused_at_once() {
    let gateway = Setup::limited(&[TWENTY]).start();
    let start = Instant::now();
    let answers = burst(50, 50, |_| (gateway.get("/").status, start.elapsed()));
    let passed = answers.iter().filter(|answer| answer.0 == 200).count();
    let last_refusal = answers.iter().filter(|answer| answer.0 == 429).map(|answer| answer.1).max().unwrap();
    let left_meanwhile = last_refusal.as_millis() as usize / 50;
    assert!((10..=10 + left_meanwhile).contains(&passed), "{passed}");
    assert_eq!(answers.iter().filter(|answer| answer.0 == 429).count(), 50 - passed);
    let arrivals: Vec<Instant> = gateway.upstream.requests().iter().map(|request| request.at).collect();
    // The first may be late on its way to the upstream, never early.
    let span = arrivals[passed - 1] - start;
    let shortest = Duration::from_millis(50) * (passed as u32 - 1);
    assert!(span >= shortest, "{passed} left within {span:?}");
}

#[test]
fn a_refusal_does_not_wait_in_the_queue() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "1/h", queue = 2"#]).start();
    assert_eq!(gateway.get("/").status, 200);
    let mut waiting = gateway.connect();
    waiting.send(render("GET", "/", &[], b""));
    let refused = (0..200).map(|_| with_patience(&gateway)).find_map(|answer| answer).expect("the queue is full");
    assert!(refused.retry_after() > 10);
    assert_eq!(gateway.upstream.count(), 1);
}

/// A request that gives up soon when it is held.
fn with_patience(gateway: &Gateway) -> Option<Response> {
    let mut client = gateway.connect();
    client.set_read_timeout(Duration::from_millis(300));
    client.send(render("GET", "/", &[], b""));
    client.try_read("GET").ok().flatten().filter(|answer| answer.status == 429)
}

#[test]
fn a_client_that_leaves_while_it_waits_frees_its_place() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "1/2s", queue = 2"#]).start();
    assert_eq!(gateway.get("/").status, 200);
    let mut waiting = gateway.connect();
    waiting.send(render("GET", "/", &[], b""));
    wait_until("it is parked", || gateway.metric("sluicegate_requests_in_flight", &[]) == 1.0);
    assert!(with_patience(&gateway).is_some(), "both places are taken");
    waiting.reset();
    gateway.wait_idle();
    let mut next = gateway.connect();
    assert_eq!(next.get("/").status, 200, "the place of the one that left");
    assert_eq!(gateway.upstream.count(), 2, "who left was not forwarded");
}

#[test]
fn a_request_may_be_refused_instead_of_held_too_long() {
    let gateway =
        Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "1/s", queue = 10, max_wait = "500ms""#]).start();
    let statuses = burst(4, 4, |_| gateway.get("/").status);
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (1, 3));
}

#[test]
fn the_gateway_parks_no_more_than_it_is_told_to() {
    let gateway =
        Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "2/s", queue = 10"#]).server("max_parked = 2").start();
    let statuses = burst(8, 8, |_| gateway.get("/").status);
    assert!((3..=5).contains(&count(&statuses, 200)), "{statuses:?}");
    assert_eq!(count(&statuses, 200) + count(&statuses, 429), 8);
}

#[test]
fn what_was_held_is_logged_as_delayed() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "5/s", queue = 5"#]).start();
    assert_eq!(gateway.get("/first").status, 200);
    assert_eq!(gateway.get("/second").status, 200);
    assert_eq!(gateway.access_line("/first")["decision"], "allowed");
    assert_eq!(gateway.access_line("/second")["decision"], "delayed");
}

#[test]
fn a_body_of_any_size_and_framing_outlives_the_wait() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "10/s", queue = 10"#]).start();
    assert_eq!(gateway.get("/").status, 200);
    for size in [5, 65_536, 65_537, 300_000] {
        let body = vec![b'x'; size];
        let pieces: Vec<&[u8]> = body.chunks(7000).collect();
        let framed = [
            render("POST", "/", &[("Content-Length", &size.to_string())], b""),
            render("POST", "/", &[("Transfer-Encoding", "chunked")], b""),
        ];
        for (head, body) in framed.into_iter().zip([body.clone(), chunked(&pieces)]) {
            let mut client = gateway.connect();
            client.send([head, body].concat());
            assert_eq!(client.read("POST").status, 200, "{size} bytes");
            assert_eq!(gateway.upstream.last().body.len(), size);
        }
    }
}

#[test]
fn a_client_that_leaves_with_its_body_unread_frees_its_place_at_once() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "1/20s", queue = 10"#]).start();
    assert_eq!(gateway.get("/").status, 200);
    let bodies: [(&str, &str, Vec<u8>); 3] = [
        ("Content-Length", "5", b"hello".to_vec()),
        ("Content-Length", "100000", vec![b'x'; 100_000]),
        ("Transfer-Encoding", "chunked", chunked(&[b"hello"])),
    ];
    for (name, value, body) in bodies {
        let mut waiting = gateway.connect();
        waiting.send([render("POST", "/", &[(name, value)], b""), body].concat());
        wait_until("it is held", || gateway.metric("sluicegate_requests_in_flight", &[]) == 1.0);
        let left = Instant::now();
        waiting.reset();
        gateway.wait_idle();
        assert!(left.elapsed() < Duration::from_secs(10), "{name} {value}: {:?}", left.elapsed());
    }
    assert_eq!(gateway.upstream.count(), 1);
}
