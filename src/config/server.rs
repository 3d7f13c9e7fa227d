//! `[server]` and `[admin]`: where the program listens.

use super::file::{self, MAX_TOKEN_BYTES};
use super::model::{Admin, Place, Secret, Server};
use super::problem::{Complaint, quote};
use super::tls;
use super::tree::{Node, Reader, Table};
use crate::time::Millis;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where an operator expects the files of a running service.
pub const DEFAULT_RUNTIME_DIR: &str = "/run/sluicegate";

/// The longest timeout and the longest drain: a week.
pub(super) const MAX_TIMEOUT: Millis = Millis(7 * 86_400_000);

/// A timeout of nothing would end every request.
pub(super) const MIN_TIMEOUT: Millis = Millis(1);

const MAX_THREADS: i64 = 1024;
const MAX_PARKED: i64 = 10_000_000;
const MAX_CONNECTIONS_PER_IP: i64 = 1_000_000;

/// The HTTP stack's own cap on a request's header.
const MAX_HEADER_BYTES: u64 = 1 << 20;
const MIN_HEADER_BYTES: u64 = 1 << 10;

/// Bodies are counted, not kept, so this bounds a number only: 1 TiB.
const MAX_BODY_BYTES: u64 = 1 << 40;

pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Server {
    let listen = match table.take("listen") {
        Some(node) => listen(reader, node),
        None => Some(vec![default_address(reader, table, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)))]),
    };
    let threads = table.option(reader, "threads", |reader, node| reader.integer(node, 0..=MAX_THREADS));
    let drain = table.option(reader, "drain", |reader, node| reader.span(node, Millis(0)..=MAX_TIMEOUT));
    let (header_timeout, idle_timeout, body_timeout) = table.section(reader, "timeouts", |reader, table| {
        let mut timeout = |key, seconds| timeout(reader, table, key, seconds);
        (timeout("header", 10), timeout("idle", 75), timeout("body", 60))
    });
    let max_header_bytes =
        table.option(reader, "max_header_bytes", |reader, node| reader.size(node, MIN_HEADER_BYTES..=MAX_HEADER_BYTES));
    let max_body_bytes = table.option(reader, "max_body_bytes", |reader, node| reader.size(node, 0..=MAX_BODY_BYTES));
    let max_connections_per_ip =
        table.option(reader, "max_connections_per_ip", |reader, node| reader.integer(node, 0..=MAX_CONNECTIONS_PER_IP));
    let max_parked = table.option(reader, "max_parked", |reader, node| reader.integer(node, 0..=MAX_PARKED));
    let runtime_dir = table.option(reader, "runtime_dir", Reader::path);
    let tls = table.take("tls").map(|node| tls::read_all(reader, node)).unwrap_or_default();
    Server {
        listen: listen.unwrap_or_default(),
        tls,
        threads: threads.and_then(|threads| usize::try_from(threads).ok()).unwrap_or(0),
        drain: drain.unwrap_or(Millis::from_seconds(30)),
        header_timeout,
        idle_timeout,
        body_timeout,
        max_header_bytes: max_header_bytes.unwrap_or(32 << 10),
        max_body_bytes: max_body_bytes.unwrap_or(0),
        max_connections_per_ip: max_connections_per_ip
            .and_then(|connections| usize::try_from(connections).ok())
            .unwrap_or(0),
        max_parked: max_parked.and_then(|parked| u64::try_from(parked).ok()).unwrap_or(10_000),
        runtime_dir: runtime_dir.map_or_else(|| PathBuf::from(DEFAULT_RUNTIME_DIR), |path| path.value),
    }
}

/// One key of a `timeouts` table.
pub(super) fn timeout(reader: &mut Reader<'_>, table: &mut Table<'_>, key: &'static str, default_s: i64) -> Millis {
    let span = table.option(reader, key, |reader, node| reader.span(node, MIN_TIMEOUT..=MAX_TIMEOUT));
    span.unwrap_or(Millis::from_seconds(default_s))
}

fn listen(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for element in reader.list(node)? {
        if let Some(address) = socket_address(reader, element, &[]) {
            addresses.push(address);
        }
    }
    reader.filled(addresses, node, "the default is [\"0.0.0.0:8080\"]")
}

/// An address to listen on. Port 0 lets the system choose, so it may be named twice, and so may those in `shared`.
pub(super) fn socket_address(reader: &mut Reader<'_>, node: Node<'_>, shared: &[SocketAddr]) -> Option<SocketAddr> {
    let address = reader.parsed(node, "an address and port such as \"0.0.0.0:8080\"", parse_socket_address)?.value;
    let may_repeat = address.port() == 0 || shared.contains(&address);
    let is_new = may_repeat || reader.unique("listen address", &address.to_string(), node.at);
    is_new.then_some(address)
}

/// A default takes its address too, so that another section cannot have it unnoticed.
fn default_address(reader: &mut Reader<'_>, table: &Table<'_>, address: SocketAddr) -> SocketAddr {
    reader.unique("listen address", &address.to_string(), table.at);
    address
}

fn parse_socket_address(text: &str) -> Result<SocketAddr, Complaint> {
    text.parse().map_err(|_| {
        let complaint = Complaint::new(format!(
            "expected an address and port such as \"0.0.0.0:8080\" or \"[::]:8080\", not {}",
            quote(text)
        ));
        match text.rsplit_once(':') {
            Some(("" | "*", port)) => {
                complaint.hint(format!("every IPv4 address is \"0.0.0.0:{port}\", every address \"[::]:{port}\""))
            }
            Some(("localhost", port)) => complaint.hint(format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"")),
            _ if text.parse::<IpAddr>().is_ok() => complaint.hint("the port is missing"),
            _ if text.parse::<u16>().is_ok() => complaint.hint(format!("the address is missing: \"0.0.0.0:{text}\"")),
            _ => complaint,
        }
    })
}

pub(super) fn read_admin(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Admin {
    let listen_node = table.take("listen");
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 9090));
    let listen = match listen_node {
        Some(node) => socket_address(reader, node, &[]).unwrap_or(default),
        None => default_address(reader, table, default),
    };
    let token_node = table.take("token_file");
    let token_path = token_node.and_then(|node| reader.path(node));
    // A text that comes to nothing, by a variable perhaps, names no file; another type was complained of already.
    let is_named = token_path.is_some() || token_node.is_some_and(|node| !node.is_text());
    let token = token_node.zip(token_path).and_then(|(node, path)| token(reader, node, &path.value));
    if !listen.ip().is_loopback() && !is_named {
        let at: Place = listen_node.map_or(table.at, |node| node.at);
        reader.missing(
            at,
            format!("`listen` of [admin] is {listen}, which is not loopback, and there is no `token_file`"),
            "others could read and reset every counter: name a file that holds a token",
        );
    }
    Admin { listen, token }
}

/// The token: the file's one line. Its text is in no message.
fn token(reader: &mut Reader<'_>, node: Node<'_>, path: &Path) -> Option<Secret> {
    let parsed = file::read_text(path, MAX_TOKEN_BYTES).and_then(|text| {
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("{} must hold one token of visible ASCII characters", path.display());
            return Err(Complaint::new(message));
        }
        Ok(Secret::new(token))
    });
    match parsed {
        Ok(token) => Some(token),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            None
        }
    }
}
