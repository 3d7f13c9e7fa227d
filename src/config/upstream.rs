//! `[upstreams.NAME]`: the servers that requests are forwarded to.

mod balance;
mod health;
mod tls;

use super::host;
use super::model::{Balance, Located, Upstream, UpstreamProtocol, UpstreamServer};
use super::names;
use super::problem::{Complaint, quote};
use super::server::timeout;
use super::tree::{Node, Reader, Table};

pub use tls::host_of;

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
    let balance =
        table.option(reader, "balance", |reader, node| reader.parsed(node, balance::EXPECTED, balance::balance));
    let protocol = table.option(reader, "protocol", |reader, node| reader.word(node, PROTOCOLS));
    let tls = table.option(reader, "tls", |reader, node| tls::read(reader, node, &servers));
    let health = table.option(reader, "health", health::read);
    let (connect_timeout, read_timeout, write_timeout) = table.section(reader, "timeouts", |reader, table| {
        let mut timeout = |key, seconds| timeout(reader, table, key, seconds);
        (timeout("connect", 2), timeout("read", 30), timeout("write", 30))
    });
    let retries = table.option(reader, "retries", |reader, node| reader.integer(node, 0..=i64::from(MAX_RETRIES)));
    Upstream {
        name: Located { value: node.key.to_owned(), at: node.key_at },
        servers,
        balance: balance.map_or(Balance::RoundRobin, |balance| balance.value),
        tls,
        health,
        protocol: protocol.unwrap_or(UpstreamProtocol::Http1),
        connect_timeout,
        read_timeout,
        write_timeout,
        retries: retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(1),
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
