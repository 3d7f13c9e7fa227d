//! A raw HTTP/1.1 client: one socket, bytes out, exactly one response back.

use super::PATIENCE;
use super::wire::{self, Framing, Headers};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// The headers of a WebSocket handshake.
pub const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
}

/// One final response, header lines in order and with their duplicates.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
    /// Statuses of the interim responses that came before it.
    pub interim: Vec<u16>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("connecting to {address}: {error}"));
        stream.set_nodelay(true).expect("a fresh socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        Self { reader: BufReader::new(stream), address }
    }

    pub fn set_read_timeout(&self, timeout: Duration) {
        self.reader.get_ref().set_read_timeout(Some(timeout)).expect("the timeout is not zero");
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("sending to {}: {error}", self.address));
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes.as_ref())
    }

    /// The socket again, to write by while this one reads.
    pub fn second_handle(&self) -> TcpStream {
        self.reader.get_ref().try_clone().expect("a descriptor is free")
    }

    /// Reads one final response to a request of that method.
    #[track_caller]
    pub fn read(&mut self, method: &str) -> Response {
        match self.try_read(method) {
            Ok(Some(response)) => response,
            Ok(None) => panic!("{} closed the connection instead of answering", self.address),
            Err(error) => panic!("reading from {}: {error}", self.address),
        }
    }

    /// As `read`; `None` when the peer closed before the first byte.
    pub fn try_read(&mut self, method: &str) -> io::Result<Option<Response>> {
        let mut interim = Vec::new();
        loop {
            let Some(head) = wire::read_head(&mut self.reader)? else { return Ok(None) };
            let (first, headers) = wire::parse_head(&head);
            let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
            let status: u16 = status.ok_or_else(|| io::Error::other(format!("bad status line {first:?}")))?;
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            let bodiless = method == "HEAD" || matches!(status, 101 | 204 | 304);
            let framing = if bodiless { Framing::Length(0) } else { wire::framing(&headers, Framing::UntilClose) };
            let body = wire::read_body(&mut self.reader, framing)?;
            return Ok(Some(Response { status, headers, body, interim }));
        }
    }

    /// Sends a request and reads its response; adds Host and, for a body, Content-Length unless they are given.
    #[track_caller]
    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.send(render(method, target, headers, body));
        self.read(method)
    }

    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, &[], b"")
    }

    /// Exactly that many raw bytes, for a tunnel.
    pub fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        self.try_read_exactly(length).unwrap_or_else(|error| panic!("reading {length} bytes: {error}"))
    }

    pub fn try_read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// All bytes until the peer closes; a reset ends it too.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ends_in_any_way = self.reader.read_to_end(&mut bytes);
        bytes
    }

    /// Whether the peer closes (or has closed) this connection within the time, sending nothing more.
    pub fn is_closed_within(&mut self, time: Duration) -> bool {
        self.set_read_timeout(time);
        let mut byte = [0];
        let closed = match self.reader.read(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        };
        self.set_read_timeout(PATIENCE);
        closed
    }

    /// Whether a byte of an answer is there already.
    pub fn has_answer(&self) -> bool {
        let stream = self.reader.get_ref();
        stream.set_nonblocking(true).expect("a socket takes the mode");
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("a socket takes the mode");
        !self.reader.buffer().is_empty() || peeked.is_ok()
    }

    pub fn shutdown_write(&self) {
        self.reader.get_ref().shutdown(Shutdown::Write).expect("the socket is open");
    }

    /// Ends the connection by a reset.
    pub fn reset(self) {
        reset(self.reader.into_inner());
    }
}

/// Closes a socket so that the peer sees a reset.
pub fn reset(stream: TcpStream) {
    let lingering = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    lingering.expect("a connected socket takes the linger option");
}

/// A request as bytes.
pub fn render(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let given = |name: &str| headers.iter().any(|(each, _)| each.eq_ignore_ascii_case(name));
    let mut out = format!("{method} {target} HTTP/1.1\r\n");
    if !given("host") {
        out.push_str("Host: gateway.test\r\n");
    }
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() && !given("content-length") && !given("transfer-encoding") {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    let mut bytes = out.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A body as one request's chunks.
pub fn chunked(chunks: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

impl Response {
    /// The first value of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::find(&self.headers, name)
    }

    /// The value of a header that must be there exactly once.
    #[track_caller]
    pub fn one(&self, name: &str) -> &str {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name} must stand once in {self:?}");
        all[0]
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        wire::find_all(&self.headers, name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.header(name).is_some()
    }

    /// The number in a header that must be there exactly once and be a whole number.
    #[track_caller]
    pub fn number(&self, name: &str) -> i64 {
        let value = self.one(name);
        assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "{name}: {value} is not a whole number");
        value.parse().unwrap_or_else(|error| panic!("{name}: {value}: {error}"))
    }

    #[track_caller]
    pub fn limit(&self) -> i64 {
        self.number("ratelimit-limit")
    }

    #[track_caller]
    pub fn remaining(&self) -> i64 {
        self.number("ratelimit-remaining")
    }

    #[track_caller]
    pub fn retry_after(&self) -> i64 {
        self.number("retry-after")
    }

    /// The time a client is told to wait: the precise header where it stands, else whole seconds.
    #[track_caller]
    pub fn advised_wait(&self) -> Duration {
        let seconds = Duration::from_secs(self.retry_after().unsigned_abs());
        match self.header("retry-after-ms") {
            Some(_) => Duration::from_millis(self.number("retry-after-ms").unsigned_abs()),
            None => seconds,
        }
    }

    /// Seconds from the response's `Date` to the reset it names as an epoch.
    #[track_caller]
    pub fn reset_in(&self) -> i64 {
        let date = httpdate::parse_http_date(self.one("date")).expect("Date is an HTTP date");
        let date = date.duration_since(std::time::UNIX_EPOCH).expect("Date is after 1970").as_secs();
        self.number("ratelimit-reset") - i64::try_from(date).expect("seconds since 1970 fit")
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// As `json`; null when the body is none.
    pub fn json_or_null(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The `error` word of a response that the gateway made.
    #[track_caller]
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no error word in {:?}", self.text())).to_string()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
