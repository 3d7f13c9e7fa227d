//! Host names as configuration writes them: what a route or a condition is for, and where an upstream listens.
//!
//! Hosts are compared in one form: lower case, without port and trailing dot, an IPv6 address in brackets.

use super::problem::{Complaint, quote};
use std::net::Ipv6Addr;

/// Bytes of a host name (RFC 1035).
const MAX_HOST: usize = 253;

/// A host in its one form; `*.example.com` is any host below.
pub fn host(text: &str) -> Result<String, Complaint> {
    let complaint = || {
        Complaint::new(format!("expected a host such as \"api.example.com\" or \"*.example.com\", not {}", quote(text)))
    };
    let lower = text.to_ascii_lowercase();
    let bare = lower.strip_suffix('.').unwrap_or(&lower);
    if let Some(inside) = bare.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')) {
        return inside.parse::<Ipv6Addr>().map(|address| format!("[{address}]")).map_err(|_| complaint());
    }
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Err(complaint().hint(format!("an IPv6 address stands in brackets: \"[{address}]\"")));
    }
    if is_name(bare.strip_prefix("*.").unwrap_or(bare)) {
        return Ok(bare.to_owned());
    }
    Err(match bare.rsplit_once(':') {
        _ if bare.contains("://") => complaint().hint("a host has no scheme"),
        Some((name, port)) if port.parse::<u16>().is_ok() => {
            complaint().hint(format!("the port is not looked at; write {}", quote(name)))
        }
        _ if bare.contains('*') => complaint().hint("`*.` may only begin a host; for any host leave `host` out"),
        _ if !bare.is_ascii() => complaint().hint("write an international name in its ASCII form (xn--…)"),
        _ => complaint(),
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_HOST
        && text.split('.').all(|label| !label.is_empty() && label.len() <= 63)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// An upstream server's `host:port`.
pub fn address(text: &str) -> Result<String, Complaint> {
    let complaint =
        || Complaint::new(format!("expected \"host:port\", such as \"127.0.0.1:9000\", not {}", quote(text)));
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.trim_end_matches('/');
        return Err(complaint().hint(format!("an address has no scheme ({}); write {}", quote(scheme), quote(rest))));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(complaint().hint(format!("the port is missing: {}", quote(&format!("{text}:80")))));
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(complaint().hint("a port is a number from 1 to 65535"));
    }
    let is_v6 = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    if is_v6 || is_name(host) {
        return Ok(text.to_owned());
    }
    Err(if host.contains(':') {
        complaint().hint("an IPv6 address stands in brackets: \"[::1]:9000\"")
    } else {
        complaint()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_form() {
        let vectors = [
            ("API.Example.com", "api.example.com"),
            ("example.com.", "example.com"),
            ("*.Example.com", "*.example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::0:1]", "[::1]"),
            ("localhost", "localhost"),
        ];
        for (text, expected) in vectors {
            assert_eq!(host(text).as_deref(), Ok(expected), "{text}");
        }
        let refusals = [
            ("example.com:8080", "write \"example.com\""),
            ("http://a", "no scheme"),
            ("a.*.b", "only begin"),
            ("*", "any host"),
            ("::1", "\"[::1]\""),
            ("café.fr", "xn--"),
        ];
        for (text, hint) in refusals {
            let complaint = host(text).unwrap_err();
            assert!(complaint.hint.as_ref().is_some_and(|given| given.contains(hint)), "{text}: {complaint:?}");
        }
        for text in ["", ".", "a..b", "a b", "[x]", "*.*.a"] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_upstream_address_has_a_host_and_a_port() {
        for text in ["127.0.0.1:9000", "[::1]:9000", "api.internal:80", "localhost:65535"] {
            assert_eq!(address(text).as_deref(), Ok(text));
        }
        let refusals = [
            ("http://api:80/", "write \"api:80\""),
            ("api", "\"api:80\""),
            ("api:0", "1 to 65535"),
            ("api:99999", "1 to 65535"),
            ("api:+80", "1 to 65535"),
            ("::1:80", "brackets"),
            ("api:", "1 to 65535"),
        ];
        for (text, hint) in refusals {
            let complaint = address(text).unwrap_err();
            assert!(complaint.hint.as_ref().is_some_and(|given| given.contains(hint)), "{text}: {complaint:?}");
        }
    }
}
