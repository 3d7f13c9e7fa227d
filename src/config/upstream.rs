//! `[upstreams.NAME]`: the servers that requests are forwarded to.

use super::host;
use super::model::{Located, Upstream, UpstreamProtocol, UpstreamServer};
use super::names;
use super::problem::{Complaint, nearest, quote};
use super::server::timeout;
use super::tree::{Node, Reader, Table};

const MAX_WEIGHT: i64 = 65_535;

/// The most retries that an upstream may ask for.
pub const MAX_RETRIES: u32 = 10;

/// All entries of one `upstreams` table.
pub(super) fn read_all(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Vec<Upstream> {
    let mut upstreams = Vec::new();
    for node in table.take_all() {
        if let Err(complaint) = names::plain(node.key) {
            reader.problem(complaint.of(node.key, node.key_at));
        }
        let is_new = reader.unique("upstream", node.key, node.key_at);
        let upstream = reader.table(node, |reader, table| read(reader, table, node));
        upstreams.extend(upstream.filter(|_| is_new));
    }
    upstreams
}

fn read(reader: &mut Reader<'_>, table: &mut Table<'_>, node: Node<'_>) -> Upstream {
    const PROTOCOLS: &[(&str, UpstreamProtocol)] = &[("http1", UpstreamProtocol::Http1), ("h2", UpstreamProtocol::H2)];
    let servers = match table.take("servers") {
        Some(node) => servers(reader, node),
        None => {
            let message = format!("the upstream {} has no `servers`", super::problem::name(node.key));
            reader.missing(table.at, message, "such as servers = [\"127.0.0.1:9000\"]");
            Vec::new()
        }
    };
    if let Some(node) = table.take("balance") {
        balance(reader, node);
    }
    let protocol = table.option(reader, "protocol", |reader, node| reader.word(node, PROTOCOLS));
    if let Some(node) = table.take("tls") {
        reader.unavailable(node.key_at, "TLS towards an upstream, `tls`,");
    }
    if let Some(node) = table.take("health") {
        reader.unavailable(node.key_at, "health checks, `health`,");
    }
    let (connect_timeout, read_timeout, write_timeout) = table.section(reader, "timeouts", |reader, table| {
        let mut timeout = |key, seconds| timeout(reader, table, key, seconds);
        (timeout("connect", 2), timeout("read", 30), timeout("write", 30))
    });
    let retries = table.option(reader, "retries", |reader, node| reader.integer(node, 0..=i64::from(MAX_RETRIES)));
    Upstream {
        name: Located { value: node.key.to_owned(), at: node.key_at },
        servers,
        protocol: protocol.unwrap_or(UpstreamProtocol::Http1),
        connect_timeout,
        read_timeout,
        write_timeout,
        retries: retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(1),
    }
}

fn balance(reader: &mut Reader<'_>, node: Node<'_>) {
    let Some(balance) = reader.text(node) else { return };
    match balance.value.as_str() {
        "round_robin" => {}
        text @ ("least_connections" | "hash:ip" | "hash:consumer") => reader.unavailable(node.at, &quote(text)),
        text if text.strip_prefix("hash:header:").is_some_and(|name| names::header_name(name).is_ok()) => {
            reader.unavailable(node.at, &quote(text));
        }
        text => {
            let words = ["round_robin", "least_connections", "hash:ip", "hash:consumer", "hash:header:NAME"];
            let complaint =
                Complaint::new(format!("expected {}, not {}", super::problem::choices(words, quote), quote(text)));
            let complaint = match nearest(text, words) {
                Some(near) => complaint.hint(format!("did you mean {}?", quote(near))),
                None => complaint,
            };
            reader.problem(complaint.of(node.key, node.at));
        }
    }
}

fn servers(reader: &mut Reader<'_>, node: Node<'_>) -> Vec<UpstreamServer> {
    let mut servers: Vec<UpstreamServer> = Vec::new();
    let elements = reader.list(node).unwrap_or_default();
    for element in elements {
        let server = if element.is_table() {
            reader.table(element, weighted).flatten()
        } else {
            let expected = "\"host:port\" or { address = \"host:port\", weight = 2 }";
            reader.parsed(element, expected, host::address).map(|address| UpstreamServer { address, weight: 1 })
        };
        let Some(server) = server else { continue };
        if servers.iter().any(|known| known.address.value == server.address.value) {
            let complaint = Complaint::new(format!("{} is listed twice", quote(&server.address.value)));
            reader.problem(complaint.hint("give it a `weight` instead").of(node.key, server.address.at));
            continue;
        }
        servers.push(server);
    }
    reader.filled(servers, node, "name at least one \"host:port\"").unwrap_or_default()
}

fn weighted(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<UpstreamServer> {
    let weight = table.option(reader, "weight", |reader, node| reader.integer(node, 1..=MAX_WEIGHT));
    let Some(node) = table.take("address") else {
        reader.missing(table.at, "a server has an `address`", "such as { address = \"127.0.0.1:9000\", weight = 2 }");
        return None;
    };
    let address = reader.parsed(node, "\"host:port\"", host::address)?;
    Some(UpstreamServer { address, weight: weight.and_then(|weight| u32::try_from(weight).ok()).unwrap_or(1) })
}
