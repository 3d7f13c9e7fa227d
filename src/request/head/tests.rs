use super::*;

const MAX: usize = 8192;

/// What becomes of a head, read whole and byte by byte.
fn read(text: &str) -> Result<Option<Head>, Fault> {
    let bytes = text.as_bytes();
    let whole = HeadReader::default().read(bytes, MAX);
    let mut reader = HeadReader::default();
    for end in 1..=bytes.len() {
        match reader.read(&bytes[..end], MAX) {
            Ok(None) => {}
            found => {
                assert_eq!(found, whole, "{text:?}");
                return whole;
            }
        }
    }
    assert_eq!(whole, Ok(None), "{text:?}");
    whole
}

fn framing(lines: &str) -> Result<Framing, Fault> {
    read(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).map(|head| head.expect("it is complete").framing)
}

fn is_invalid(text: &str) -> bool {
    matches!(read(text), Err(Fault::Invalid(_)))
}

#[test]
fn a_head_is_found_with_what_follows_left_alone() {
    let head = read("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next").expect("valid").expect("complete");
    assert_eq!(head, Head { bytes: 0..27, framing: Framing::Length(0), authority: None });
    let head = read("\r\n\r\nGET / HTTP/1.0\r\n\r\n").expect("valid").expect("complete");
    assert_eq!(head.bytes, 4..22, "empty lines before it are skipped");
    assert_eq!(read("GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
}

#[test]
fn a_body_has_one_framing_or_the_request_is_refused() {
    assert_eq!(framing(""), Ok(Framing::Length(0)));
    assert_eq!(framing("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
    assert_eq!(framing("content-length:12 \r\n"), Ok(Framing::Length(12)));
    assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
    for lines in [
        "Content-Length: 12\r\nContent-Length: 12\r\n",
        "Content-Length: 12, 12\r\n",
        "Content-Length: +12\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: 1 2\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 9223372036854775808\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\nX: y\r\n",
        "X: y\r\n\tContent-Length: 5\r\n",
        "X: a\rContent-Length: 5\r\n",
        "X: a\0b\r\n",
        "X: a\u{7f}\r\n",
        "X\u{e9}: a\r\n",
        ": a\r\n",
        "no colon\r\n",
        "Host: b\r\n",
    ] {
        assert!(matches!(framing(lines), Err(Fault::Invalid(_))), "{lines:?}");
    }
    assert!(is_invalid("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"));
}

#[test]
fn a_request_line_has_three_parts_and_a_known_version() {
    for line in [
        "GET  / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /",
        "GET",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/2.0",
        "GET / HTTP/1.2",
        "GET / http/1.1",
        "GET / HTTP/1.1x",
        "G(T / HTTP/1.1",
        "GET /\u{1}",
        "GET /a\u{7f} HTTP/1.1",
        "CONNECT a:443 HTTP/1.1",
        "\u{16}\u{3}\u{1}",
    ] {
        assert!(is_invalid(&format!("{line}\r\nHost: a\r\n\r\n")), "{line:?}");
    }
    for line in ["QUERY / HTTP/1.1", "OPTIONS * HTTP/1.1", "GET /\u{e9} HTTP/1.1", "M-SEARCH / HTTP/1.0"] {
        assert!(read(&format!("{line}\r\nHost: a\r\n\r\n")).is_ok_and(|head| head.is_some()), "{line:?}");
    }
}

#[test]
fn a_line_feed_alone_ends_no_line() {
    for text in ["GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "\nGET / HTTP/1.1\r\n\r\n"] {
        assert!(is_invalid(text), "{text:?}");
    }
}

#[test]
fn a_head_over_the_cap_is_too_large_wherever_it_is() {
    let long = "a".repeat(MAX + 1);
    for text in [
        format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"),
        long,
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADER_LINES)),
    ] {
        assert_eq!(read(&text), Err(Fault::TooLarge), "{}", &text[..40]);
    }
    let most = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADER_LINES - 1));
    assert!(read(&most).is_ok_and(|head| head.is_some()));
    assert!(is_invalid(&"\r\n".repeat(MAX_EMPTY_LINES + 1)));
}

#[test]
fn the_authority_of_an_absolute_form_and_the_line_it_beats_are_told() {
    let text = "GET http://one.test:80/x?y HTTP/1.1\r\nA: b\r\nHost: two.test\r\n\r\n";
    let (authority, host) = read(text).expect("valid").expect("complete").authority.expect("it is absolute");
    assert_eq!((&text[authority], &text[host.expect("a line")]), ("one.test:80", "Host: two.test\r\n"));
    let text = "GET HTTP://one.test HTTP/1.0\r\n\r\n";
    let (authority, host) = read(text).expect("valid").expect("complete").authority.expect("it is absolute");
    assert_eq!((&text[authority], host), ("one.test", None));
}

#[test]
fn a_stand_in_keeps_the_method_and_how_to_answer_and_nothing_else() {
    let text = "POST /a b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nAccept: text/html\r\nOrigin: \u{e9}\r\nX-Request-Id: 7\r\n\r\nAccept: no";
    let expected =
        "POST / HTTP/1.1\r\nhost: invalid\r\nconnection: close\r\nAccept: text/html\r\nX-Request-Id: 7\r\n\r\n";
    assert_eq!(String::from_utf8(stand_in(text.as_bytes())).as_deref(), Ok(expected));
    for text in ["", "\u{16}\u{3}\u{1}\u{2}", "CONNECT a:1 HTTP/1.1\r\n\r\n", "get / HTTP/1.1\n\n"] {
        let head = stand_in(text.as_bytes());
        assert!(head.starts_with(b"GET / HTTP/1.1\r\n"), "{text:?}");
        assert_eq!(HeadReader::default().read(&head, MAX).map(|head| head.is_some()), Ok(true), "{text:?}");
    }
}
