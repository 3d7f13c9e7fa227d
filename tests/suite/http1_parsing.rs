//! What becomes of requests as bytes: a table, so that a new version of the HTTP stack that reads one differently is seen.

use crate::support::*;
use std::fmt::Write as _;
use std::time::Duration;

/// How long to wait for one answer more than there should be.
const SILENCE: Duration = Duration::from_millis(400);

/// A name, the bytes with `@` for a path of the row's own, the statuses that come back, and how many requests reach the upstream.
type Row = (&'static str, &'static str, &'static [u16], usize);

/// Every row is sent on a connection of its own.
const ROWS: &[Row] = &[
    ("plain", "GET @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("empty lines first", "\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("http/1.0", "GET @ HTTP/1.0\r\n\r\n", &[200], 1),
    ("http/1.0 keep-alive", "GET @ HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", &[200], 1),
    ("two pipelined", "GET @ HTTP/1.1\r\nHost: a\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200, 200], 2),
    (
        "body and pipelined",
        "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET @ HTTP/1.1\r\nHost: a\r\n\r\n",
        &[200, 200],
        2,
    ),
    (
        "chunks and pipelined",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n",
        &[200, 200],
        2,
    ),
    (
        "chunks with trailers",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n",
        &[200, 200],
        2,
    ),
    ("close", "GET @ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("head", "HEAD @ HTTP/1.1\r\nHost: a\r\n\r\nGET @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200, 200], 2),
    ("unknown method", "QUERY @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("method of odd letters", "M-SEARCH!# @ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("options of all", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("get of all", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("target without a slash", "GET index.html HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("absolute form", "GET http://a@ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("absolute form, another host", "GET http://b@ HTTP/1.1\r\nHost: a\r\n\r\n", &[200], 1),
    ("absolute form, other scheme", "GET ftp://a@ HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("absolute form, user", "GET http://u@a@ HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("100 header lines", "GET @ HTTP/1.1\r\nHost: a\r\n$99\r\n", &[200], 1),
    ("101 header lines", "GET @ HTTP/1.1\r\nHost: a\r\n$100\r\n", &[431], 0),
    ("header of 40 kB", "GET @ HTTP/1.1\r\nHost: a\r\nX: %40000\r\n\r\n", &[431], 0),
    ("target of 40 kB", "GET @%40000 HTTP/1.1\r\nHost: a\r\n\r\n", &[431], 0),
    ("header without end", "GET @ HTTP/1.1\r\nHost: a\r\nX: %70000", &[431], 0),
    ("continues", "POST @ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok", &[200], 1),
    ("http/0.9", "GET @\r\n\r\n", &[400], 0),
    ("http/1.2", "GET @ HTTP/1.2\r\nHost: a\r\n\r\n", &[400], 0),
    ("http/2.0 in words", "GET @ HTTP/2.0\r\nHost: a\r\n\r\n", &[400], 0),
    ("lower-case version", "GET @ http/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("space in the target", "GET @ b HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("two spaces", "GET  @ HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("tab for a space", "GET\t@ HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("trailing space", "GET @ HTTP/1.1 \r\nHost: a\r\n\r\n", &[400], 0),
    ("nul in the target", "GET @\0 HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("control in the target", "GET @\x01 HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("raw letter in the target", "GET @\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("connect", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", &[400], 0),
    ("bare line feeds", "GET @ HTTP/1.1\nHost: a\n\n", &[400], 0),
    ("one bare line feed", "GET @ HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", &[400], 0),
    ("bare carriage return", "GET @ HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", &[400], 0),
    ("no host", "GET @ HTTP/1.1\r\n\r\n", &[400], 0),
    ("two hosts", "GET @ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &[400], 0),
    ("two equal hosts", "GET @ HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", &[400], 0),
    ("host with a path", "GET @ HTTP/1.1\r\nHost: a/b\r\n\r\n", &[400], 0),
    ("host with a user", "GET @ HTTP/1.1\r\nHost: u@a\r\n\r\n", &[400], 0),
    ("empty host", "GET @ HTTP/1.1\r\nHost:\r\n\r\n", &[400], 0),
    ("space before the colon", "GET @ HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello", &[400], 0),
    ("folded line", "GET @ HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", &[400], 0),
    ("line without a colon", "GET @ HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n", &[400], 0),
    ("empty name", "GET @ HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", &[400], 0),
    ("nul in a value", "GET @ HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", &[400], 0),
    ("control in a value", "GET @ HTTP/1.1\r\nHost: a\r\nX: a\x1bb\r\n\r\n", &[400], 0),
    ("two lengths", "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", &[400], 0),
    (
        "one length twice",
        "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        &[400],
        0,
    ),
    ("list of lengths", "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", &[400], 0),
    ("signed length", "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", &[400], 0),
    ("negative length", "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello", &[400], 0),
    ("hexadecimal length", "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", &[400], 0),
    (
        "length past all numbers",
        "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        &[400],
        0,
    ),
    (
        "length and chunks",
        "POST @ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    (
        "chunks and length",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    ("two codings", "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", &[400], 0),
    (
        "coding twice",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    ("unknown coding", "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", &[400], 0),
    ("coding in http/1.0", "POST @ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[400], 0),
    ("obscured coding", "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", &[400], 0),
    (
        "size with a bare line feed",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    (
        "size that is none",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    (
        "size with a sign",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    (
        "size past all numbers",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        &[400],
        0,
    ),
    (
        "chunk longer than its size",
        "POST @ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
        &[400],
        0,
    ),
    ("tls", "\x16\x03\x01\x02\0\x01", &[400], 0),
    ("ssh", "SSH-2.0-OpenSSH_9.2\r\n", &[400], 0),
];

/// `@`, `$N` (so many lines) and `%N` (so many letters) filled in.
fn bytes_of(row: &Row, path: &str) -> Vec<u8> {
    let mut text = String::new();
    let mut rest = row.1;
    while let Some(at) = rest.find(['@', '$', '%']) {
        text.push_str(&rest[..at]);
        let (sign, after) = (&rest[at..=at], &rest[at + 1..]);
        let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let number: usize = after[..digits].parse().unwrap_or(0);
        match sign {
            "@" if after.starts_with('a') => text.push('@'),
            "@" => text.push_str(path),
            "$" => (0..number).for_each(|line| writeln!(text, "X-{line}: y\r").unwrap()),
            _ => text.push_str(&"a".repeat(number)),
        }
        rest = &after[if sign == "@" { 0 } else { digits }..];
    }
    text.push_str(rest);
    text.into_bytes()
}

fn statuses(gateway: &Gateway, row: &Row, path: &str) -> Vec<u16> {
    let mut client = gateway.connect();
    let _it_may_be_refused_half_way = client.try_send(bytes_of(row, path));
    let is_head = row.1.starts_with("HEAD");
    let mut statuses = Vec::new();
    loop {
        let method = if is_head && statuses.is_empty() { "HEAD" } else { "GET" };
        if statuses.len() >= row.2.len() {
            client.set_read_timeout(SILENCE);
        }
        match client.try_read(method) {
            Ok(Some(answer)) => {
                // An answer of another make has no request id.
                let is_ours = answer.header("x-request-id").is_some();
                statuses.push(if is_ours { answer.status } else { 0 });
            }
            Ok(None) | Err(_) => return statuses,
        }
    }
}

#[test]
fn every_request_is_read_in_one_way_or_refused() {
    let gateway = Setup::default().before(upstream::Upstream::ok());
    let found = burst(ROWS.len(), 8, |index| statuses(&gateway, &ROWS[index], &format!("/row{index}")));
    let requests = gateway.upstream.requests();
    let mut wrong = Vec::new();
    for (index, row) in ROWS.iter().enumerate() {
        let path = format!("/row{index}");
        let own = if row.1.contains('@') { path.as_str() } else { "*" };
        let reached = requests.iter().filter(|request| request.target == own).count();
        let counts = row.1.contains('@') || row.3 > 0;
        if found[index] != row.2 || (counts && reached != row.3) {
            wrong.push(format!("{}: {:?} with {reached} at the upstream", row.0, found[index]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
    assert_eq!(requests.len(), ROWS.iter().map(|row| row.3).sum::<usize>(), "nothing else got through");
    gateway.wait_idle();
}

#[test]
fn a_refused_head_draws_on_the_layer_ip_and_is_logged_without_what_was_sent() {
    let gateway = Setup::ip_limited(&[r#"rate = "2/h""#]).start();
    let refused = |gateway: &Gateway| {
        let mut client = gateway.connect();
        client.send("GET /secret path HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nAccept: application/json\r\n\r\n");
        client.read("GET")
    };
    let answers = [refused(&gateway), refused(&gateway), refused(&gateway)];
    assert_eq!(answers.clone().map(|answer| answer.status), [400, 400, 429]);
    assert_eq!(answers[0].header("x-request-id"), Some("mine"));
    assert_eq!(answers[0].header("connection").map(str::to_lowercase).as_deref(), Some("close"));
    gateway.wait_idle();
    assert_eq!(gateway.metric("sluicegate_http_requests_total", &[("status", "400")]), 2.0);
}
