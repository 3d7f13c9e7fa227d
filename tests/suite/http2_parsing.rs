//! What becomes of HTTP/2 requests that an HTTP/1.1 upstream could read in two ways, and of what the two protocols say differently.

use crate::support::backend::Backend;
use crate::support::client::{UPGRADE, render};
use crate::support::frames::*;
use crate::support::http2::Http2;
use crate::support::*;

/// A name, the fields beside or instead of the usual ones, and the DATA, if any.
type Row = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

/// None of these may reach an upstream.
const REFUSED: &[Row] = &[
    ("header name in capitals", &[("X-Big", "y")], None),
    ("line end in a value", &[("x", "a\r\nx-consumer-id: evil")], None),
    ("bare line feed in a value", &[("x", "a\nb")], None),
    ("nul in a value", &[("x", "a\0b")], None),
    ("colon in a name", &[("x: y\r\nz", "a")], None),
    ("blank in a name", &[("x y", "a")], None),
    ("empty name", &[("", "a")], None),
    ("transfer-encoding", &[("transfer-encoding", "chunked")], Some("0\r\n\r\nGET /admin HTTP/1.1\r\n\r\n")),
    ("connection", &[("connection", "close")], None),
    ("upgrade", &[("upgrade", "websocket")], None),
    ("te of another kind", &[("te", "chunked")], None),
    ("blank in the path", &[(":path", "/a b")], None),
    ("line end in the path", &[(":path", "/ HTTP/1.1\r\nx: y\r\n\r\n")], None),
    ("path without a slash", &[(":path", "admin")], None),
    ("empty path", &[(":path", "")], None),
    ("blank in the method", &[(":method", "GET /admin")], None),
    ("line end in the method", &[(":method", "GET\r\n")], None),
    ("user in the authority", &[(":authority", "user@gateway.test")], None),
    ("blank in the authority", &[(":authority", "a b")], None),
    ("line end in the authority", &[(":authority", "a\r\nx: y")], None),
    ("two authorities", &[("host", "other.test")], None),
    ("unknown pseudo-header", &[(":evil", "1")], None),
    ("pseudo-header of a response", &[(":status", "200")], None),
    ("no length", &[("content-length", "")], Some("hello")),
    ("length that is none", &[("content-length", "+5")], Some("hello")),
    ("two lengths", &[("content-length", "5"), ("content-length", "6")], Some("hello")),
    ("list of lengths", &[("content-length", "5, 5")], Some("hello")),
    ("more than its length", &[("content-length", "5")], Some("helloGET /admin HTTP/1.1\r\nHost: a\r\n\r\n")),
    ("less than its length", &[("content-length", "50")], Some("hello")),
    ("length and nothing", &[("content-length", "5")], None),
];

fn request_of(row: &Row) -> Vec<Frame> {
    let usual = [(":method", "POST"), (":scheme", "http"), (":authority", "gateway.test"), (":path", "/")];
    let (_, fields, body) = row;
    let given = |name: &str| fields.iter().any(|(each, _)| *each == name);
    let pseudo = usual.into_iter().filter(|(name, _)| !given(name));
    let (own, others): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| name.starts_with(':'));
    let all: Vec<(&str, &str)> = pseudo.chain(own).chain(others).collect();
    let end = if body.is_none() { END_STREAM } else { 0 };
    let head = Frame::new(HEADERS, END_HEADERS | end, 1, block(&all));
    [head].into_iter().chain(body.map(|body| Frame::new(DATA, END_STREAM, 1, body))).collect()
}

#[test]
fn requests_that_could_be_read_in_two_ways_reach_no_upstream() {
    let gateway = Setup::default().start();
    let found = burst(REFUSED.len(), 8, |index| {
        let mut client = Frames::connect(gateway.files.data, &[]);
        client.send(&request_of(&REFUSED[index])).expect("it listens");
        client.read_until(|frame| frame.kind == GOAWAY || (frame.stream == 1 && frame.kind != WINDOW_UPDATE))
    });
    let mut wrong = Vec::new();
    for (row, answer) in REFUSED.iter().zip(found) {
        match answer {
            // 200 is index 8 of HPACK's static table.
            Ok(frame) if frame.kind == HEADERS && frame.payload.first() == Some(&0x88) => {
                wrong.push(format!("{}: it passed", row.0));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => wrong.push(format!("{}: silence", row.0)),
            Ok(_) | Err(_) => {}
        }
    }
    let reached: Vec<String> = gateway.upstream.requests().iter().map(Recorded::head_text).collect();
    assert!(wrong.is_empty() && reached.is_empty(), "{}\n{reached:?}", wrong.join("\n"));
    assert_eq!(gateway.get("/").status, 200);
    gateway.wait_idle();
}

#[test]
fn what_http2_splits_is_one_line_for_an_upstream_of_http1() {
    let gateway = Setup::default().start();
    let h2 = Http2::connect(gateway.files.data);
    let cookies = [("cookie", "a=1"), ("cookie", "b=2"), ("x", "y"), ("cookie", "c=3; d=4")];
    assert_eq!(h2.request("GET", "/", &cookies).status, 200);
    assert_eq!(gateway.upstream.last().all("cookie"), ["a=1; b=2; c=3; d=4"]);
}

#[test]
fn a_key_in_a_cookie_is_found_and_taken_out_wherever_http2_has_split_them() {
    let gateway = Setup::new("[tiers.free]\n")
        .keys(&consumer("acme", "free"))
        .auth("sources = [\"cookie:key\"]\nanonymous = \"deny\"")
        .start();
    let key = format!("key={}", key_of("acme"));
    let h2 = Http2::connect(gateway.files.data);
    for cookies in [["a=1", &key, "b=2"], [&key, "a=1", "b=2"], ["a=1", "b=2", &key]] {
        let fields = cookies.map(|cookie| ("cookie", cookie));
        assert_eq!(h2.request("GET", "/", &fields).status, 200);
        let seen = gateway.upstream.last();
        assert_eq!((seen.header("x-consumer-id"), seen.all("cookie")), (Some("acme"), vec!["a=1; b=2"]));
    }
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let gateway = Setup::default().before_script(|request| match request.target.as_str() {
        "/chunks" => Reply::drip(&["hello ", "world"], std::time::Duration::ZERO),
        _ => Reply::raw("HTTP/1.1 200 OK\r\n\r\nhello world").ending(reply::End::Close),
    });
    for path in ["/chunks", "/until-close"] {
        for connection in ["close", "keep-alive"] {
            let mut client = gateway.connect();
            client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\nConnection: {connection}\r\n\r\n"));
            let all = String::from_utf8_lossy(&client.read_to_end()).into_owned();
            let (head, body) = all.split_once("\r\n\r\n").expect("a head");
            assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{path} {connection}: {head}");
            assert_eq!(body, "hello world", "{path} {connection}");
        }
        // Who speaks HTTP/1.1 sees the end, and whether it is one.
        assert_eq!(gateway.get(path).text(), "hello world", "{path}");
        assert_eq!(Http2::connect(gateway.files.data).request("GET", path, &[]).body, b"hello world", "{path}");
    }
}

#[test]
fn interim_answers_pass_and_the_final_one_follows() {
    let gateway = Setup::limited(&[r#"rate = "9/h""#]).before_script(|_| {
        let early =
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: keep-alive\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        Reply::raw(format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    });
    let mut client = gateway.connect();
    for remaining in [8, 7] {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str(), answer.remaining()), (200, "ok", remaining));
    }
    let h2 = Http2::connect(gateway.files.data);
    let answer = h2.request("GET", "/", &[]);
    assert_eq!((answer.status, answer.field("ratelimit-remaining")), (200, Some("6")));
}

#[test]
fn an_upgrade_towards_an_upstream_of_http2_is_a_plain_request() {
    let backend = Backend::h2c();
    let toml = format!(
        "[upstreams.h2]\nservers = [\"{}\"]\nprotocol = \"h2\"\n[[routes]]\nmatch = \"*\"\nupstream = \"h2\"\n",
        backend.address
    );
    let gateway = Setup::new(toml).start();
    let mut client = gateway.connect();
    for _ in 0..3 {
        client.send(render("GET", "/ws", &UPGRADE, b""));
        assert_eq!(client.read("GET").status, 200);
        assert_eq!(client.get("/").status, 200);
    }
    assert!(backend.seen().iter().all(|seen| seen.protocol == "h2"));
}

#[test]
fn trailers_of_an_upstream_of_http1_do_not_harm_the_answer_or_the_next_one() {
    let gateway = Setup::default().before_script(|request| match request.target.as_str() {
        "/trailers" => Reply::raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n",
        ),
        _ => Reply::ok(),
    });
    let mut client = gateway.connect();
    let h2 = Http2::connect(gateway.files.data);
    for _ in 0..3 {
        assert_eq!(client.get("/trailers").text(), "hello");
        assert_eq!(client.get("/").text(), "ok");
        assert_eq!(h2.request("GET", "/trailers", &[]).body, b"hello");
        assert_eq!(h2.request("GET", "/", &[]).body, b"ok");
    }
}
