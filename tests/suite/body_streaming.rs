//! Bodies: refused early without breaking the connection, passed on whole, capped where asked.

use crate::support::client::{chunked, render};
use crate::support::*;
use std::time::{Duration, Instant};

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
fn b47_a_refused_upload_that_goes_on_slowly_is_ended_and_not_reset_under_its_answer() {
    let gateway = exhausted();
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Content-Length", "100000000")], b""));
    // For longer than it is listened to for the sake of the connection, for less than for the sake of the answer.
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2600) {
        client.try_send([b'x'; 1000]).expect("nothing is reset");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.read("POST").status, 429);
    assert!(client.is_closed_within(PATIENCE));
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

#[test]
fn an_upload_that_takes_longer_than_the_upstream_may_be_silent_is_no_timeout() {
    let gateway = Setup::default().stub("timeouts = { read = \"1s\" }").start();
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[("Content-Length", "30")], b""));
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        client.send("y");
    }
    assert_eq!(client.read("POST").status, 200);
    assert_eq!(gateway.upstream.last().body.len(), 30);
}

/// Sends a whole body in either framing, then reads: the status, or how it failed.
fn all_then_read(gateway: &Gateway, is_chunked: bool, megabytes: usize) -> Result<u16, String> {
    let block = vec![b'x'; 1 << 20];
    let piece = if is_chunked { [b"100000\r\n".as_slice(), &block, b"\r\n"].concat() } else { block };
    let length = (megabytes << 20).to_string();
    let framing = if is_chunked { ("Transfer-Encoding", "chunked") } else { ("Content-Length", length.as_str()) };
    let mut client = gateway.connect();
    client.send(render("POST", "/", &[framing], b""));
    for _ in 0..megabytes {
        if client.try_send(&piece).is_err() {
            break;
        }
    }
    let _it_may_be_closed_already = is_chunked.then(|| client.try_send("0\r\n\r\n"));
    client.try_read("POST").map_err(|error| error.to_string())?.map(|answer| answer.status).ok_or("closed".into())
}

#[test]
fn b47_a_refused_upload_of_50_megabytes_reads_its_429_every_time() {
    let gateway = exhausted();
    let failed: Vec<_> = burst(100, 4, |run| all_then_read(&gateway, run % 2 == 0, 50))
        .into_iter()
        .filter(|status| status != &Ok(429))
        .collect();
    assert!(failed.is_empty(), "{} of 100 did not read it: {failed:?}", failed.len());
    assert_eq!(gateway.upstream.count(), 1);
    gateway.wait_idle();
}

#[test]
fn b47_an_upload_that_is_over_the_cap_reads_its_413_every_time() {
    let gateway = Setup::default().server("max_body_bytes = \"1MiB\"").start();
    let failed: Vec<_> = burst(40, 4, |run| all_then_read(&gateway, run % 2 == 0, 8))
        .into_iter()
        .filter(|status| status != &Ok(413))
        .collect();
    assert!(failed.is_empty(), "{} of 40 did not read it: {failed:?}", failed.len());
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn an_upload_that_the_upstream_answers_before_its_end_reads_that_answer() {
    // It answers after the head, reads nothing more and closes, as many servers do with what they refuse.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let (mut stream, mut head) = (stream, [0; 4096]);
                let _read = stream.read(&mut head);
                let _written =
                    stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
                let _ended = stream.shutdown(std::net::Shutdown::Write);
                // It lingers too, so that the gateway can read its answer.
                let _drained = std::io::copy(&mut stream.take(4 << 20), &mut std::io::sink());
            });
        }
    });
    let upstreams = format!("[upstreams.u]\nservers = [\"{address}\"]\n[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n");
    let gateway = Setup::new(upstreams).start();
    let failed: Vec<_> = burst(20, 2, |run| all_then_read(&gateway, run % 2 == 0, 2))
        .into_iter()
        .filter(|status| status != &Ok(403))
        .collect();
    assert!(failed.is_empty(), "{} of 20 did not read it: {failed:?}", failed.len());
    gateway.wait_idle();
}
