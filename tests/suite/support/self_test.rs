//! The harness against itself: the raw client before the scripted upstream, no gateway between them.

use super::client::{chunked, render};
use super::keys::sha256_hex;
use super::metrics::Metrics;
use super::reply::{End, Step};
use super::*;

#[test]
fn the_harness_keeps_a_request_as_the_bytes_it_was() {
    let upstream = Upstream::ok();
    let mut client = Client::connect(upstream.address());
    let bytes = render("POST", "/a?b=c", &[("X-Twice", "1"), ("x-twice", "2")], b"body");
    client.send(&bytes);
    assert_eq!(client.read("POST").text(), "ok");
    let request = upstream.last();
    assert_eq!([request.head.clone(), request.body.clone()].concat(), bytes);
    assert_eq!(request.all("x-twice"), ["1", "2"]);
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/a?b=c"));
}

#[test]
fn the_harness_reuses_one_connection_for_bodies_of_every_framing() {
    let upstream = Upstream::new(|request| match request.target.as_str() {
        "/drip" => Reply::drip(&["ab", "cd"], Duration::from_millis(1)),
        "/head" => Reply::head(5),
        "/interim" => Reply::raw("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 None\r\n\r\n"),
        _ => Reply::ok(),
    });
    let mut client = Client::connect(upstream.address());
    assert_eq!(client.get("/drip").text(), "abcd");
    assert_eq!(client.request("HEAD", "/head", &[], b"").body, b"");
    assert_eq!(client.get("/interim").interim, [103]);
    client.send(render("POST", "/", &[("Transfer-Encoding", "chunked")], &chunked(&[b"one", b"two"])));
    assert_eq!(client.read("POST").status, 200);
    assert_eq!(upstream.last().body, b"onetwo");
    assert!(upstream.requests().iter().all(|request| request.connection == 0));
    assert_eq!((upstream.count(), upstream.connections()), (4, 1));
}

#[test]
fn the_harness_sees_a_close_a_reset_and_a_hang_apart() {
    let upstream = Upstream::new(|request| {
        Reply::only(match request.target.as_str() {
            "/close" => End::Close,
            "/reset" => End::Reset,
            _ => End::Hang,
        })
    });
    let ask = |target| {
        let mut client = Client::connect(upstream.address());
        client.set_read_timeout(Duration::from_millis(200));
        client.send(render("GET", target, &[], b""));
        client.try_read("GET").map(|answer| answer.is_some()).map_err(|error| error.kind())
    };
    assert_eq!(ask("/close"), Ok(false));
    assert_eq!(ask("/reset"), Err(std::io::ErrorKind::ConnectionReset));
    assert_eq!(ask("/hang"), Err(std::io::ErrorKind::WouldBlock));
}

#[test]
fn the_harness_answers_when_a_gate_opens_and_not_before() {
    let gate = Gate::closed();
    let behind = gate.clone();
    let upstream = Upstream::new(move |_| Reply::ok().behind(&behind).then(Step::Wait(Duration::ZERO)));
    let mut client = Client::connect(upstream.address());
    client.send(render("GET", "/", &[], b""));
    wait_until("the request arrived", || upstream.count() == 1);
    assert!(!client.is_closed_within(Duration::from_millis(50)));
    gate.open();
    assert_eq!(client.read("GET").status, 200);
}

#[test]
fn the_harness_tunnels_after_an_upgrade() {
    let upstream = Upstream::new(|_| Reply::upgrade());
    let mut client = Client::connect(upstream.address());
    client.send(render("GET", "/", &[("Connection", "Upgrade"), ("Upgrade", "websocket")], b""));
    assert_eq!(client.read("GET").status, 101);
    client.send("ping");
    assert_eq!(client.read_exactly(4), b"ping");
}

#[test]
fn the_harness_runs_a_burst_in_order_and_whole() {
    let upstream = Upstream::ok();
    let statuses = burst(50, 8, |_| Client::connect(upstream.address()).get("/").status);
    assert_eq!(count(&statuses, 200), 50);
    assert_eq!(burst(20, 4, |index| index), (0..20).collect::<Vec<_>>());
}

#[test]
fn the_harness_reads_metrics_with_escapes_and_sums_over_labels() {
    let page = "# TYPE a counter\na{x=\"1\",y=\"q\\\"}\"} 2\na{x=\"1\",y=\"z\"} 3\nb 1.5\n";
    let metrics = Metrics::parse(page.into());
    assert_eq!(metrics.sum("a", &[("x", "1")]), 5.0);
    assert_eq!(metrics.sum("a", &[("y", "q\"}")]), 2.0);
    assert_eq!(metrics.sum("b", &[]), 1.5);
    assert!(metrics.names("a") && !metrics.names("c"));
}

#[test]
fn the_harness_digests_keys_as_the_published_vector_says() {
    let key = "gk_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg37cCQ0";
    assert_eq!(sha256_hex(key), "93a42339372a05b7f9213a8439eca01756ab18485d99cbf02c5308f3a6909ad2");
}

#[test]
fn the_harness_writes_toml_that_parses_and_ports_that_differ() {
    let setup = Setup::limited(&["rate = \"3/h\""]).trusted().keys(&consumer("acme", "pro"));
    let files = setup.files();
    for name in ["sluicegate.toml", "keys.toml"] {
        let text = std::fs::read_to_string(files.path(name)).unwrap();
        text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    }
    assert_ne!(files.data, files.admin);
}
