//! One request as a log recorded it: what the policy is asked about, and what was decided then.
//!
//! It owns what it holds and knows no policy, so that two policies can be asked about the same requests. The instant is
//! that of the decision where the log says it (`decided_at`), else the arrival: the time of the line less the duration.

use super::fields::Slot;
use super::instant;
use super::line::{Raw, Value};
use crate::time::Timestamp;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The standard methods, which need no copy.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// A request.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: Timestamp,
    pub address: IpAddr,
    pub method: Cow<'static, str>,
    /// As it was sent, without a query; empty when it could not be read then.
    pub path: Box<str>,
    /// Empty when the log has none.
    pub host: Box<str>,
    /// Empty when the log has none; so are the next three.
    pub key_id: Box<str>,
    pub consumer: Box<str>,
    pub route: Box<str>,
    /// Indices into the format's headers.
    pub headers: SmallVec<[(usize, Box<str>); 2]>,
    pub then: Then,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Then {
    /// Absent when the log does not say.
    pub fate: Option<Fate>,
    /// The limit that refused; empty when none did or it is not known.
    pub limit: Box<str>,
    /// Refused before any key was looked at, for a reason that a log does not repeat.
    pub was_invalid: bool,
    /// The key was wrong.
    pub key_was_wrong: bool,
}

/// Whether a limit refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Refused,
    /// By no limit; it may have been refused for another reason.
    Passed,
}

impl Record {
    /// The record of a line's values, or why there is none.
    pub fn new(raw: &Raw<'_>) -> Result<Self, &'static str> {
        let at = at(raw).ok_or("it has no time that can be read")?;
        let address = raw.text(Slot::Ip).and_then(address).ok_or("it has no address that can be read")?;
        let request = Request::of(raw);
        let copied = |slot| raw.text(slot).map(Box::from).unwrap_or_default();
        let host = match raw.text(Slot::Host) {
            Some(host) => host.into(),
            None => request.host.into(),
        };
        Ok(Self {
            at,
            address: address.to_canonical(),
            method: method(request.method),
            path: request.path.into(),
            host,
            key_id: copied(Slot::KeyId),
            consumer: copied(Slot::Consumer),
            route: copied(Slot::Route),
            headers: raw.headers.iter().map(|(index, value)| (*index, (&**value).into())).collect(),
            then: Then::of(raw),
        })
    }
}

fn at(raw: &Raw<'_>) -> Option<Timestamp> {
    if let Some(decided) = raw.text(Slot::DecidedAt).and_then(instant::parse) {
        return Some(decided);
    }
    let ended = match raw.value(Slot::Time) {
        Value::Text(text) => instant::parse(text),
        Value::Number(number) => instant::from_number(*number),
        Value::Absent => None,
    }?;
    let seconds = raw.number(Slot::DurationS).map(|seconds| seconds * 1000.0);
    let took = raw.number(Slot::DurationMs).or(seconds).filter(|millis| millis.is_finite() && *millis > 0.0);
    // A span beyond the end saturates and leaves a time that no clock of a replay goes back to.
    Some(Timestamp(ended.0.saturating_sub(took.unwrap_or(0.0).round() as i64)))
}

/// An address, or one with a port.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
}

fn method(text: &str) -> Cow<'static, str> {
    match METHODS.iter().find(|method| **method == text) {
        Some(method) => Cow::Borrowed(method),
        None => Cow::Owned(text.to_owned()),
    }
}

/// Method, path and host of a line.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    host: &'a str,
}

impl<'a> Request<'a> {
    fn of(raw: &'a Raw<'_>) -> Self {
        let (mut method, mut target) = ("", "");
        if let Some(line) = raw.text(Slot::Request) {
            let mut parts = line.split(' ');
            method = parts.next().unwrap_or_default();
            target = parts.next().unwrap_or_default();
            // A target with blanks in it is none; what follows the version is not one either.
            if parts.next().is_some_and(|version| !version.starts_with("HTTP/")) || parts.next().is_some() {
                target = "";
            }
        }
        method = raw.text(Slot::Method).unwrap_or(method);
        target = raw.text(Slot::Path).unwrap_or(target);
        let (host, path) = match target.split_once("://") {
            Some(("http" | "https", rest)) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
            _ => ("", target),
        };
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = if path.is_empty() && !host.is_empty() { "/" } else { path };
        Self { method: if method.is_empty() { "GET" } else { method }, path, host }
    }
}

impl Then {
    fn of(raw: &Raw<'_>) -> Self {
        let limit = raw.text(Slot::Limit).unwrap_or_default();
        let error = raw.text(Slot::Error).unwrap_or_default();
        let by_limit = matches!(error, "rate_limit_exceeded" | "cost_exceeds_limit");
        let status = || raw.number(Slot::Status).map(|status| status == 429.0);
        let refused = raw.text(Slot::Decision).map(|_| by_limit).or_else(status);
        // What was refused after a server was chosen had been charged in full by then.
        let is_early = raw.text(Slot::Upstream).is_none();
        let invalid = matches!(error, "bad_request" | "payload_too_large" | "headers_too_large");
        Self {
            fate: refused.map(|refused| if refused { Fate::Refused } else { Fate::Passed }),
            limit: if by_limit { limit.into() } else { Box::default() },
            was_invalid: invalid && is_early,
            key_was_wrong: error == "invalid_api_key" || by_limit && limit == crate::policy::FAILURES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Format;
    use super::super::line;
    use super::*;

    fn record(line: &str) -> Result<Record, &'static str> {
        Record::new(&line::read(line.as_bytes(), &Format::known())?)
    }

    #[test]
    fn the_arrival_is_the_time_less_the_duration_unless_the_decision_is_told() {
        let arrived =
            record(r#"{"time":"1970-01-01T00:00:10Z","duration_ms":1500.4,"client_ip":"::ffff:1.2.3.4"}"#).unwrap();
        assert_eq!((arrived.at, arrived.address), (Timestamp(8500), "1.2.3.4".parse().unwrap()));
        let told = r#"{"time":"1970-01-01T00:00:10Z","duration_ms":1500,"decided_at":"1970-01-01T00:00:09.123Z","client_ip":"::1"}"#;
        assert_eq!(record(told).unwrap().at, Timestamp(9123));
    }

    #[test]
    fn request_lines_and_urls_are_cut_up() {
        let path_of = |request: &str| {
            let line = format!("1.2.3.4:5678 - - [01/Dec/2026:13:38:17 +0000] \"{request}\" 200 1");
            let record = record(&line).unwrap();
            format!("{} {} {}", record.method, record.host, record.path)
        };
        let vectors = [
            ("GET /a/b?c=d HTTP/1.1", "GET  /a/b"),
            ("PURGE /a", "PURGE  /a"),
            ("GET http://example.com?x HTTP/1.0", "GET example.com /"),
            ("GET https://example.com:8443/a HTTP/1.1", "GET example.com:8443 /a"),
            ("GET /a b HTTP/1.1", "GET  "),
            ("-", "GET  "),
            (r"\x16\x03\x01", "\u{16}\u{3}\u{1}  "),
        ];
        for (request, expected) in vectors {
            assert_eq!(path_of(request), expected, "{request}");
        }
    }

    #[test]
    fn what_was_decided_then_is_read_from_our_lines_and_from_a_status() {
        let ours = |rest: &str| {
            let line = format!(r#"{{"time":"1970-01-01T00:00:10Z","client_ip":"::1",{rest}}}"#);
            record(&line).unwrap().then
        };
        let refused = ours(r#""decision":"rejected","error":"rate_limit_exceeded","limit":"ip-min","status":429"#);
        assert_eq!((refused.fate, &*refused.limit), (Some(Fate::Refused), "ip-min"));
        let passed = ours(r#""decision":"allowed","limit":"ip-min","status":429,"upstream":"x""#);
        assert_eq!((passed.fate, &*passed.limit), (Some(Fate::Passed), ""));
        let wrong = ours(r#""decision":"rejected","error":"invalid_api_key","status":401"#);
        assert_eq!((wrong.fate, wrong.key_was_wrong, wrong.was_invalid), (Some(Fate::Passed), true, false));
        assert!(ours(r#""decision":"rejected","error":"payload_too_large""#).was_invalid);
        assert!(!ours(r#""decision":"rejected","error":"payload_too_large","upstream":"x""#).was_invalid);
        let combined = record("::1 - - [01/Dec/2026:13:38:17 +0000] \"GET / HTTP/1.1\" 429 1").unwrap();
        assert_eq!(combined.then.fate, Some(Fate::Refused));
    }

    #[test]
    fn a_line_without_time_or_address_says_so() {
        assert!(record("nonsense").unwrap_err().contains("time"));
        let named = "host.example - - [01/Dec/2026:13:38:17 +0000] \"GET / HTTP/1.1\" 200 1";
        assert!(record(named).unwrap_err().contains("address"));
    }
}
