//! `[client_ip]` and `[paths]`: who a request is from, and which spelling of its path counts.

use super::limit;
use super::model::{ClientIp, ClientIpHeader, EncodedSlash, Layer, Paths};
use super::names::header_name;
use super::problem::Problem;
use super::tree::{Reader, Table};
use ipnet::IpNet;

/// A shorter prefix would make callers of many providers one caller.
const MIN_IPV4_PREFIX: i64 = 8;
const MIN_IPV6_PREFIX: i64 = 16;

pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> ClientIp {
    let trusted = networks(reader, table, "trusted_proxies", "any client could choose its own address");
    let header = table.option(reader, "header", |reader, node| reader.parsed(node, "a header's name", header_name));
    let ipv4_prefix = table.option(reader, "ipv4_prefix", |reader, node| reader.integer(node, MIN_IPV4_PREFIX..=32));
    let ipv6_prefix = table.option(reader, "ipv6_prefix", |reader, node| reader.integer(node, MIN_IPV6_PREFIX..=128));
    let allow = table.option(reader, "allow", Reader::networks);
    let deny = networks(reader, table, "deny", "every request is refused");
    let exempt = networks(reader, table, "exempt", "no limit applies to anyone");
    let limits = table.option(reader, "limits", |reader, node| limit::list(reader, node, Layer::Ip));
    let prefix = |prefix: Option<i64>, default| prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or(default);
    ClientIp {
        trusted_proxies: trusted,
        header: header.map_or(ClientIpHeader::XForwardedFor, |header| match header.value.as_str() {
            "x-forwarded-for" => ClientIpHeader::XForwardedFor,
            "forwarded" => ClientIpHeader::Forwarded,
            _ => ClientIpHeader::Single(header.value),
        }),
        ipv4_prefix: prefix(ipv4_prefix, 32),
        ipv6_prefix: prefix(ipv6_prefix, 64),
        allow: allow.unwrap_or_default(),
        deny,
        exempt,
        limits: limits.unwrap_or_default(),
    }
}

/// Networks of which one that holds every address deserves a warning.
fn networks(reader: &mut Reader<'_>, table: &mut Table<'_>, key: &'static str, consequence: &str) -> Vec<IpNet> {
    let Some(node) = table.take(key) else { return Vec::new() };
    let networks = reader.networks(node).unwrap_or_default();
    if networks.iter().any(|network| network.prefix_len() == 0) {
        reader.problem(Problem::warning(node.at, format!("`{key}` holds every address: {consequence}")));
    }
    networks
}

pub(super) fn read_paths(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Paths {
    const WORDS: &[(&str, EncodedSlash)] = &[("reject", EncodedSlash::Reject), ("keep", EncodedSlash::Keep)];
    let encoded_slash = table.option(reader, "encoded_slash", |reader, node| reader.word(node, WORDS));
    let merge_slashes = table.option(reader, "merge_slashes", Reader::boolean);
    Paths { encoded_slash: encoded_slash.unwrap_or(EncodedSlash::Reject), merge_slashes: merge_slashes.unwrap_or(true) }
}
