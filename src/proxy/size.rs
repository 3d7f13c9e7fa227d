//! How large a request may be, whichever protocol it came by.
//!
//! Over HTTP/1.1 the head was measured as it arrived; over HTTP/2 this is the first look at it.

use super::early::declared_length;
use crate::config::model::Server;
use crate::limiter::rejection::Rejection;
use crate::request::head::MAX_HEADER_LINES;
use pingora::http::RequestHeader;

/// Whether the request is larger than allowed, as far as its header tells.
pub fn over_size(header: &RequestHeader, server: &Server) -> Option<Rejection> {
    if header_bytes(header) > server.max_header_bytes || header.headers.len() > MAX_HEADER_LINES {
        Some(Rejection::HeadersTooLarge)
    } else if exceeds(server.max_body_bytes, declared_length(&header.headers)) {
        Some(Rejection::PayloadTooLarge)
    } else {
        None
    }
}

/// Whether there is a cap and it is below the length.
pub fn exceeds(cap: u64, length: Option<u64>) -> bool {
    cap > 0 && length.is_some_and(|length| length > cap)
}

/// Names, values and separators of all header lines, and the target.
fn header_bytes(header: &RequestHeader) -> u64 {
    let lines = header.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    (lines.sum::<usize>() + header.raw_path().len()) as u64
}
