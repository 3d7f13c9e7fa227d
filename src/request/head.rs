//! The head of an HTTP/1 request, checked byte by byte before anything else reads it.
//!
//! Two programs that read one head differently are how requests are smuggled: what is an end of a line, which length
//! counts, which host is meant. So there is one strict reading here (RFC 9112), whatever allows a second one is refused,
//! and the HTTP stack behind only ever sees heads that can be read in one way: lines end in CRLF, names are tokens with the
//! colon right behind, values hold no control characters and do not continue on the next line, there is at most one Host,
//! one Content-Length or one `Transfer-Encoding: chunked`, never both.
//!
//! Never done here: reading a socket, or judging what a request asks for.

use memchr::memchr;
use std::ops::Range;

/// The most header lines that a request may have.
pub const MAX_HEADER_LINES: usize = 100;

/// Empty lines before a request that are skipped, as left behind by old clients after a body (RFC 9112, section 2.2).
const MAX_EMPTY_LINES: usize = 4;

const BARE_LINE_FEED: &str = "A line of the request does not end in CR LF.";
const BAD_REQUEST_LINE: &str = "The request line is not valid.";
const BAD_VERSION: &str = "The HTTP version is not supported.";
const BAD_NAME: &str = "A header name is not valid.";
const BAD_VALUE: &str = "A header value holds a control character.";
const FOLDED: &str = "A header line begins with a blank.";
const BAD_TARGET: &str = "The request target is not a path or an http URL.";
const BAD_HOST: &str = "The host is not a valid one.";
const SEVERAL_HOSTS: &str = "The request has more than one Host header.";
const BAD_LENGTH: &str = "The Content-Length is not one number.";
const BAD_CODING: &str = "The Transfer-Encoding is not chunked alone.";
const TWO_FRAMINGS: &str = "The request has both Content-Length and Transfer-Encoding.";
const NO_TUNNEL: &str = "CONNECT is not supported.";

/// Where the body of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes; 0 without a body.
    Length(u64),
    /// After the last chunk.
    Chunked,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not valid; a text for the client.
    Invalid(&'static str),
    /// It is longer than allowed, or has more than [`MAX_HEADER_LINES`] lines.
    TooLarge,
}

/// A head that can be read in one way only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where it lies in the buffer, the blank line included.
    pub bytes: Range<usize>,
    pub framing: Framing,
    /// The authority of an absolute-form target, and the Host line that it beats (RFC 9112, section 3.2.2).
    pub authority: Option<(Range<usize>, Option<Range<usize>>)>,
}

/// Reads one head as it arrives.
#[derive(Debug, Default)]
pub struct HeadReader {
    /// Where the head begins.
    start: usize,
    /// Where the line begins that is not complete yet.
    line: usize,
    empty_lines: usize,
    facts: Facts,
}

#[derive(Debug, Default)]
struct Facts {
    is_http_1_0: bool,
    has_request_line: bool,
    lines: usize,
    host: Option<Range<usize>>,
    length: Option<u64>,
    is_chunked: bool,
    authority: Option<Range<usize>>,
}

impl HeadReader {
    /// Reads on in `buffer`, which holds all bytes since the reader was made. Absent while the head is not complete.
    ///
    /// A fault is final. `max_bytes` is for the head as a whole.
    pub fn read(&mut self, buffer: &[u8], max_bytes: usize) -> Result<Option<Head>, Fault> {
        while let Some(length) = memchr(b'\n', &buffer[self.line..]) {
            let end = self.line + length + 1;
            if end - self.start > max_bytes {
                return Err(Fault::TooLarge);
            }
            if length == 0 || buffer[end - 2] != b'\r' {
                return Err(Fault::Invalid(BARE_LINE_FEED));
            }
            let line = self.line..end - 2;
            self.line = end;
            if self.facts.has_request_line {
                if line.is_empty() {
                    return self.head(end).map(Some);
                }
                self.facts.header(buffer, line)?;
            } else if line.is_empty() {
                self.skip_empty_line(end)?;
            } else {
                self.facts.request_line(buffer, line)?;
            }
        }
        // Nobody waits for the end of what is no request: a TLS handshake, say.
        if buffer.get(self.start).is_some_and(|first| *first != b'\r' && !is_token(*first)) {
            return Err(Fault::Invalid(BAD_REQUEST_LINE));
        }
        if buffer.len() - self.start > max_bytes { Err(Fault::TooLarge) } else { Ok(None) }
    }

    fn skip_empty_line(&mut self, end: usize) -> Result<(), Fault> {
        self.start = end;
        self.empty_lines += 1;
        if self.empty_lines > MAX_EMPTY_LINES { Err(Fault::Invalid(BAD_REQUEST_LINE)) } else { Ok(()) }
    }

    fn head(&mut self, end: usize) -> Result<Head, Fault> {
        let facts = std::mem::take(&mut self.facts);
        let framing = match (facts.is_chunked, facts.length) {
            (true, Some(_)) => return Err(Fault::Invalid(TWO_FRAMINGS)),
            // What an HTTP/1.0 peer means by it is not defined (RFC 9112, section 6.1).
            (true, None) if facts.is_http_1_0 => return Err(Fault::Invalid(BAD_CODING)),
            (true, None) => Framing::Chunked,
            (false, length) => Framing::Length(length.unwrap_or(0)),
        };
        let authority = facts.authority.map(|authority| (authority, facts.host));
        Ok(Head { bytes: self.start..end, framing, authority })
    }
}

impl Facts {
    fn request_line(&mut self, buffer: &[u8], at: Range<usize>) -> Result<(), Fault> {
        let line = &buffer[at.clone()];
        let mut parts = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Fault::Invalid(BAD_REQUEST_LINE));
        };
        if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
            return Err(Fault::Invalid(BAD_REQUEST_LINE));
        }
        if target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(Fault::Invalid(BAD_REQUEST_LINE));
        }
        self.is_http_1_0 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ if version.starts_with(b"HTTP/") => return Err(Fault::Invalid(BAD_VERSION)),
            _ => return Err(Fault::Invalid(BAD_REQUEST_LINE)),
        };
        if method == b"CONNECT" {
            return Err(Fault::Invalid(NO_TUNNEL));
        }
        let authority = authority_of(target);
        if authority.is_none() && target[0] != b'/' && target != b"*" {
            return Err(Fault::Invalid(BAD_TARGET));
        }
        if let Some(authority) = authority {
            check_host(&target[authority.clone()])?;
            let start = at.start + method.len() + 1;
            self.authority = Some(start + authority.start..start + authority.end);
        }
        self.has_request_line = true;
        Ok(())
    }

    fn header(&mut self, buffer: &[u8], at: Range<usize>) -> Result<(), Fault> {
        let line = &buffer[at.clone()];
        if matches!(line[0], b' ' | b'\t') {
            return Err(Fault::Invalid(FOLDED));
        }
        let colon = memchr(b':', line).ok_or(Fault::Invalid(BAD_NAME))?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(Fault::Invalid(BAD_NAME));
        }
        if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
            return Err(Fault::Invalid(BAD_VALUE));
        }
        self.lines += 1;
        if self.lines > MAX_HEADER_LINES {
            return Err(Fault::TooLarge);
        }
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => check_host(value.trim_ascii()).and_then(|()| self.host(at)),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            _ => Ok(()),
        }
    }

    fn host(&mut self, at: Range<usize>) -> Result<(), Fault> {
        // The line with its end, so that it can be cut out whole.
        match self.host.replace(at.start..at.end + 2) {
            Some(_) => Err(Fault::Invalid(SEVERAL_HOSTS)),
            None => Ok(()),
        }
    }

    /// One number, once: a repeated one is what a smuggler hides the second in.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        let digits = value.trim_ascii();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
        let length = text.and_then(|text| text.parse().ok()).filter(|length| i64::try_from(*length).is_ok());
        match (self.length, length) {
            (None, Some(length)) => {
                self.length = Some(length);
                Ok(())
            }
            _ => Err(Fault::Invalid(BAD_LENGTH)),
        }
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(Fault::Invalid(BAD_CODING));
        }
        self.is_chunked = true;
        Ok(())
    }
}

/// What no host is made of; whether it is one is seen later. A user before the host is refused here (RFC 9110, section 4.2.4).
fn check_host(host: &[u8]) -> Result<(), Fault> {
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(byte);
    if host.iter().all(is_valid) { Ok(()) } else { Err(Fault::Invalid(BAD_HOST)) }
}

/// Where the authority of an absolute-form target lies in it.
fn authority_of(target: &[u8]) -> Option<Range<usize>> {
    let start = [&b"http://"[..], b"https://"]
        .iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))?
        .len();
    let length = target[start..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    Some(start..length.map_or(target.len(), |length| start + length))
}

/// RFC 9110, section 5.6.2.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// The head that stands for one that was refused: its method, where that is one, and the lines that say how to answer
/// and whom to charge. It asks for nothing and ends the connection.
pub fn stand_in(buffer: &[u8]) -> Vec<u8> {
    /// Lines that an answer depends on: what the client accepts, where it is, what it calls the request.
    const KEPT: [&[u8]; 8] = [
        b"accept",
        b"origin",
        b"x-request-id",
        b"x-forwarded-for",
        b"forwarded",
        b"x-real-ip",
        b"cf-connecting-ip",
        b"true-client-ip",
    ];
    let mut lines = buffer.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let method = first.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_method =
        (1..=16).contains(&method.len()) && method.iter().all(u8::is_ascii_uppercase) && method != b"CONNECT";
    let mut head = if is_method { method.to_vec() } else { b"GET".to_vec() };
    head.extend_from_slice(b" / HTTP/1.1\r\nhost: invalid\r\nconnection: close\r\n");
    for line in lines.take_while(|line| !line.is_empty()).take(MAX_HEADER_LINES) {
        let Some(colon) = memchr(b':', line) else { continue };
        let is_kept = KEPT.iter().any(|kept| line[..colon].eq_ignore_ascii_case(kept));
        if is_kept && line[colon..].iter().all(|byte| (b' '..0x7f).contains(byte)) {
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests;
