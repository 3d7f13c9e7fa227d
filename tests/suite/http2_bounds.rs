//! What one HTTP/2 client may take, however it behaves, and that the others are served meanwhile.

use crate::support::frames::*;
use crate::support::http2::Http2;
use crate::support::*;
use std::time::{Duration, Instant};

/// Requests of one connection at once, as docs/security.md names it.
const STREAMS: u32 = 128;

/// What a response that its client does not take may hold, as docs/security.md names it.
const UNREAD_KIB: u64 = 768;

fn flag(flags: u8, flag: u8) -> bool {
    flags & flag != 0
}

/// Another client gets an answer soon.
#[track_caller]
fn assert_served(gateway: &Gateway) {
    let asked = Instant::now();
    assert!(matches!(gateway.get("/").status, 200 | 429));
    assert!(asked.elapsed() < Duration::from_secs(5), "another client waited {:?}", asked.elapsed());
}

#[test]
fn b80_a_flood_of_resets_is_charged_or_cut_off_and_leaves_nothing() {
    let gateway = Setup::limited(&[r#"rate = "100/h""#]).start();
    for pause in [Duration::ZERO, Duration::from_micros(200)] {
        let mut client = Frames::connect(gateway.files.data, &[]);
        let mut sent = 0_u32;
        for batch in 0..500_u32 {
            let streams = (0..10).map(|n| 1 + 2 * (batch * 10 + n));
            let pairs: Vec<Frame> = streams
                .flat_map(|stream| [Frame::request(stream, END_STREAM, "GET", "/"), Frame::reset(stream)])
                .collect();
            if client.send(&pairs).is_err() {
                break;
            }
            sent += 10;
            std::thread::sleep(pause);
        }
        assert!(sent > 0);
        assert_served(&gateway);
    }
    gateway.wait_idle();
    assert!(gateway.upstream.count() <= 100, "{} got through", gateway.upstream.count());
}

#[test]
fn b80_a_request_that_is_reset_after_it_was_forwarded_is_charged_and_frees_its_place() {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::limited(&[r#"rate = "10/h""#]).before_script(move |_| Reply::ok().behind(&held));
    let mut client = Frames::connect(gateway.files.data, &[]);
    for n in 0..5 {
        client.send(&[Frame::request(1 + 2 * n, END_STREAM, "GET", "/")]).expect("it listens");
    }
    wait_until("they are under way", || gateway.upstream.count() == 5);
    for n in 0..5 {
        client.send(&[Frame::reset(1 + 2 * n)]).expect("it listens");
    }
    gateway.wait_idle();
    gate.open();
    assert_eq!(gateway.get("/").remaining(), 4);
}

#[test]
fn a_client_has_at_most_so_many_streams_at_once() {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |_| Reply::ok().behind(&held));
    let mut client = Frames::connect(gateway.files.data, &[]);
    let ids = (0..STREAMS + 20).map(|n| 1 + 2 * n);
    let requests: Vec<Frame> = ids.map(|stream| Frame::request(stream, END_STREAM, "GET", "/")).collect();
    client.send(&requests).expect("it listens");
    let refused = client.read_until(|frame| frame.kind == RST_STREAM).expect("those beyond are refused");
    assert_eq!(refused.code(), 7, "REFUSED_STREAM, which says that nothing was done");
    wait_until("the others are under way", || gateway.upstream.count() == STREAMS as usize);
    gate.open();
    gateway.wait_idle();
    assert_eq!(gateway.upstream.count(), STREAMS as usize);
}

#[test]
fn a_header_without_end_is_cut_off_and_not_kept() {
    let gateway = Setup::default().server("timeouts = { header = \"1s\", idle = \"1s\" }").start();
    let before = gateway.running.resident_kib();
    let mut client = Frames::connect(gateway.files.data, &[]);
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    client.send(&[Frame::new(HEADERS, END_STREAM, 1, block(&fields))]).expect("it listens");
    let piece = block(&[("x", &"y".repeat(16_000))]);
    let sent = (0..4000).take_while(|_| client.send(&[Frame::new(CONTINUATION, 0, 1, piece.clone())]).is_ok()).count();
    assert!(sent < 4000, "64 MB of one header were taken");
    assert_served(&gateway);
    let grown = gateway.running.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more after {sent} pieces");
    // One that goes on slowly is not waited for either.
    let mut slow = Frames::connect(gateway.files.data, &[]);
    slow.send(&[Frame::new(HEADERS, END_STREAM, 1, block(&fields))]).expect("it listens");
    let ended = becomes_true(PATIENCE, || {
        std::thread::sleep(Duration::from_millis(50));
        slow.send(&[Frame::new(CONTINUATION, 0, 1, [])]).is_err()
    });
    assert!(ended, "a header that drips is listened to for ever");
    assert_eq!(gateway.upstream.requests().iter().filter(|request| request.header("x").is_some()).count(), 0);
}

#[test]
fn a_small_header_block_that_unpacks_to_a_large_one_is_refused_and_not_kept() {
    let gateway = Setup::default().start();
    let before = gateway.running.resident_kib();
    let mut client = Frames::connect(gateway.files.data, &[]);
    // A field of 3 kB goes into the table (RFC 7541, section 6.2.1), then it is named 12 000 times by its index.
    let mut bomb = block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]);
    bomb.push(0x40);
    bomb.extend(&block(&[("x", &"y".repeat(3000))])[1..]);
    bomb.extend([0xbe; 12_000]);
    for stream in [1, 3, 5, 7] {
        let sent = client.send(&[Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, bomb.clone())]);
        assert!(stream > 1 || sent.is_ok());
    }
    let answer = client.read_until(|frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY));
    assert!(!answer.is_ok_and(|frame| frame.kind == HEADERS && frame.payload.first() == Some(&0x88)));
    let grown = gateway.running.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more");
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn empty_pieces_of_a_body_that_nobody_reads_take_no_memory() {
    let toml = "[[routes]]\nmatch = \"*\"\nlimits = [{ algorithm = \"leaky_bucket\", rate = \"1/min\", queue = 5 }]\n";
    let gateway = Setup::new(toml).start();
    assert_eq!(gateway.get("/").status, 200);
    let before = gateway.running.resident_kib();
    let mut client = Frames::connect(gateway.files.data, &[]);
    client.set_timeout(Duration::from_secs(5));
    // Held until its turn in the bucket, with its body on the way.
    client.send(&[Frame::request(1, 0, "POST", "/")]).expect("it listens");
    let batch = vec![Frame::new(DATA, 0, 1, []); 10_000];
    let sent = (0..100).take_while(|_| client.send(&batch).is_ok()).count();
    let grown = gateway.running.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more after {sent} times 10 000 empty frames");
}

#[test]
fn floods_of_frames_that_ask_for_an_answer_take_no_memory() {
    let gateway = Setup::default().start();
    let flood = [
        Frame::new(PING, 0, 0, [7; 8]),
        Frame::new(SETTINGS, 0, 0, []),
        Frame::new(WINDOW_UPDATE, 0, 0, 1_u32.to_be_bytes()),
        Frame::new(2, 0, 1, [0, 0, 0, 0, 1]),
        Frame::new(0xee, 0, 0, [0; 16]),
    ];
    let before = gateway.running.resident_kib();
    for frame in flood {
        let mut client = Frames::connect(gateway.files.data, &[]);
        client.set_timeout(Duration::from_millis(500));
        // It reads none of what comes back.
        let batch = vec![frame.clone(); 1000];
        let sent = (0..100).take_while(|_| client.send(&batch).is_ok()).count();
        assert_served(&gateway);
        let grown = gateway.running.resident_kib().saturating_sub(before);
        assert!(grown < 8 * 1024, "{grown} KiB more after {sent} thousand of {frame:?}");
    }
}

#[test]
fn tunnels_are_refused_over_http2_and_reach_nobody() {
    let gateway = Setup::default().start();
    let plain = [(":method", "CONNECT"), (":authority", "example.com:443")];
    let extended = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "gateway.test"),
        (":path", "/ws"),
    ];
    for fields in [&plain[..], &extended] {
        let mut client = Frames::connect(gateway.files.data, &[]);
        client.send(&[Frame::new(HEADERS, END_HEADERS, 1, block(fields))]).expect("it listens");
        let answer = client.read_until(|frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY));
        let answer = answer.expect("it is answered");
        // 200, which would open the tunnel, is index 8 of HPACK's static table.
        assert!(answer.kind != HEADERS || answer.payload.first() != Some(&0x88), "{answer:?}");
    }
    assert_served(&gateway);
    assert_eq!(gateway.upstream.count(), 1, "nothing but the probe");
    gateway.wait_idle();
}

#[test]
fn a_header_over_a_bound_is_431_in_our_shape_as_over_http1() {
    let gateway = Setup::default().start();
    let h2 = Http2::connect(gateway.files.data);
    let large = "y".repeat(40_000);
    let many: Vec<(String, &str)> = (0..101).map(|n| (format!("x-{n}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for headers in [&[("x", large.as_str())][..], &many] {
        let refused = h2.request("GET", "/", headers);
        let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap_or_default();
        assert_eq!((refused.status, body["error"].as_str()), (431, Some("headers_too_large")), "{refused:?}");
    }
    assert_eq!(h2.request("GET", "/", &many[..99]).status, 200);
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn a_body_over_the_cap_is_413_over_http2_declared_or_not() {
    let gateway = Setup::default().server("max_body_bytes = \"1KiB\"").start();
    let h2 = Http2::connect(gateway.files.data);
    let over = vec![b'x'; 200_000];
    for headers in [&[("content-length", "200000")][..], &[]] {
        let refused = h2.upload("POST", "/", headers, &over);
        let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap_or_default();
        assert_eq!((refused.status, body["error"].as_str()), (413, Some("payload_too_large")), "{refused:?}");
    }
    let whole = gateway.upstream.requests();
    assert!(
        whole.is_empty(),
        "{:?}",
        whole.iter().map(|request| (request.head_text(), request.body.len())).collect::<Vec<_>>()
    );
    assert_eq!(h2.upload("POST", "/", &[], &over[..1024]).status, 200);
}

#[test]
fn b47_an_upload_that_is_refused_over_http2_reads_its_429() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    assert_eq!(gateway.get("/").status, 200);
    let body = vec![b'x'; 8 << 20];
    let h2 = Http2::connect(gateway.files.data);
    for run in 0..20 {
        assert_eq!(h2.upload("POST", "/", &[], &body).status, 429, "run {run}");
    }
    assert_eq!(h2.request("GET", "/", &[]).status, 429, "the connection goes on");
    gateway.wait_idle();
}

#[test]
fn head_over_http2_has_a_length_and_no_body() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    let h2 = Http2::connect(gateway.files.data);
    let passed = h2.request("HEAD", "/", &[]);
    assert_eq!((passed.status, passed.field("content-length"), passed.body.len()), (200, Some("2"), 0));
    let refused = h2.request("HEAD", "/", &[]);
    assert_eq!((refused.status, refused.body.len()), (429, 0));
    assert!(refused.headers_only && refused.field("content-length").is_some_and(|length| length != "0"));
}

#[test]
fn a_body_that_stalls_over_http2_is_given_up_when_the_upstream_has_been_silent_for_too_long() {
    let gateway = Setup::default().stub("timeouts = { read = \"500ms\" }").start();
    let mut client = Frames::connect(gateway.files.data, &[]);
    client.send(&[Frame::request(1, 0, "POST", "/"), Frame::new(DATA, 0, 1, [b'x'; 10])]).expect("it listens");
    let started = Instant::now();
    let ended = client.read_until(|frame| frame.stream == 1 && flag(frame.flags, END_STREAM)).expect("it is ended");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}: {ended:?}", started.elapsed());
    gateway.wait_idle();
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn a_client_that_takes_nothing_of_a_response_is_given_up_and_holds_little() {
    const BODY: usize = 4 << 20;
    let gateway = Setup::default().server("timeouts = { body = \"1s\" }").before_script(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").into_bytes();
        Reply::raw([head, vec![b'x'; BODY]].concat())
    });
    gateway.get("/");
    let before = gateway.running.resident_kib();
    // Windows as wide as they get, but nobody reads the socket.
    let mut client = Frames::connect(gateway.files.data, &[(4, 0x7fff_ffff)]);
    client.send(&[Frame::new(WINDOW_UPDATE, 0, 0, 0x7fff_0000_u32.to_be_bytes())]).expect("it listens");
    let requests: Vec<Frame> = (0..100).map(|n| Frame::request(1 + 2 * n, END_STREAM, "GET", "/")).collect();
    client.send(&requests).expect("it listens");
    let mut most = 0;
    wait_until("all have been answered by the upstream", || {
        most = most.max(gateway.running.resident_kib().saturating_sub(before));
        gateway.upstream.count() == 101
    });
    wait_until("all are given up", || {
        most = most.max(gateway.running.resident_kib().saturating_sub(before));
        gateway.metric("sluicegate_requests_in_flight", &[]) == 0.0
    });
    assert!(most < 100 * UNREAD_KIB, "{most} KiB for 100 responses that nobody reads");
}

#[test]
fn a_stream_whose_body_waits_holds_up_no_other_of_its_connection() {
    let gate = Gate::closed();
    let held = gate.clone();
    let toml = "[[routes]]\nmatch = \"/queue\"\nlimits = [{ algorithm = \"leaky_bucket\", rate = \"1/min\", queue = 5 }]\n\
                [[routes]]\nmatch = \"*\"\n";
    let gateway = Setup::new(toml).before_script(move |request| match request.target.as_str() {
        "/held" => Reply::ok().behind(&held),
        _ => Reply::ok(),
    });
    assert_eq!(gateway.get("/queue").status, 200);
    let mut client = Frames::connect(gateway.files.data, &[]);
    // Two wait in the bucket with all of their window on the way, unread.
    for stream in [1, 3] {
        client.send(&[Frame::request(stream, 0, "POST", "/queue")]).expect("it listens");
        for _ in 0..2 {
            client.send(&[Frame::new(DATA, 0, stream, vec![b'x'; 16_000])]).expect("it listens");
        }
    }
    // What the connection as a whole has left, as this client counts it.
    client.send(&[Frame::request(5, 0, "POST", "/small")]).expect("it listens");
    let mut window = i64::from(client.connection_window(Duration::from_millis(300)).expect("settings came")) - 64_000;
    while window < 8000 {
        let update = client.read_until(|frame| frame.kind == WINDOW_UPDATE && frame.stream == 0);
        window += i64::from(update.expect("the window of the connection is not used up by those that wait").code());
    }
    client.send(&[Frame::new(DATA, END_STREAM, 5, vec![b'x'; 8000])]).expect("it listens");
    let answer = client.read_until(|frame| frame.stream == 5 && frame.kind == HEADERS).expect("it is answered");
    assert!(flag(answer.flags, END_HEADERS));
    gate.open();
}

#[test]
fn a_drain_says_goaway_lets_streams_finish_and_ends() {
    let gate = Gate::closed();
    let held = gate.clone();
    let mut gateway = Setup::default().server("drain = \"20s\"").before_script(move |_| Reply::ok().behind(&held));
    let mut client = Frames::connect(gateway.files.data, &[]);
    client.send(&[Frame::request(1, END_STREAM, "GET", "/")]).expect("it listens");
    wait_until("it is under way", || gateway.upstream.count() == 1);
    gateway.signal("TERM");
    let goaway = client.read_until(|frame| frame.kind == GOAWAY).expect("it is told");
    assert_eq!(goaway.code(), 0);
    // The graceful end asks by a ping whether more is on the way.
    let answer_pings = |client: &mut Frames| -> Option<Frame> {
        loop {
            match client.read() {
                Ok(frame) if frame.kind == PING && frame.flags == 0 => {
                    client.send(&[Frame::new(PING, 1, 0, frame.payload)]).ok()?;
                }
                Ok(frame) if frame.kind == DATA && flag(frame.flags, END_STREAM) => return Some(frame),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    };
    gate.open();
    let body = answer_pings(&mut client).expect("the open request finishes");
    assert_eq!((body.stream, body.payload.as_slice()), (1, &b"ok"[..]));
    let started = Instant::now();
    client.read_to_end();
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?} after the last stream", started.elapsed());
}

#[test]
fn a_client_that_ignores_the_drain_is_ended_at_its_deadline() {
    let mut gateway = Setup::default().server("drain = \"1s\"").before_script(|_| Reply::only(reply::End::Hang));
    let mut client = Frames::connect(gateway.files.data, &[]);
    client.send(&[Frame::request(1, END_STREAM, "GET", "/")]).expect("it listens");
    wait_until("it is under way", || gateway.upstream.count() == 1);
    let sent = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert!(sent.elapsed() >= Duration::from_millis(900), "{:?}", sent.elapsed());
    client.read_to_end();
}
