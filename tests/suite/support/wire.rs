//! HTTP/1.1 as bytes: heads and bodies read exactly, nothing normalised, nothing merged.

use std::io::{self, BufRead, Read};

/// Header lines as they stood, in order, duplicates kept.
pub type Headers = Vec<(String, String)>;

/// More than any head in this suite; a stub that gets more is being abused.
const MAX_HEAD_BYTES: usize = 1 << 20;

/// Reads up to and including the empty line; `None` when the peer closed before the first byte.
pub fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let line_start = head.len();
        let read = reader.by_ref().take(MAX_HEAD_BYTES as u64).read_until(b'\n', &mut head)?;
        if read == 0 {
            return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = &head[line_start..];
        if line == b"\r\n" || line == b"\n" {
            return Ok(Some(head));
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(io::Error::other("head too large"));
        }
    }
}

/// First line and header lines.
pub fn parse_head(head: &[u8]) -> (String, Headers) {
    let text: String = head.iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_string();
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_string(), value.trim().to_string())
        })
        .collect();
    (first, headers)
}

/// The first value of that name, whatever its case.
pub fn find<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// All values of that name.
pub fn find_all<'a>(headers: &'a Headers, name: &str) -> Vec<&'a str> {
    headers.iter().filter(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// The framing that the headers declare; chunked beats a length.
pub fn framing(headers: &Headers, without: Framing) -> Framing {
    if find(headers, "transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked")) {
        return Framing::Chunked;
    }
    find(headers, "content-length").and_then(|value| value.parse().ok()).map_or(without, Framing::Length)
}

/// Reads one body, chunk framing removed.
pub fn read_body(reader: &mut impl BufRead, framing: Framing) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => {
            body.resize(length, 0);
            reader.read_exact(&mut body)?;
        }
        Framing::Chunked => while read_chunk(reader, &mut body)? {},
        Framing::UntilClose => {
            reader.read_to_end(&mut body)?;
        }
    }
    Ok(body)
}

/// Reads one chunk; false after the last one and its trailers.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let digits = line.trim().split(';').next().unwrap_or_default();
    let size = usize::from_str_radix(digits, 16).map_err(|_| io::Error::other(format!("bad chunk size {line:?}")))?;
    if size == 0 {
        while read_line_is_not_empty(reader)? {}
        return Ok(false);
    }
    let start = body.len();
    body.resize(start + size, 0);
    reader.read_exact(&mut body[start..])?;
    reader.read_line(&mut line)?;
    Ok(true)
}

fn read_line_is_not_empty(reader: &mut impl BufRead) -> io::Result<bool> {
    let mut line = String::new();
    Ok(reader.read_line(&mut line)? > 0 && !line.trim().is_empty())
}
