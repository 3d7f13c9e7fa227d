//! Connections: how many of one client, how long without a request, how slowly a body may come.

use crate::support::client::render;
use crate::support::*;
use std::time::{Duration, Instant};

#[test]
fn a_client_has_at_most_so_many_connections_at_once() {
    let gateway = Setup::default().server("max_connections_per_ip = 2").start();
    // The test's own probes have gone before it counts.
    let mut kept: Vec<Client> = Vec::new();
    wait_until("two connections are to be had", || {
        kept = (0..2).map(|_| gateway.connect()).collect();
        kept.iter_mut().all(|client| {
            client.try_send(render("GET", "/", &[], b"")).is_ok()
                && client.try_read("GET").is_ok_and(|answer| answer.is_some())
        })
    });
    let mut third = gateway.connect();
    let _closed_already_or_not = third.try_send(render("GET", "/", &[], b""));
    assert!(third.is_closed_within(PATIENCE));
    assert_eq!(kept[0].get("/").status, 200);
    kept.pop();
    wait_until("there is room again", || {
        let mut next = gateway.connect();
        next.try_send(render("GET", "/", &[], b"")).is_ok() && next.try_read("GET").is_ok_and(|answer| answer.is_some())
    });
}

#[test]
fn a_trusted_proxy_has_no_cap_on_its_connections() {
    let gateway = Setup::default().server("max_connections_per_ip = 1").trusted().start();
    let mut clients: Vec<Client> = (0..5).map(|_| gateway.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/").status == 200));
}

#[test]
fn a_header_that_drips_is_cut_off_on_a_kept_connection_too() {
    let gateway = Setup::default().server("timeouts = { header = \"500ms\", idle = \"60s\" }").start();
    let mut client = gateway.connect();
    assert_eq!(client.get("/").status, 200);
    let began = Instant::now();
    let dripped = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".iter().chain([b'y'; 400].iter()).position(|byte| {
        std::thread::sleep(Duration::from_millis(25));
        client.try_send([*byte]).is_err()
    });
    assert!(dripped.is_some(), "it was listened to for {:?}", began.elapsed());
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn a_body_that_drips_is_given_up_although_each_byte_is_in_time() {
    let gateway = Setup::default().server("timeouts = { body = \"400ms\" }").start();
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Content-Length", "1000")], b""));
    let dripped = (0..400).position(|_| {
        std::thread::sleep(Duration::from_millis(25));
        client.try_send("y").is_err()
    });
    assert!(dripped.is_some());
    gateway.wait_idle();
    assert_eq!(gateway.upstream.count(), 0, "the upstream got no whole request");
}

#[test]
fn what_is_sent_behind_a_request_that_ends_the_connection_does_not_reset_it() {
    let gateway = Setup::default().start();
    for _ in 0..50 {
        let mut client = gateway.connect();
        client.send([&b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"[..], &[b'x'; 50_000]].concat());
        let answer = client.read("GET");
        assert_eq!(answer.status, 400);
        assert!(client.is_closed_within(PATIENCE));
    }
}

#[test]
fn two_thousand_requests_written_before_the_first_answer_is_read_are_all_answered_in_order() {
    const REQUESTS: usize = 2000;
    let gateway = Setup::limited(&[r#"rate = "1500/h", algorithm = "fixed_window""#]).start();
    let filler = "x".repeat(100);
    let all: Vec<u8> =
        (0..REQUESTS).flat_map(|n| render("GET", &format!("/{n}"), &[("X-Filler", &filler)], b"")).collect();
    assert!(all.len() > 4 * 64 * 1024, "more than the gateway reads ahead");
    let mut client = gateway.connect();
    let mut writing = client.second_handle();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut writing, &all));
    let statuses: Vec<u16> = (0..REQUESTS).map(|_| client.read("GET").status).collect();
    assert!(writer.join().expect("it does not panic").is_ok());
    assert_eq!((count(&statuses[..1500], 200), count(&statuses[1500..], 429)), (1500, 500));
    let targets: Vec<String> = gateway.upstream.requests().into_iter().map(|request| request.target).collect();
    assert!(targets.iter().enumerate().all(|(n, target)| *target == format!("/{n}")), "out of order");
}

#[test]
fn refused_and_admitted_requests_of_one_pipeline_keep_their_places() {
    let toml = "[[routes]]\nmatch = \"/one\"\nlimits = [{ rate = \"1/h\" }]\n[[routes]]\nmatch = \"*\"\n";
    let gateway = Setup::new(toml).start();
    let get = |path: &str| render("GET", path, &[], b"");
    let post = |path: &str| render("POST", path, &[], &[b'x'; 5000]);
    let all =
        [get("/one"), post("/one"), get("/a"), render("HEAD", "/one", &[], b""), post("/b"), get("/one"), get("/c")];
    let mut client = gateway.connect();
    client.send(all.concat());
    let methods = ["GET", "POST", "GET", "HEAD", "POST", "GET", "GET"];
    assert_eq!(methods.map(|method| client.read(method).status), [200, 429, 200, 429, 200, 429, 200]);
}
