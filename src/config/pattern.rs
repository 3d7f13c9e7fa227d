//! What a route matches, and what a key may call: a method and a path.
//!
//! Requests are matched after their path was normalised (escapes of unreserved characters decoded, the others upper
//! case, dot segments and doubled slashes gone, no trailing slash, no `;…`). A pattern that could never equal such a
//! path would be a route nobody reaches, so it is refused with the spelling that works; only escapes, whose two
//! spellings are one, are normalised silently.

use super::model::{KeyPattern, PatternSegment, RoutePattern};
use super::problem::{Complaint, name, quote};

/// Segments of one pattern.
const MAX_SEGMENTS: usize = 64;

/// Bytes of one pattern.
const MAX_LENGTH: usize = 2048;

/// Bytes of a method.
const MAX_METHOD: usize = 32;

/// Methods that no warning is given for: RFC 9110, PATCH, and those of WebDAV and caches that are in common use.
pub(super) const KNOWN_METHODS: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "QUERY",
    "PURGE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "LINK",
    "UNLINK",
];

/// `POST /api/export`, `/api/users/:id`, `/files/*rest`, `*`.
pub fn route(text: &str) -> Result<RoutePattern, Complaint> {
    let (method, path) = split(text)?;
    let text = written(method, path);
    let method = method.map(self::method).transpose()?;
    if path == "*" {
        return match method {
            None => Ok(RoutePattern { text, method, path: None }),
            Some(method) => {
                Err(Complaint::new(format!("{} is not a pattern: `*` alone takes every method", quote(&text)))
                    .hint(format!("every path of one method is \"{method} /*rest\"")))
            }
        };
    }
    Ok(RoutePattern { text, method, path: Some(segments(path)?) })
}

/// `GET /api/*`, `/api/users/:id`, `*`: as a route's, but an ending `*` is any rest, of the segment too.
pub fn key(text: &str) -> Result<KeyPattern, Complaint> {
    let (method, path) = split(text)?;
    let method = method.map(self::method).transpose()?;
    let (fixed, any_rest) = match path.strip_suffix('*') {
        Some(fixed) => (fixed, true),
        None => (path, false),
    };
    if fixed.contains('*') {
        return Err(Complaint::new(format!("{} has a `*` that does not end it", quote(text)))
            .hint("`*` ending a pattern is any rest; `:id` is any one segment"));
    }
    if fixed.is_empty() && any_rest {
        return Ok(KeyPattern { method, path: String::new(), any_rest });
    }
    let ends_in_slash = any_rest && fixed.ends_with('/');
    let fixed = fixed.strip_suffix('/').filter(|_| ends_in_slash).unwrap_or(fixed);
    let segments = if fixed.is_empty() { Vec::new() } else { segments(fixed)? };
    if any_rest && !ends_in_slash && !matches!(segments.last(), Some(PatternSegment::Literal(_))) {
        return Err(Complaint::new(format!("{} has a `*` beside a parameter", quote(text)))
            .hint("a parameter is a whole segment; end the pattern in `/*`"));
    }
    let mut path: String = segments
        .iter()
        .map(|segment| match segment {
            PatternSegment::Literal(text) => format!("/{text}"),
            PatternSegment::Parameter(name) | PatternSegment::Rest(name) => format!("/:{name}"),
        })
        .collect();
    if ends_in_slash || path.is_empty() {
        path.push('/');
    }
    Ok(KeyPattern { method, path, any_rest })
}

/// `/api`: a path without parameters, normalised.
pub fn prefix(text: &str) -> Result<String, Complaint> {
    let segments = segments(text)?;
    let literal = |segment: &PatternSegment| match segment {
        PatternSegment::Literal(text) => Some(format!("/{text}")),
        PatternSegment::Parameter(_) | PatternSegment::Rest(_) => None,
    };
    let path: Option<String> = segments.iter().map(literal).collect();
    path.filter(|path| !path.is_empty()).ok_or_else(|| {
        Complaint::new(format!("{} is not a fixed path such as \"/api\"", quote(text)))
            .hint("a prefix has at least one segment and no parameters")
    })
}

/// A method as a pattern names it.
pub fn method(text: &str) -> Result<String, Complaint> {
    let is_method = |text: &str| {
        text.len() <= MAX_METHOD
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
    };
    if is_method(text) {
        return Ok(text.to_owned());
    }
    let complaint = Complaint::new(format!("{} is not a method", quote(text)));
    let upper = text.to_uppercase();
    Err(if is_method(&upper) {
        complaint.hint(format!("methods are upper case: {}", quote(&upper)))
    } else {
        complaint
    })
}

fn written(method: Option<&str>, path: &str) -> String {
    method.map_or_else(|| path.to_owned(), |method| format!("{method} {path}"))
}

fn split(text: &str) -> Result<(Option<&str>, &str), Complaint> {
    let expected = "expected \"METHOD /path\", \"/path\" or \"*\"";
    let complaint = || Complaint::new(format!("{expected}, not {}", quote(text)));
    if text.len() > MAX_LENGTH {
        return Err(Complaint::new(format!("the pattern is longer than {MAX_LENGTH} bytes")));
    }
    let mut words = text.split_ascii_whitespace();
    let (method, path) = match (words.next(), words.next(), words.next()) {
        (Some(path), None, _) => (None, path),
        (Some(method), Some(path), None) => (Some(method), path),
        (None, ..) => return Err(complaint()),
        _ => return Err(complaint().hint("a path has no blanks; a blank in a request is `%20`")),
    };
    if path.starts_with('/') || path.starts_with('*') {
        return Ok((method, path));
    }
    Err(match path.split_once("://") {
        Some(_) => complaint().hint("a pattern has no scheme and no host; use `host` for the host"),
        None if method.is_none() && self::method(&path.to_uppercase()).is_ok() && path == path.to_uppercase() => {
            complaint().hint(format!("every path of a method is \"{path} /*rest\" in a route, \"{path} *\" for a key"))
        }
        None => {
            complaint().hint(format!("a path begins with a slash: {}", quote(&written(method, &format!("/{path}")))))
        }
    })
}

/// The segments of a pattern's path; `/` has none.
fn segments(path: &str) -> Result<Vec<PatternSegment>, Complaint> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(Complaint::new(format!("{} is not a path", quote(path))).hint("a path begins with a slash"));
    };
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    tidy(path, rest)?;
    let parts: Vec<&str> = rest.split('/').collect();
    if parts.len() > MAX_SEGMENTS {
        return Err(Complaint::new(format!("{} has more than {MAX_SEGMENTS} segments", quote(path))));
    }
    let mut segments = Vec::with_capacity(parts.len());
    let mut names: Vec<&str> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        segments.push(segment(part, path, index + 1 == parts.len())?);
    }
    for segment in &segments {
        if let PatternSegment::Parameter(parameter) | PatternSegment::Rest(parameter) = segment {
            if names.contains(&parameter.as_str()) {
                return Err(Complaint::new(format!("{} names two parameters {}", quote(path), name(parameter))));
            }
            names.push(parameter);
        }
    }
    Ok(segments)
}

/// Refuses what normalising takes out of every request's path.
fn tidy(path: &str, rest: &str) -> Result<(), Complaint> {
    if path.contains(['?', '#']) {
        return Err(Complaint::new(format!("{} has a query or a fragment", quote(path)))
            .hint("a pattern is matched against the path alone"));
    }
    let decoded = |part: &str| part.replace("%2e", ".").replace("%2E", ".");
    let mut kept: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match decoded(part.split_once(';').map_or(part, |(before, _)| before)).as_str() {
            "" | "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(part.split_once(';').map_or(part, |(before, _)| before)),
        }
    }
    let normal = format!("/{}", kept.join("/"));
    if normal == path {
        return Ok(());
    }
    Err(Complaint::new(format!("{} equals no normalised path", quote(path))).hint(format!(
        "dot segments, doubled and trailing slashes and `;…` are taken out before matching; write {}",
        quote(&normal)
    )))
}

fn segment(part: &str, path: &str, is_last: bool) -> Result<PatternSegment, Complaint> {
    let refused = |why: &str| Complaint::new(format!("the segment {} of {} {why}", name(part), quote(path)));
    if let Some(rest) = part.strip_prefix('*') {
        if !is_last {
            return Err(
                refused("is not the last").hint("`*rest` takes the whole remainder; use `:name` for one segment")
            );
        }
        return match rest {
            "" => Ok(PatternSegment::Rest("rest".to_owned())),
            rest if is_parameter(rest) => Ok(PatternSegment::Rest(rest.to_owned())),
            _ => Err(refused("has no valid name").hint("a name has letters, digits and `_`: `*rest`")),
        };
    }
    let braced = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
    if let Some(parameter) = part.strip_prefix(':').or(braced) {
        if is_parameter(parameter) {
            return Ok(PatternSegment::Parameter(parameter.to_owned()));
        }
        let hint = match parameter.strip_prefix('*') {
            Some(rest) => format!("the remainder is `*{rest}`"),
            None => "a name has letters, digits and `_`: `:id` or `{id}`".to_owned(),
        };
        return Err(refused("has no valid name").hint(hint));
    }
    if part.contains(['{', '}', '*']) {
        return Err(refused("is neither a literal nor a parameter")
            .hint("a parameter is a whole segment: `:id`, `{id}`, or `*rest` at the end"));
    }
    literal(part, path).map(PatternSegment::Literal)
}

fn is_parameter(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A literal segment as it stands in a normalised path.
fn literal(part: &str, path: &str) -> Result<String, Complaint> {
    let refused = |why: &str, hint: &str| Complaint::new(format!("{} {why}", quote(path))).hint(hint);
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(character) = rest.chars().next() {
        if character != '%' {
            if !character.is_ascii_graphic() || character == '\\' {
                return Err(refused(
                    "has a character that no request's path may have",
                    "write other characters as percent escapes of their UTF-8 bytes; a backslash is never allowed",
                ));
            }
            out.push(character);
            rest = &rest[1..];
            continue;
        }
        let byte = rest.get(1..3).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(byte) = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
            return Err(refused("has a `%` without two hex digits", "a percent sign is `%25`"));
        };
        rest = &rest[3..];
        let doubled = byte == b'%' && rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
        if doubled || byte == b'\\' || byte.is_ascii_control() {
            return Err(refused(
                "has an escape that is refused in every request",
                "controls, `%5C` and doubled escapes are answered 400",
            ));
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
