//! A raw path to the one form that is forwarded and the one form that is matched.
//!
//! The bug this page exists against is matching one path and forwarding another. So the path is normalised once
//! (RFC 3986 section 6.2.2), the result is what goes upstream, and matching sees that result with a few more
//! differences taken away that backends do not see either:
//!
//! ```text
//! raw        /api//x/../%75sers/a%40b;v=1/
//! forwarded  /api/users/a%40b;v=1/          escapes of unreserved characters decoded, slashes merged, dots gone
//! matched    /api/users/a@b                 no `;…`, no trailing slash, visible characters as themselves
//! ```
//!
//! Where backends disagree about a spelling, it is refused: a backslash, an escape under an escape, a `..;x` that one
//! server reads as a name and another as the parent directory.
//!
//! Both forms are ASCII and stable: normalising a forwarded path changes nothing. Nothing is decoded twice. A path
//! that is clean already is borrowed. The length is bounded by the server's cap on headers.

use crate::config::model::{EncodedSlash, Paths};
use std::borrow::Cow;

const NOT_A_PATH: &str = "The path does not begin with a slash, or holds a query.";
const BAD_CHARACTER: &str = "The path holds a control character, a space or a character outside ASCII.";
const BAD_ESCAPE: &str = "The path holds a % that is not followed by two hex digits.";
const BACKSLASH: &str = "The path holds a backslash.";
const ENCODED_CONTROL: &str = "The path holds an encoded control character.";
const ENCODED_SLASH: &str = "The path holds an encoded slash.";
const DOUBLE_ESCAPE: &str = "The path is encoded twice.";
const DISGUISED_DOTS: &str = "The path holds a dot segment beside parameters or an encoded slash.";

/// The two forms of one path. Made by [`normalise`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    forward: Cow<'a, str>,
    matching: Matching,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matching {
    /// So many bytes of the forwarded form.
    Prefix(usize),
    Own(String),
}

impl NormalPath<'_> {
    /// What goes upstream: keeps its trailing slash and the `;…` of its segments.
    pub fn forward(&self) -> &str {
        &self.forward
    }

    /// What routes and key scopes see: `/`, or segments without a trailing slash and without their `;…`.
    pub fn matching(&self) -> &str {
        match &self.matching {
            Matching::Prefix(length) => &self.forward[..*length],
            Matching::Own(text) => text,
        }
    }

    /// The same, no longer bound to the bytes of the request.
    pub fn into_owned(self) -> NormalPath<'static> {
        NormalPath { forward: Cow::Owned(self.forward.into_owned()), matching: self.matching }
    }

    /// Whether the forwarded form differs from what the client sent.
    pub fn is_rewritten(&self, raw: &[u8]) -> bool {
        self.forward.as_bytes() != raw
    }
}

/// Normalises a path, without its query. `*` (the target of `OPTIONS *`) is itself. The error is a text for the
/// client, to be answered with 400.
pub fn normalise(raw: &[u8], rules: Paths) -> Result<NormalPath<'_>, &'static str> {
    if raw == b"*" {
        return Ok(NormalPath { forward: Cow::Borrowed("*"), matching: Matching::Prefix(1) });
    }
    if raw.first() != Some(&b'/') {
        return Err(NOT_A_PATH);
    }
    let text = match std::str::from_utf8(raw) {
        Ok(text) if is_clean(raw) => {
            let length = text.trim_end_matches('/').len().max(1);
            return Ok(NormalPath { forward: Cow::Borrowed(text), matching: Matching::Prefix(length) });
        }
        Ok(text) => text,
        Err(_) => return Err(BAD_CHARACTER),
    };
    let decoded = decode_unreserved(raw, rules.encoded_slash)?;
    let forward = resolve_segments(&decoded, rules.merge_slashes)?;
    let forward = if forward == text { Cow::Borrowed(text) } else { Cow::Owned(forward) };
    let matching = matching_form(&forward, rules.merge_slashes);
    Ok(NormalPath { forward, matching })
}

/// Whether nothing needs to be done: no escape, no parameter, no empty segment and none that begins with a dot.
fn is_clean(raw: &[u8]) -> bool {
    let mut previous = 0;
    for byte in raw {
        let is_plain = match byte {
            b'%' | b';' | b'?' | b'#' | b'\\' => false,
            b'/' | b'.' => previous != b'/',
            _ => byte.is_ascii_graphic(),
        };
        if !is_plain {
            return false;
        }
        previous = *byte;
    }
    true
}

/// Decodes escapes of unreserved characters (RFC 3986 section 2.3) and writes the others in upper case.
fn decode_unreserved(raw: &[u8], encoded_slash: EncodedSlash) -> Result<String, &'static str> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => return Err(BACKSLASH),
            b'%' => {
                let (value, after) = escape(after).ok_or(BAD_ESCAPE)?;
                rest = after;
                match value {
                    0x00..=0x1f | 0x7f => return Err(ENCODED_CONTROL),
                    b'\\' => return Err(BACKSLASH),
                    b'/' if encoded_slash == EncodedSlash::Reject => return Err(ENCODED_SLASH),
                    _ if is_unreserved(value) => out.push(char::from(value)),
                    _ => push_escape(&mut out, value),
                }
            }
            b'?' | b'#' => return Err(NOT_A_PATH),
            _ if byte.is_ascii_graphic() => out.push(char::from(byte)),
            _ => return Err(BAD_CHARACTER),
        }
    }
    // Looked for in the result: `%25%34%31` becomes `%2541`, which is no better than sent so.
    let is_double = |(at, _): (usize, &str)| out[at + 3..].bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if out.match_indices("%25").any(is_double) { Err(DOUBLE_ESCAPE) } else { Ok(out) }
}

/// Merges slashes and removes dot segments (RFC 3986 section 5.2.4). A `..` at the root stays there.
fn resolve_segments(path: &str, merge_slashes: bool) -> Result<String, &'static str> {
    let mut out = String::with_capacity(path.len());
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => out.truncate(out.rfind('/').unwrap_or(0)),
            "" if merge_slashes || is_last => {}
            _ if has_disguised_dots(segment) => return Err(DISGUISED_DOTS),
            _ => {
                out.push('/');
                out.push_str(segment);
                continue;
            }
        }
        if is_last {
            out.push('/');
        }
    }
    Ok(out)
}

/// Whether a server that takes parameters away, or that decodes a kept `%2F` or `%3B`, would find a dot segment in
/// this one.
fn has_disguised_dots(segment: &str) -> bool {
    segment.split("%2F").any(|part| {
        let plain = part.split(';').next().unwrap_or(part);
        matches!(plain.split("%3B").next(), Some("." | ".."))
    })
}

/// The form that is matched, of a forwarded path.
fn matching_form(forward: &str, merge_slashes: bool) -> Matching {
    if !forward.contains([';', '%']) {
        return Matching::Prefix(forward.trim_end_matches('/').len().max(1));
    }
    let mut out = String::with_capacity(forward.len());
    for segment in forward.split('/').skip(1) {
        let segment = segment.split(';').next().unwrap_or(segment);
        // A segment of parameters alone is an empty one to a server that takes them away, and is merged as such.
        if segment.is_empty() && merge_slashes {
            continue;
        }
        out.push('/');
        push_visible(&mut out, segment);
    }
    out.truncate(out.trim_end_matches('/').len());
    if out.is_empty() {
        out.push('/');
    }
    Matching::Own(out)
}

/// A configured text (a literal segment of a route, the path of a key's scope) as matching sees it, so that `café`,
/// `caf%C3%A9`, `@me` and `%40me` in a configuration mean what they mean in a request. Slashes stay.
pub fn canonical_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, segment) in text.split('/').enumerate() {
        if index > 0 {
            out.push('/');
        }
        push_visible(&mut out, segment.split(';').next().unwrap_or(segment));
    }
    out
}

/// Writes a segment with every visible character as itself, except those that would change its meaning, and all
/// others as escapes.
fn push_visible(out: &mut String, segment: &str) {
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (value, after) = if byte == b'%' { escape(after).unwrap_or((byte, after)) } else { (byte, after) };
        rest = after;
        let is_visible = value.is_ascii_graphic() && !matches!(value, b'%' | b'/' | b';' | b'?' | b'#' | b'\\');
        if is_visible {
            out.push(char::from(value));
        } else {
            push_escape(out, value);
        }
    }
}

/// The byte of an escape whose `%` was read, and what follows.
pub(super) fn escape(after_percent: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = after_percent.split_at_checked(2)?;
    let high = char::from(digits[0]).to_digit(16)?;
    let low = char::from(digits[1]).to_digit(16)?;
    Some((u8::try_from(high * 16 + low).ok()?, rest))
}

fn push_escape(out: &mut String, value: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(HEX[usize::from(value >> 4)]));
    out.push(char::from(HEX[usize::from(value & 15)]));
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests;
