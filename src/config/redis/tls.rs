//! `tls` of `[store.redis]`: whom the gateway trusts and what it shows of itself.
//!
//! The files are read and understood here, so that `check` finds what is wrong with them.

use super::super::model::{Identity, Place, RedisTls};
use super::super::pem;
use super::super::problem::{Complaint, Problem};
use super::super::tree::{Node, Reader, Table};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// The table, and where something other than a default stands in it.
pub(super) struct Written {
    pub tls: RedisTls,
    pub said: Option<Place>,
}

pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Written {
    let authorities = file(reader, table.take("ca_file"), pem::authorities);
    let chain = file(reader, table.take("certificate"), pem::certificates);
    let key = file(reader, table.take("key"), pem::private_key);
    let unverified = table.take("verify").filter(|node| reader.boolean(*node) == Some(false));
    if let (Some(node), Some(_)) = (authorities.written, unverified) {
        let problem = Problem::error(node.at, "`ca_file` has no effect with verify = false");
        reader.problem(problem.hint("remove one of them; without `verify` the servers are known by `ca_file`"));
    }
    let said = authorities.written.or(chain.written).or(key.written).or(unverified);
    let tls = RedisTls {
        authorities: authorities.value.unwrap_or_default(),
        verify: unverified.is_none(),
        identity: identity(reader, chain, key),
    };
    Written { tls, said: said.map(|node| node.at) }
}

/// A file that is named, and what was read of it.
struct Named<'t, T> {
    written: Option<Node<'t>>,
    value: Option<T>,
}

fn file<'t, T>(
    reader: &mut Reader<'_>,
    node: Option<Node<'t>>,
    read: impl FnOnce(&Path) -> Result<T, Complaint>,
) -> Named<'t, T> {
    let named = node.and_then(|node| Some((node, reader.path(node)?)));
    let Some((node, path)) = named else { return Named { written: None, value: None } };
    let value = read(&path.value).map_err(|complaint| reader.problem(complaint.of(node.key, node.at))).ok();
    Named { written: Some(node), value }
}

fn identity<'t>(
    reader: &mut Reader<'_>,
    chain: Named<'t, Vec<CertificateDer<'static>>>,
    key: Named<'t, PrivateKeyDer<'static>>,
) -> Option<Identity> {
    let alone = match (chain.written, key.written) {
        (Some(chain), None) => {
            Some((chain, "`certificate` without `key`", "name the file of its private key as `key`"))
        }
        (None, Some(key)) => {
            Some((key, "`key` without `certificate`", "name the file with its certificate as `certificate`"))
        }
        _ => None,
    };
    if let Some((node, message, hint)) = alone {
        reader.problem(Problem::error(node.at, message).hint(hint));
    }
    let (node, chain, key) = (key.written?, chain.value?, key.value?);
    match pem::belong_together(&chain, &key) {
        Ok(()) => Some(Identity { chain, key: Arc::new(key) }),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            None
        }
    }
}
