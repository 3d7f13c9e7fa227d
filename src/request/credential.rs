//! Where a request shows its API key, and what of the request has to go when the key must not reach the upstream.
//!
//! All configured places are looked at, not only the first that holds something: two different keys in one request
//! are a mistake or an attempt to be billed as one and served as another, and neither is guessed at. A text that
//! was meant as a key but cannot be one is a wrong key, never no key, so that it does not pass as anonymous. The
//! key is read, not its header: blanks around it, the case of `Bearer` and the place it stands in make no
//! difference to whose it is.
//!
//! Never done here: hashing, lookup, and any text that shows the key (`Debug` hides it).

use super::query;
use crate::config::model::KeySource;
use http::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};
use http::{HeaderMap, header::GetAll};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// Longest key. A longer one is wrong and is not even hashed.
pub const MAX_KEY_BYTES: usize = 512;

/// A place where a key may be, its name made ready to be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `Authorization: Bearer`.
    Bearer,
    /// A header of its own.
    Header(HeaderName),
    /// A parameter of the query.
    Query(String),
    /// A cookie.
    Cookie(String),
}

impl Source {
    /// As configured.
    ///
    /// # Panics
    /// Never with a source that the configuration has taken: it takes no header that is no token.
    pub fn new(written: &KeySource) -> Self {
        match written {
            KeySource::Bearer => Self::Bearer,
            KeySource::Header(name) => Self::Header(
                HeaderName::from_bytes(name.as_bytes()).expect("the configuration checks names of headers"),
            ),
            KeySource::Query(name) => Self::Query(name.clone()),
            KeySource::Cookie(name) => Self::Cookie(name.clone()),
        }
    }
}

/// What a request shows.
#[derive(Clone, PartialEq, Eq)]
pub enum Presented<'a> {
    /// Nothing, or only empty values.
    None,
    /// One key, perhaps several times.
    One(Cow<'a, [u8]>),
    /// Two different keys.
    Ambiguous,
    /// Something in the place of a key that cannot be one.
    Malformed,
}

impl fmt::Debug for Presented<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::One(_) => "One(***)",
            Self::Ambiguous => "Ambiguous",
            Self::Malformed => "Malformed",
        })
    }
}

/// The key of a request. `query` is the raw one.
pub fn find<'a>(sources: &[Source], headers: &'a HeaderMap, query: Option<&'a [u8]>) -> Presented<'a> {
    let mut found = Found::default();
    for source in sources {
        match source {
            Source::Bearer => {
                for line in headers.get_all(AUTHORIZATION) {
                    match authorization(line.as_bytes()) {
                        Authorization::Bearer(token) => found.key(Some(Cow::Borrowed(token))),
                        Authorization::Malformed => found.key(None),
                        Authorization::Other => {}
                    }
                }
            }
            Source::Header(name) => {
                for line in headers.get_all(name) {
                    found.key(Some(Cow::Borrowed(line.as_bytes())));
                }
            }
            Source::Query(name) => {
                for value in query::values(query.unwrap_or_default(), name) {
                    found.key(query::decoded(value));
                }
            }
            Source::Cookie(name) => {
                for line in headers.get_all(COOKIE) {
                    for value in cookies(line.as_bytes(), name) {
                        found.key(Some(Cow::Borrowed(value)));
                    }
                }
            }
        }
    }
    found.presented()
}

#[derive(Default)]
struct Found<'a> {
    key: Option<Cow<'a, [u8]>>,
    is_ambiguous: bool,
    is_malformed: bool,
}

impl<'a> Found<'a> {
    /// Takes in one value; none stands for one that cannot be read.
    fn key(&mut self, value: Option<Cow<'a, [u8]>>) {
        let Some(value) = value.map(trimmed) else {
            self.is_malformed = true;
            return;
        };
        if value.is_empty() {
            return;
        }
        if value.len() > MAX_KEY_BYTES || !value.iter().all(u8::is_ascii_graphic) {
            self.is_malformed = true;
            return;
        }
        match &self.key {
            None => self.key = Some(value),
            Some(known) => self.is_ambiguous |= *known != value,
        }
    }

    fn presented(self) -> Presented<'a> {
        match self.key {
            _ if self.is_ambiguous => Presented::Ambiguous,
            _ if self.is_malformed => Presented::Malformed,
            Some(key) => Presented::One(key),
            None => Presented::None,
        }
    }
}

fn trimmed(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(value.trim_ascii()),
        Cow::Owned(value) => Cow::Owned(value.trim_ascii().to_vec()),
    }
}

enum Authorization<'a> {
    Bearer(&'a [u8]),
    /// Neither a Bearer token nor clearly something else: a lone word, or `Bearer` in a place where it is no scheme.
    Malformed,
    /// Another scheme, which is the upstream's affair; or nothing.
    Other,
}

/// One line of `Authorization` (RFC 9110 section 11.6.2, RFC 6750 section 2.1).
fn authorization(line: &[u8]) -> Authorization<'_> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Authorization::Other;
    }
    let Some(blank) = line.iter().position(u8::is_ascii_whitespace) else { return Authorization::Malformed };
    let (scheme, rest) = line.split_at(blank);
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Authorization::Bearer(rest.trim_ascii());
    }
    let mut words = line.split(|byte| !byte.is_ascii_alphanumeric());
    if words.any(|word| word.eq_ignore_ascii_case(b"bearer")) { Authorization::Malformed } else { Authorization::Other }
}

/// The values of a cookie in one `Cookie` line (RFC 6265 section 4.2.1), without quotes around them.
fn cookies<'a>(line: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let value = cookie_value(pair, name)?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

/// The value of `name=value` when it has this name, which is case-sensitive.
fn cookie_value<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    (pair[..equals].trim_ascii() == name.as_bytes()).then(|| pair[equals + 1..].trim_ascii())
}

/// Headers to set to exactly these lines, in this order; none means to remove the header.
pub type Rewritten = SmallVec<[(HeaderName, Vec<HeaderValue>); 2]>;

/// What of the headers has to change so that they show no key any more, whether or not it was right: `Authorization`
/// where it is not clearly of another scheme, the key's cookie out of `Cookie`, the key's own header whole.
pub fn strip_headers(sources: &[Source], headers: &HeaderMap) -> Rewritten {
    let mut rewritten = Rewritten::new();
    let mut cookies: SmallVec<[&str; 2]> = SmallVec::new();
    for source in sources {
        match source {
            Source::Bearer => {
                let keep = |line: &HeaderValue| matches!(authorization(line.as_bytes()), Authorization::Other);
                let kept = |line: &HeaderValue| keep(line).then(|| line.clone());
                rewrite(&mut rewritten, AUTHORIZATION, headers.get_all(AUTHORIZATION), kept);
            }
            Source::Header(name) => {
                rewrite(&mut rewritten, name.clone(), headers.get_all(name), |_| None);
            }
            Source::Query(_) => {}
            Source::Cookie(name) => cookies.push(name),
        }
    }
    if !cookies.is_empty() {
        rewrite(&mut rewritten, COOKIE, headers.get_all(COOKIE), |line| without_cookies(line, &cookies));
    }
    rewritten
}

/// The query without the key's parameters; none when it has none of them, empty when nothing else is left.
pub fn strip_query(sources: &[Source], query: &[u8]) -> Option<Vec<u8>> {
    let names = sources.iter().filter_map(|source| match source {
        Source::Query(name) => Some(name.as_str()),
        Source::Bearer | Source::Header(_) | Source::Cookie(_) => None,
    });
    query::without(query, &names.collect::<SmallVec<[&str; 2]>>())
}

/// Puts each line of a header through `change`; what it gives none for is left out. A header that comes out as it was
/// is not listed.
fn rewrite(
    rewritten: &mut Rewritten,
    name: HeaderName,
    lines: GetAll<'_, HeaderValue>,
    change: impl Fn(&HeaderValue) -> Option<HeaderValue>,
) {
    let changed: Vec<HeaderValue> = lines.iter().filter_map(change).collect();
    if !lines.iter().eq(&changed) {
        rewritten.push((name, changed));
    }
}

/// A `Cookie` line without these cookies, the others as they were; none when nothing is left.
fn without_cookies(line: &HeaderValue, names: &[&str]) -> Option<HeaderValue> {
    let is_key = |pair: &[u8]| names.iter().any(|name| cookie_value(pair, name).is_some());
    let pairs = || line.as_bytes().split(|byte| *byte == b';');
    if !pairs().any(is_key) {
        return Some(line.clone());
    }
    let kept: Vec<&[u8]> = pairs().filter(|pair| !is_key(pair)).collect();
    let joined = kept.join(&b';');
    let joined = joined.trim_ascii();
    if joined.is_empty() { None } else { HeaderValue::from_bytes(joined).ok() }
}

#[cfg(test)]
mod tests;
