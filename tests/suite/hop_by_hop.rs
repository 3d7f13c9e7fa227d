//! What belongs to one connection stays there, in both directions, and a bad answer of an upstream is never passed for a good one.

use crate::support::client::render;
use crate::support::http2::Http2;
use crate::support::reply::End;
use crate::support::*;

#[test]
fn nothing_of_the_gateways_is_lost_however_a_client_names_it_in_connection() {
    let gateway = Setup::new("[tiers.free]\n").keys(&consumer("acme", "free")).start();
    let bearer = format!("Bearer {}", key_of("acme"));
    let named = [
        "close, x-consumer-id, x-consumer-tier, x-key-id, x-forwarded-for, x-forwarded-proto, x-forwarded-host",
        "host",
        "x-request-id, content-length, content-type",
        "keep-alive, authorization, X-API-Key",
        "X-Forwarded-For , ,, x-mine",
        "\"x-forwarded-for\"",
        ":authority",
    ];
    for value in named {
        let headers = [("Connection", value), ("Authorization", &bearer), ("X-Mine", "1"), ("Content-Type", "text/x")];
        let answer = gateway.request("POST", "/", &headers, b"body");
        assert_eq!(answer.status, 200, "{value}: {}", answer.text());
        let seen = gateway.upstream.last();
        let ours = ["x-consumer-id", "x-key-id", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "host"];
        let found = ours.map(|name| seen.all(name).join(" and "));
        assert_eq!(found, ["acme", "acme-key", "127.0.0.1", "http", "gateway.test", "gateway.test"], "{value}");
        assert_eq!((seen.all("x-request-id").len(), seen.all("x-consumer-tier")), (1, vec!["free"]), "{value}");
        assert_eq!(seen.body, b"body", "{value}");
        assert_eq!(seen.header("connection"), None, "{value}");
        assert_eq!(seen.header("x-mine").is_none(), value.contains("x-mine"), "{value}");
        gateway.wait_idle();
    }
    assert_eq!(gateway.upstream.connections(), 1, "no request cost the upstream a connection");
}

#[test]
fn more_names_in_connection_than_a_request_has_lines_are_refused_or_harmless() {
    let gateway = Setup::default().start();
    let many = (0..2000).map(|n| format!("x-{n}")).collect::<Vec<_>>().join(",");
    let answer = gateway.get_with("/", &[("Connection", &many), ("X-1999", "1")]);
    assert!(answer.status == 400 || gateway.upstream.last().header("x-1999").is_none(), "{}", answer.status);
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn hop_by_hop_headers_of_an_upstream_stop_at_the_gateway() {
    let gateway = Setup::default().before_script(|_| {
        Reply::raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Private\r\nX-Private: 1\r\nX-Public: 1\r\n\
             Keep-Alive: timeout=1\r\nProxy-Connection: close\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n\r\nok",
        )
        .ending(End::Close)
    });
    let gone = ["x-private", "keep-alive", "proxy-connection", "proxy-authenticate", "upgrade"];
    let mut client = gateway.connect();
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.header("x-public")), (200, Some("1")));
        let left: Vec<&str> = gone.into_iter().filter(|name| answer.has(name)).collect();
        assert!(left.is_empty(), "{left:?}");
        let closes = answer.header("connection").is_some_and(|value| value.contains("close"));
        assert!(!closes, "the upstream's connection is not the client's");
    }
    let answer = Http2::connect(gateway.files.data).request("GET", "/", &[]);
    assert_eq!((answer.status, answer.field("x-public")), (200, Some("1")), "{answer:?}");
    let left: Vec<&str> = gone.into_iter().chain(["connection"]).filter(|name| answer.field(name).is_some()).collect();
    assert!(left.is_empty(), "over HTTP/2: {left:?}");
}

/// What an upstream says to `/NAME`, and whether it may pass as 200.
fn bad_answers() -> Vec<(&'static str, Vec<u8>, bool)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
    vec![
        ("status", text("HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"), false),
        ("status-of-four-digits", text("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"), false),
        ("version", text("HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n"), false),
        ("no-http", text("220 mail.test ESMTP\r\n\r\n"), false),
        ("garbage", vec![0x16, 3, 1, 0, 0xff, 0, 13, 10, 13, 10], false),
        ("nothing", Vec::new(), false),
        ("half-a-head", text("HTTP/1.1 200 OK\r\nContent-Le"), false),
        ("line-without-colon", head("nothing\r\n"), false),
        ("nul", head("X: a\0b\r\nContent-Length: 2\r\n\r\nok"), false),
        ("large", head(&format!("X: {}\r\nContent-Length: 0\r\n", "x".repeat(2 << 20))), false),
        ("many", head(&format!("{}Content-Length: 0\r\n", "X: y\r\n".repeat(2000))), false),
        ("two-lengths", head("Content-Length: 2\r\nContent-Length: 5\r\n\r\nok"), false),
        ("no-number", head("Content-Length: two\r\n\r\nok"), false),
        ("negative", head("Content-Length: -2\r\n\r\nok"), false),
        (
            "unasked-switch",
            text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
            false,
        ),
    ]
}

#[test]
fn an_answer_that_is_no_http_is_502_in_one_shape_and_its_connection_is_not_used_again() {
    let answers = bad_answers();
    let scripted = answers.clone();
    let gateway = Setup::default().stub("retries = 0").before_script(move |request| {
        let found = scripted.iter().find(|(name, ..)| request.target == format!("/{name}"));
        found.map_or_else(Reply::ok, |(_, bytes, _)| Reply::raw(bytes.clone()).ending(End::Close))
    });
    let mut wrong = Vec::new();
    for (name, ..) in &answers {
        let mut client = gateway.connect();
        client.send(render("GET", &format!("/{name}"), &[], b""));
        match client.try_read("GET") {
            Ok(Some(answer)) if answer.status == 502 && answer.json_or_null()["error"] == "bad_gateway" => {}
            other => wrong.push(format!("{name}: {:?}", other.map(|found| found.map(|answer| answer.status)))),
        }
        // Failures in a row would have the only server passed over.
        assert_eq!(gateway.get("/").text(), "ok", "after {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.wait_idle();
}

#[test]
fn an_answer_that_is_cut_off_is_seen_to_be_cut_off() {
    let gateway = Setup::default().stub("retries = 0").before_script(|request| {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        let bytes = match request.target.as_str() {
            "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_string(),
            "/chunks" => chunked.to_string(),
            "/half-a-chunk" => format!("{chunked}5\r\nhe"),
            "/bad-size" => format!("{chunked}zz\r\n"),
            _ => return Reply::ok(),
        };
        Reply::raw(bytes).ending(if request.target == "/bad-size" { End::Hang } else { End::Close })
    });
    for path in ["/length", "/chunks", "/half-a-chunk", "/bad-size"] {
        let mut client = gateway.connect();
        client.send([render("GET", path, &[], b""), render("GET", "/next", &[], b"")].concat());
        let all = String::from_utf8_lossy(&client.read_to_end()).into_owned();
        assert!(all.is_empty() || all.starts_with("HTTP/1.1 200") || all.starts_with("HTTP/1.1 502"), "{path}: {all}");
        let ends = all.contains("\r\n0\r\n\r\n");
        assert!(!ends && all.matches("HTTP/1.1").count() <= 1, "{path} passed for complete: {all}");
        let told = Http2::connect(gateway.files.data).ask("GET", path, &[]);
        assert!(
            told.is_err() || told.as_ref().is_ok_and(|answer| answer.status == 502),
            "{path} over HTTP/2: {told:?}"
        );
    }
    gateway.wait_idle();
}

#[test]
fn bytes_behind_an_answer_are_nobodys_answer() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let gateway = Setup::default().before_script(move |request| {
        let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        match request.target.as_str() {
            "/at-once" => Reply::raw(format!("{}ok{poison}", head("Content-Length: 2\r\n"))),
            "/chunks" => Reply::raw(format!("{}2\r\nok\r\n0\r\n\r\n{poison}", head("Transfer-Encoding: chunked\r\n"))),
            "/204" => Reply::raw(format!("HTTP/1.1 204 No Content\r\n\r\n{poison}")),
            "/204-length" => Reply::raw("HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison"),
            "/304" => Reply::raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison"),
            "/both" => Reply::raw(format!(
                "{}2\r\nok\r\n0\r\n\r\n{poison}",
                head("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n")
            )),
            _ => Reply::ok(),
        }
    });
    for path in ["/at-once", "/chunks", "/204", "/204-length", "/304", "/both"] {
        for method in ["GET", "HEAD"] {
            let mut client = gateway.connect();
            client.send(render(method, path, &[], b""));
            let _its_own_answer_is_judged_elsewhere = client.try_read(method);
            for _ in 0..3 {
                assert_eq!(gateway.get("/").text(), "ok", "after {method} {path}");
                if client.try_send(render("GET", "/", &[], b"")).is_ok()
                    && let Ok(Some(answer)) = client.try_read("GET")
                {
                    assert_eq!(answer.text(), "ok", "on the connection of {method} {path}");
                }
            }
        }
    }
}

/// An HTTP/2 server that ends each answer the way its path names.
fn failing_http2() -> (std::net::SocketAddr, tokio::runtime::Runtime) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    listener.set_nonblocking(true).expect("a socket takes it");
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("threads are to be had");
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("it is a listener");
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let path = request.uri().path().to_string();
                    if path == "/refused" {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                        continue;
                    }
                    if path == "/internal" {
                        respond.send_reset(h2::Reason::INTERNAL_ERROR);
                        continue;
                    }
                    let Ok(mut body) = respond.send_response(http::Response::new(()), false) else { continue };
                    let _the_peer_may_be_gone = body.send_data(bytes::Bytes::from_static(b"ok"), path == "/");
                    if path == "/reset" {
                        tokio::spawn(async move {
                            // The begin of the body is on its way by then, or not: the client must notice either way.
                            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                            body.send_reset(h2::Reason::INTERNAL_ERROR);
                        });
                    } else if path == "/goaway" {
                        connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR);
                    }
                }
            });
        }
    });
    (address, runtime)
}

#[test]
fn an_answer_that_an_upstream_of_http2_breaks_off_is_seen_to_be_broken_off() {
    let (address, _running) = failing_http2();
    let upstream = format!("[upstreams.h2]\nservers = [\"{address}\"]\nprotocol = \"h2\"\nretries = 0\n");
    let gateway = Setup::new(format!("{upstream}[[routes]]\nmatch = \"*\"\nupstream = \"h2\"\n")).start();
    for path in ["/refused", "/internal", "/reset", "/goaway"] {
        let mut client = gateway.connect();
        client.send(render("GET", path, &[], b""));
        match client.try_read("GET") {
            Ok(Some(answer)) => assert_eq!((answer.status, answer.error().as_str()), (502, "bad_gateway"), "{path}"),
            Ok(None) | Err(_) => assert!(matches!(path, "/reset" | "/goaway"), "{path}: no answer at all"),
        }
        let told = Http2::connect(gateway.files.data).ask("GET", path, &[]);
        assert!(
            told.is_err() || told.as_ref().is_ok_and(|answer| answer.status == 502),
            "{path} over HTTP/2: {told:?}"
        );
        assert_eq!(gateway.get("/").text(), "ok", "after {path}");
    }
    gateway.wait_idle();
}
