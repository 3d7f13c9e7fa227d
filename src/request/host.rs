//! The request target and `Host`: one canonical host, a raw path, a raw query.
//!
//! Host, path and query come out of one parser because an absolute-form target holds all three, and its authority
//! beats `Host` (RFC 9112 section 3.2.2). The canonical host is what routes, limits and counters see: lower case,
//! without port and without the trailing dot, so that no spelling has a counter of its own. Whatever a host name
//! cannot hold is refused and not repaired, because a backend may repair it in another way.
//!
//! Never done here: name resolution, or a guess at a host that was not named.

use http::header::HOST;
use http::{HeaderMap, Version};
use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Longest host, brackets and port included: RFC 1035 allows names of 253, and a port takes six more.
pub const MAX_HOST_BYTES: usize = 260;

const SEVERAL_HOSTS: &str = "The request has more than one Host header.";
const NO_HOST: &str = "The request names no host.";
const BAD_HOST: &str = "The host is not a valid one.";
const HOSTS_DIFFER: &str = "The Host header and the :authority of the request differ.";
const BAD_TARGET: &str = "The request target is not a path or an http URL.";
const BAD_QUERY: &str = "The query holds a control character or a space.";

/// What a request asks for, cut up but not yet normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Canonical: lower case, no port, no trailing dot, an IPv6 address in brackets and in its shortest form. Empty
    /// when an HTTP/1.0 request names none.
    pub host: Cow<'a, str>,
    /// The authority that decided, as sent, port included: what goes upstream as `Host`.
    pub authority: &'a str,
    /// The raw path, beginning with `/`; `*` for `OPTIONS *`.
    pub path: &'a [u8],
    /// The raw query without its `?`.
    pub query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Reads a request's target.
    ///
    /// `raw_target` is the request line's on HTTP/1 and `:path` on HTTP/2, and `authority` is HTTP/2's `:authority`
    /// (or that of an absolute-form target which was already cut off). A fragment, which has no place in a request,
    /// is dropped as nginx does. The error is a text for the client, to be answered with 400.
    pub fn parse(
        method: &str,
        version: Version,
        raw_target: &'a [u8],
        authority: Option<&'a [u8]>,
        headers: &'a HeaderMap,
    ) -> Result<Self, &'static str> {
        let header = host_header(version, headers)?;
        let target = raw_target.split(|byte| *byte == b'#').next().unwrap_or(raw_target);
        let absolute = absolute_form(target)?;
        let is_absolute = absolute.is_some();
        let (authority, target) = match absolute {
            // HTTP/2's `:path` is never absolute; one that is would make two authorities.
            Some(_) if authority.is_some() => return Err(BAD_TARGET),
            Some(absolute) => (Some(absolute.authority), absolute.rest),
            None => (authority, target),
        };
        let (path, query) = match target.iter().position(|byte| *byte == b'?') {
            Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
            None => (target, None),
        };
        if query.is_some_and(|query| query.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)) {
            return Err(BAD_QUERY);
        }
        let path = match path {
            b"" if is_absolute => b"/",
            b"*" if method == "OPTIONS" && query.is_none() => path,
            [b'/', ..] => path,
            _ => return Err(BAD_TARGET),
        };
        let named = decide_host(version, authority, header)?;
        Ok(Self { host: named.canonical, authority: named.sent, path, query })
    }
}

/// A target such as `http://authority/path?query`, taken apart.
struct Absolute<'a> {
    authority: &'a [u8],
    /// Path and query; may be empty.
    rest: &'a [u8],
}

/// A host in both of its forms.
struct Named<'a> {
    canonical: Cow<'a, str>,
    sent: &'a str,
}

impl<'a> Named<'a> {
    fn parse(raw: &'a [u8]) -> Result<Self, &'static str> {
        let sent = std::str::from_utf8(raw).map_err(|_| BAD_HOST)?;
        Ok(Self { canonical: canonical(sent).ok_or(BAD_HOST)?, sent })
    }
}

/// The value of the one `Host` header. Several are refused even when they are equal (RFC 9112 section 3.2).
fn host_header(version: Version, headers: &HeaderMap) -> Result<Option<&[u8]>, &'static str> {
    let mut lines = headers.get_all(HOST).iter();
    let first = lines.next();
    if lines.next().is_some() {
        return Err(SEVERAL_HOSTS);
    }
    if first.is_none() && version == Version::HTTP_11 {
        return Err(NO_HOST);
    }
    Ok(first.map(|line| line.as_bytes().trim_ascii()))
}

/// A target of absolute form; none for one of another form.
fn absolute_form(target: &[u8]) -> Result<Option<Absolute<'_>>, &'static str> {
    if matches!(target, [] | [b'/' | b'*', ..]) {
        return Ok(None);
    }
    let after_scheme = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    });
    let rest = after_scheme.ok_or(BAD_TARGET)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    Ok(Some(Absolute { authority, rest }))
}

/// The host that counts. A `Host` that loses still has to be a valid one.
fn decide_host<'a>(
    version: Version,
    authority: Option<&'a [u8]>,
    header: Option<&'a [u8]>,
) -> Result<Named<'a>, &'static str> {
    let authority = authority.map(Named::parse).transpose()?;
    let header = header.map(Named::parse).transpose()?;
    match (authority, header) {
        // RFC 9113 section 8.3.1: where both stand beside each other, they name one host.
        (Some(authority), Some(header)) if version >= Version::HTTP_2 && authority.canonical != header.canonical => {
            Err(HOSTS_DIFFER)
        }
        (Some(named), _) | (None, Some(named)) => Ok(named),
        (None, None) if version <= Version::HTTP_10 => Ok(Named { canonical: Cow::Borrowed(""), sent: "" }),
        (None, None) => Err(NO_HOST),
    }
}

/// The canonical form of `host[:port]`, or none when it is not one. Letters, digits, `-`, `.` and `_` make a name;
/// there is no percent-decoding and no Unicode (names outside ASCII arrive as punycode).
pub fn canonical(authority: &str) -> Option<Cow<'_, str>> {
    if authority.len() > MAX_HOST_BYTES {
        return None;
    }
    if is_canonical(authority) {
        return Some(Cow::Borrowed(authority));
    }
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        let address: Ipv6Addr = inside.parse().ok()?;
        let sane = after.is_empty() || is_port(after.strip_prefix(':')?);
        return sane.then(|| Cow::Owned(format!("[{address}]")));
    }
    let (name, port) = authority.split_once(':').unwrap_or((authority, ""));
    let name = name.strip_suffix('.').unwrap_or(name);
    if !is_port(port) || name.split('.').any(str::is_empty) {
        return None;
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
        return None;
    }
    let has_upper_case = name.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if has_upper_case { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) })
}

/// Whether nothing needs to be done, as with most requests: a name in lower case without port and without an empty label.
fn is_canonical(authority: &str) -> bool {
    let mut previous = b'.';
    for byte in authority.bytes() {
        let is_plain = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => true,
            b'.' => previous != b'.',
            _ => false,
        };
        if !is_plain {
            return false;
        }
        previous = byte;
    }
    previous != b'.'
}

/// A port, which may be empty (RFC 3986 section 3.2.3).
fn is_port(text: &str) -> bool {
    text.is_empty() || text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Whether a configured host takes a canonical one: equal, or below the domain of a `*.example.com`, at any depth.
/// The domain itself is not below itself.
pub fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => parents(host).any(|parent| parent == domain),
        None => pattern == host,
    }
}

/// The domains above a host, the nearest first: for `a.b.example`, `b.example` and `example`. An address has none.
pub fn parents(host: &str) -> impl Iterator<Item = &str> {
    let named = if host.starts_with('[') { "" } else { host };
    named.match_indices('.').map(move |(dot, _)| &named[dot + 1..])
}

#[cfg(test)]
mod tests;
