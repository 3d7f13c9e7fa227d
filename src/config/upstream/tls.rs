//! `tls` of an upstream: whose certificate is expected.
//!
//! The file of authorities is read and understood here, so that a wrong one is told of with its place and not found by the
//! first request.

use crate::config::model::{UpstreamServer, UpstreamTls};
use crate::config::pem;
use crate::config::problem::{Complaint, Problem, quote};
use crate::config::tree::{Node, Reader, Table};
use rustls::pki_types::ServerName;

pub fn read(reader: &mut Reader<'_>, node: Node<'_>, servers: &[UpstreamServer]) -> Option<UpstreamTls> {
    reader.table(node, |reader, table| fields(reader, table, servers))
}

fn fields(reader: &mut Reader<'_>, table: &mut Table<'_>, servers: &[UpstreamServer]) -> UpstreamTls {
    let server_name = table.option(reader, "server_name", |reader, node| {
        reader.parsed(node, "a host name such as \"api.internal\"", server_name).and_then(|name| name.value)
    });
    let authorities = table.take("ca_file").and_then(|node| authorities(reader, node));
    let verify_node = table.take("verify");
    let verify = verify_node.and_then(|node| reader.boolean(node)).unwrap_or(true);
    if let Some(node) = verify_node.filter(|_| !verify) {
        let problem = Problem::warning(node.at, "`verify` is off: any certificate of an upstream is taken");
        reader.problem(problem.hint("name the authority in `ca_file` instead"));
    }
    // Also where certificates are not looked at: the name is sent, too.
    if server_name.is_none() {
        for server in servers {
            let host = host_of(&server.address.value);
            if ServerName::try_from(host).is_err() {
                let problem =
                    Problem::error(server.address.at, format!("no certificate can have the name {}", quote(host)));
                reader.problem(problem.hint("say in tls.server_name which one it has"));
            }
        }
    }
    UpstreamTls { server_name, authorities, verify }
}

/// The host of a `host:port`, an IPv6 address without its brackets.
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A name that a certificate can have; none for "".
fn server_name(text: &str) -> Result<Option<String>, Complaint> {
    if text.is_empty() {
        return Ok(None);
    }
    match ServerName::try_from(text) {
        Ok(_) => Ok(Some(text.to_owned())),
        Err(_) => {
            let complaint = Complaint::new(format!("expected a host name or an address, not {}", quote(text)));
            Err(complaint.hint("such as \"api.internal\", without scheme and port"))
        }
    }
}

fn authorities(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Vec<u8>>> {
    let path = reader.path(node)?;
    let found = pem::authorities(&path.value).map_err(|complaint| reader.problem(complaint.of(node.key, node.at)));
    found.ok().map(|found| found.iter().map(|certificate| certificate.to_vec()).collect())
}
