//! The client's address: the socket's peer, or what trusted proxies say of it.
//!
//! A forwarding header is a list to which each proxy adds at the right, so only its right end can be believed and the
//! walk goes from there to the left. It stops at the first address that is not a trusted proxy's, which is the
//! client's, and at the first entry that is no address, because whatever stands left of it was written by nobody who
//! is trusted. Both headers are cut up from the right for the same reason: an unbalanced quote that a client sent
//! cannot swallow what a proxy appended after it.
//!
//! Never done here: skipping what cannot be read, mixing two headers, using an entry's text as an identity.

use crate::config::model::ClientIpHeader;
use crate::config::units::unmapped;
use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Entries of a forwarding header that are walked. A longer chain of trusted addresses is not a real one; the client
/// is then the last trusted address read.
pub const MAX_HOPS: usize = 64;

/// Longest entry that is looked at: a bracketed address with a zone and a port, generously.
const MAX_ENTRY_BYTES: usize = 128;

/// How the client's address is found and grouped.
#[derive(Clone, Debug)]
pub struct AddressRules {
    /// Peers whose forwarding header is believed.
    pub trusted: Vec<IpNet>,
    /// The one header that is read.
    pub header: ClientIpHeader,
    /// Bits of an IPv4 address that tell callers apart, 0 to 32.
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address that tell callers apart, 0 to 128.
    pub ipv6_prefix: u8,
}

/// Who sent the request, as far as addresses tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address itself, for lists of networks and for the log. An IPv4-mapped address is IPv4.
    pub address: IpAddr,
    /// The network address of its prefix: what has a counter. Two callers of one prefix are one.
    pub group: IpAddr,
    /// Whether the peer is a trusted proxy, so that what it says of the request may be kept.
    pub trusted_peer: bool,
}

impl AddressRules {
    /// The client of a request that came from `peer`. Never fails: what cannot be believed is not used.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let peer = peer.to_canonical();
        let trusted_peer = contains(&self.trusted, peer);
        let address = if trusted_peer { self.forwarded(peer, headers) } else { peer };
        Client { address, group: self.group(address), trusted_peer }
    }

    /// The network address by which a client is counted.
    ///
    /// Addresses made of IPv4 ones by translation (NAT64 `64:ff9b::/96`, 6to4, Teredo) are IPv6 like any other: with
    /// the default prefix the users of one NAT64 gateway share a counter, as those of one IPv4 NAT do.
    pub fn group(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.ipv4_prefix.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.ipv6_prefix.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        }
    }

    fn forwarded(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        match &self.header {
            ClientIpHeader::XForwardedFor => {
                let lines = headers.get_all(&X_FORWARDED_FOR).iter().rev();
                self.walk(peer, lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')).map(parse_address))
            }
            ClientIpHeader::Forwarded => {
                let lines = headers.get_all(FORWARDED).iter().rev();
                self.walk(peer, lines.flat_map(|line| from_right(line.as_bytes(), b',')).map(forwarded_for))
            }
            ClientIpHeader::Single(name) => single(headers, name).unwrap_or(peer),
        }
    }

    /// Follows the chain towards the client. `entries` begins with the one nearest to this gateway.
    fn walk(&self, peer: IpAddr, entries: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut last_trusted = peer;
        for entry in entries.take(MAX_HOPS) {
            match entry {
                Some(address) if contains(&self.trusted, address) => last_trusted = address,
                Some(address) => return address,
                None => return last_trusted,
            }
        }
        last_trusted
    }
}

/// Whether any of the networks holds the address. `10.0.0.0/8` and `::ffff:10.0.0.0/104` are the same network, and an
/// IPv4-mapped address is the IPv4 one; `::/0` holds IPv6 only.
pub fn contains(nets: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    nets.iter().any(|net| unmapped(*net).contains(&address))
}

/// Reads one address as proxies write it: `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:443`; blanks around it are dropped, and so is a zone (`fe80::1%eth0`), which means nothing on
/// another machine. An IPv4-mapped address comes back as IPv4. Octets with a leading zero are refused: some read
/// them as octal.
pub fn parse_address(entry: &[u8]) -> Option<IpAddr> {
    let entry = entry.trim_ascii();
    if entry.len() > MAX_ENTRY_BYTES {
        return None;
    }
    let text = std::str::from_utf8(entry).ok()?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        let sane = after.is_empty() || is_port(after.strip_prefix(':')?);
        return if sane { parse_v6(inside) } else { None };
    }
    match text.split_once(':') {
        None => text.parse().ok().map(IpAddr::V4),
        Some((_, after)) if after.contains(':') => parse_v6(text),
        Some((address, port)) if is_port(port) => address.parse().ok().map(IpAddr::V4),
        Some(_) => None,
    }
}

fn parse_v6(text: &str) -> Option<IpAddr> {
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().ok().map(|v6| IpAddr::V6(v6).to_canonical())
}

/// A port number or an obfuscated port (RFC 7239 section 6).
fn is_port(text: &str) -> bool {
    let is_number = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    let is_obfuscated = text.strip_prefix('_').is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    is_number || is_obfuscated
}

/// The address of a header that holds one; none when it is absent, no address, or on several lines that differ.
fn single(headers: &HeaderMap, name: &str) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter().map(|line| parse_address(line.as_bytes()));
    let first = lines.next()??;
    lines.all(|other| other == Some(first)).then_some(first)
}

/// The `for` of one element of `Forwarded` (RFC 7239 section 4); none when it is absent, repeated or no address.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in from_right(element, b';') {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        if !pair[..equals].trim_ascii().eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(parse_address(unquote(pair[equals + 1..].trim_ascii())?)?);
    }
    found
}

/// The inside of a quoted string, or the value itself. A value with a backslash is none: no address needs one.
fn unquote(value: &[u8]) -> Option<&[u8]> {
    let inside = match value.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\"")?,
        None => value,
    };
    (!inside.contains(&b'"') && !inside.contains(&b'\\')).then_some(inside)
}

/// Cuts at a separator, from the right, leaving alone those inside quoted strings (RFC 9110 section 5.6.4). A quote
/// that is never opened, seen from the right, holds all that is left of it.
fn from_right(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let mut quoted = false;
        for index in (0..text.len()).rev() {
            if text[index] == b'"' && !is_escaped(text, index) {
                quoted = !quoted;
            } else if text[index] == separator && !quoted {
                left = Some(&text[..index]);
                return Some(&text[index + 1..]);
            }
        }
        left = None;
        Some(text)
    })
}

/// Whether an odd number of backslashes stands before the byte at `index`.
fn is_escaped(text: &[u8], index: usize) -> bool {
    text[..index].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests;
