//! One request of a client is one charge and, unless it is safe to repeat, one request upstream.

use crate::support::reply::End;
use crate::support::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const MANY: &str = r#"name = "l", rate = "100/h""#;

#[test]
fn b88_a_post_that_was_received_is_never_sent_again() {
    let gateway = Setup::limited(&[MANY]).stub("retries = 3").before_script(|_| Reply::only(End::Close));
    for index in 1..=10 {
        let answer = gateway.request("POST", "/", &[], b"body");
        assert_eq!((answer.status, answer.error().as_str()), (502, "bad_gateway"));
        assert_eq!(answer.remaining(), 100 - index);
    }
    assert_eq!(gateway.upstream.count(), 10);
    wait_until("each is counted once", || {
        gateway.metric("sluicegate_http_requests_total", &[("method", "POST"), ("status", "502")]) == 10.0
    });
    assert_eq!(gateway.metric("sluicegate_decisions_total", &[("limit", "l"), ("result", "allowed")]), 10.0);
}

#[test]
fn b88_an_idempotent_request_is_repeated_and_charged_once() {
    let tries = AtomicUsize::new(0);
    let gateway = Setup::limited(&[MANY]).stub("retries = 1").before_script(move |_| {
        if tries.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) { Reply::only(End::Close) } else { Reply::ok() }
    });
    for index in 1..=5 {
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.remaining()), (200, 100 - index));
    }
    assert_eq!(gateway.upstream.count(), 10);
}

#[test]
fn b88_retries_are_bounded_and_may_be_off() {
    for (retries, seen) in [(0, 1), (1, 2), (3, 4)] {
        let gateway = Setup::default().stub(&format!("retries = {retries}")).before_script(|_| Reply::only(End::Close));
        assert_eq!(gateway.get("/").status, 502);
        assert_eq!(gateway.upstream.count(), seen, "retries = {retries}");
    }
}

#[test]
fn b88_nothing_is_repeated_once_a_response_has_begun() {
    let gateway = Setup::default()
        .stub("retries = 3")
        .before_script(|_| Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart").ending(End::Close));
    let mut client = gateway.connect();
    client.send(client::render("GET", "/", &[], b""));
    client.read_to_end();
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn b88_a_connection_that_went_stale_in_the_pool_costs_nobody_an_error() {
    let gateway = Setup::limited(&[MANY]).stub("retries = 1").before_script(|_| Reply::ok().ending(End::Close));
    for index in 1..=10 {
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.remaining()), (200, 100 - index));
    }
    assert_eq!(gateway.upstream.count(), 10);
}
