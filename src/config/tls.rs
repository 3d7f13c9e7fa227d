//! `[[server.tls]]`: where TLS is spoken with clients, and as whom.

use super::model::TlsListener;
use super::pem;
use super::problem::Problem;
use super::server::socket_address;
use super::tree::{Node, Reader, Table};
use rustls::sign::CertifiedKey;
use std::net::SocketAddr;
use std::sync::Arc;

/// All elements of the list. Several may share an address: they are one listener with several certificates.
pub(super) fn read_all(reader: &mut Reader<'_>, node: Node<'_>) -> Vec<TlsListener> {
    if node.is_table() {
        let problem = Problem::error(node.at, "`tls` of [server] must be a list of listeners, not a table");
        reader.problem(problem.hint("each is a table of its own: [[server.tls]]"));
        return Vec::new();
    }
    let mut addresses = Vec::new();
    let elements = reader.list(node).unwrap_or_default();
    let read = |element| reader.table(element, |reader, table| read(reader, table, &mut addresses)).flatten();
    elements.into_iter().filter_map(read).collect()
}

fn read(reader: &mut Reader<'_>, table: &mut Table<'_>, addresses: &mut Vec<SocketAddr>) -> Option<TlsListener> {
    let at = table.at;
    let listen = table.take("listen");
    let certificate = table.take("certificate");
    let key = table.take("key");
    for (name, node) in [("listen", listen), ("certificate", certificate), ("key", key)] {
        if node.is_none() {
            reader.missing(at, format!("[[server.tls]] has no `{name}`"), "it needs listen, certificate and key");
        }
    }
    let (listen, certificate, key) = (listen?, certificate?, key?);
    let listen = socket_address(reader, listen, addresses)?;
    addresses.push(listen);
    let pair = pair(reader, certificate, key)?;
    Some(TlsListener { listen, pair: Arc::new(pair) })
}

fn pair(reader: &mut Reader<'_>, certificate: Node<'_>, key: Node<'_>) -> Option<CertifiedKey> {
    let paths = (reader.path(certificate), reader.path(key));
    let (chain_path, key_path) = (paths.0?, paths.1?);
    let chain = pem::certificates(&chain_path.value);
    let private = pem::private_key(&key_path.value);
    let chain = chain.map_err(|complaint| reader.problem(complaint.of(certificate.key, certificate.at))).ok();
    let private = private.map_err(|complaint| reader.problem(complaint.of(key.key, key.at))).ok();
    let pair = pem::pair(chain?, private?);
    pair.map_err(|complaint| reader.problem(complaint.of(key.key, key.at))).ok()
}
