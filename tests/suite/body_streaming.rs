//! Bodies: refused early without breaking the connection, passed on whole, capped where asked.

use crate::support::client::{chunked, render};
use crate::support::*;
use std::time::Duration;

const ONE: &str = r#"rate = "1/h""#;

fn exhausted() -> Gateway {
    let gateway = Setup::limited(&[ONE]).start();
    assert_eq!(gateway.get("/").status, 200);
    gateway
}

/// Sends as much as the gateway takes and reads the answer.
fn upload(gateway: &Gateway, framing: (&str, &str), chunk: &[u8], times: usize) -> Response {
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[framing], b""));
    for _ in 0..times {
        if client.try_send(chunk).is_err() {
            break;
        }
    }
    client.read("POST")
}

#[test]
fn b47_a_client_that_is_still_sending_reads_its_429() {
    let gateway = exhausted();
    let block = vec![b'x'; 65_536];
    for _ in 0..8 {
        let refused = upload(&gateway, ("Content-Length", "8388608"), &block, 128);
        assert_eq!((refused.status, refused.error().as_str()), (429, "rate_limit_exceeded"));
        let piece = [b"10000\r\n".as_slice(), &block, b"\r\n"].concat();
        assert_eq!(upload(&gateway, ("Transfer-Encoding", "chunked"), &piece, 128).status, 429);
    }
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn b47_a_refused_body_of_unknown_length_or_unasked_for_is_read_to_its_end() {
    let gateway = exhausted();
    let block = vec![b'x'; 65_536];
    let piece = [b"10000\r\n".as_slice(), &block, b"\r\n"].concat();
    read_to_the_end(&gateway, &[("Transfer-Encoding", "chunked")], &piece, b"0\r\n\r\n");
    read_to_the_end(&gateway, &[("Expect", "100-continue"), ("Content-Length", "4194304")], &block, b"");
}

/// Sends 64 pieces and the end, of which none may meet a closed connection, and reads the refusal.
fn read_to_the_end(gateway: &Gateway, headers: &[(&str, &str)], piece: &[u8], end: &[u8]) {
    let mut client = gateway.connect();
    client.send(render("POST", "/", headers, b""));
    for _ in 0..64 {
        client.try_send(piece).expect("the gateway still reads");
    }
    client.try_send(end).expect("the gateway still reads");
    assert_eq!(client.read("POST").status, 429);
}

#[test]
fn b47_a_refused_upload_does_not_hold_the_connection_for_ever() {
    let gateway = exhausted();
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Content-Length", "1000000")], b""));
    assert_eq!(client.read("POST").status, 429);
    assert!(client.is_closed_within(Duration::from_secs(10)), "the rest of the body never came");
}

#[test]
fn b47_expect_continue_is_refused_without_asking_for_the_body() {
    let gateway = exhausted();
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Expect", "100-continue"), ("Content-Length", "100000")], b""));
    let refused = client.read("POST");
    assert_eq!((refused.status, refused.interim.len()), (429, 0));
}

#[test]
fn b83_a_small_refused_post_keeps_its_connection() {
    let gateway = exhausted();
    let mut client = gateway.connect();
    for index in 0..50 {
        let refused = client.request("POST", "/", &[], &[b'x'; 1024]);
        assert_eq!(refused.status, 429, "request {index}");
        let closes = refused.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        assert!(!closes, "request {index}: {refused:?}");
    }
}

#[test]
fn bodies_reach_the_upstream_whole_in_either_framing() {
    let gateway = Setup::default().start();
    let body: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let mut client = gateway.connect();
    assert_eq!(client.request("POST", "/", &[], &body).status, 200);
    assert!(gateway.upstream.last().body == body);
    client.send(render("POST", "/", &[("Transfer-Encoding", "chunked")], &chunked(&[&body[..1000], &body[1000..]])));
    assert_eq!(client.read("POST").status, 200);
    assert!(gateway.upstream.last().body == body);
}

#[test]
fn responses_are_streamed_as_they_come() {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |_| {
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst")
            .then(reply::Step::Pass(held.clone()))
            .then(reply::Step::Write(b"last".to_vec()))
    });
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b""));
    let mut seen = Vec::new();
    while !seen.ends_with(b"first") {
        seen.extend(client.read_exactly(1));
    }
    gate.open();
    assert_eq!(client.read_exactly(4), b"last");
}

#[test]
fn a_body_over_the_cap_is_413_however_it_is_framed() {
    let gateway = Setup::default().server("max_body_bytes = \"1KiB\"").start();
    let fits = vec![b'x'; 1024];
    assert_eq!(gateway.request("POST", "/", &[], &fits).status, 200);
    let over = [&fits[..], b"y"].concat();
    let refused = gateway.request("POST", "/", &[], &over);
    assert_eq!((refused.status, refused.error().as_str()), (413, "payload_too_large"));
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Transfer-Encoding", "chunked")], &chunked(&[&fits, b"y"])));
    assert_eq!(client.read("POST").status, 413);
    assert_eq!(gateway.upstream.count(), 1, "no body over the cap arrives whole");
}
