//! The keys file: consumers and the digests of their keys.
//!
//! What stands where a digest should may be a key itself, written there by mistake. So no message repeats it, and it
//! is masked where its line is shown.

use super::datetime;
use super::key_parts;
use super::limit;
use super::model::{Consumer, Key, KeyPattern, Layer, Located};
use super::names;
use super::pattern;
use super::problem::{Complaint, Problem, name};
use super::tree::{Node, Reader, Table};
use crate::time::Timestamp;

/// A keys file.
pub(super) fn read_file(reader: &mut Reader<'_>, file: u16) -> Vec<Consumer> {
    let mut consumers = Vec::new();
    let text = reader.sources.text(file).expect("the file was added before");
    if let Some(parts) = key_parts::parts(&text) {
        let before = reader.noted();
        if reader.parts(file, &parts, |reader, root| consumers.extend(read_all(reader, root))) {
            if are_different(&consumers) {
                return consumers;
            }
            reader.forget(file, before);
        }
    }
    reader.document(file, |reader, root| consumers = read_all(reader, root));
    consumers
}

fn are_different(consumers: &[Consumer]) -> bool {
    let mut names: Vec<&str> = consumers.iter().map(|consumer| consumer.name.value.as_str()).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

/// The top level of the keys file.
pub(super) fn read_all(reader: &mut Reader<'_>, root: &mut Table<'_>) -> Vec<Consumer> {
    let Some(node) = root.take("consumers") else { return Vec::new() };
    let consumers = reader.table(node, |reader, table| {
        let entries = table.take_all();
        entries.into_iter().filter_map(|entry| consumer(reader, entry)).collect()
    });
    consumers.unwrap_or_default()
}

fn consumer(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Consumer> {
    if let Err(complaint) = names::id(node.key) {
        reader.problem(complaint.of(node.key, node.key_at));
    }
    reader
        .table(node, |reader, table| {
            let tier = match table.take("tier") {
                Some(node) => reader.text(node),
                None => {
                    let message = format!("the consumer {} has no `tier`", name(node.key));
                    reader.missing(table.at, message, "such as tier = \"free\"");
                    None
                }
            };
            let limits = table.option(reader, "limits", |reader, node| limit::list(reader, node, Layer::Key));
            let keys = table.option(reader, "keys", keys);
            Some(Consumer {
                name: Located { value: node.key.to_owned(), at: node.key_at },
                tier: tier?,
                limits,
                keys: keys.unwrap_or_default(),
            })
        })
        .flatten()
}

fn keys(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Key>> {
    if node.is_table() {
        let problem = Problem::error(node.at, "`keys` must be a list of keys, not a table");
        reader.problem(problem.hint("each is a table of its own: [[consumers.NAME.keys]]"));
        return None;
    }
    let elements = reader.list(node)?;
    Some(elements.into_iter().filter_map(|element| reader.table(element, key).flatten()).collect())
}

fn key(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<Key> {
    let id = required(reader, table, "id", "such as id = \"acme-2026\"");
    let id = id.and_then(|node| reader.parsed(node, "an id", names::id));
    if let Some(id) = &id {
        reader.unique("key id", &id.value, id.at);
    }
    let sha256 = required(reader, table, "sha256", "the digest of the whole key: 64 hex digits");
    let sha256 = sha256.and_then(|node| digest(reader, node));
    let not_before = table.option(reader, "not_before", instant);
    let expires_node = table.take("expires");
    let expires = expires_node.and_then(|node| instant(reader, node));
    if let (Some(not_before), Some(expires), Some(node)) = (not_before, expires, expires_node)
        && expires <= not_before
    {
        reader.problem(Problem::error(node.at, "`expires` is not later than `not_before`"));
    }
    let routes = table.option(reader, "routes", routes);
    let allow_ips = table.option(reader, "allow_ips", |reader, node| {
        let networks = reader.networks(node)?;
        reader.filled(networks, node, "for every address leave it out; to stop the key write disabled = true")
    });
    let disabled = table.option(reader, "disabled", Reader::boolean);
    // What an unknown key holds may be the secret; its line is shown with the complaint.
    for entry in table.rest() {
        reader.sources.mask(entry.at);
    }
    Some(Key { id: id?, sha256: sha256?, not_before, expires, routes, allow_ips, disabled: disabled.unwrap_or(false) })
}

fn required<'t>(reader: &mut Reader<'_>, table: &mut Table<'t>, key: &'static str, hint: &str) -> Option<Node<'t>> {
    let node = table.take(key);
    if node.is_none() {
        reader.missing(table.at, format!("the key has no `{key}`"), hint);
    }
    node
}

/// The digest of a key. Its text is never repeated.
fn digest(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Located<[u8; 32]>> {
    if !node.is_text() {
        reader.sources.mask(node.at);
        reader.problem(Problem::error(node.at, "`sha256` must be a string of 64 hex digits"));
        return None;
    }
    let text = reader.text(node)?;
    let Some(value) = hex(&text.value) else {
        reader.sources.mask(node.at);
        let length = text.value.chars().count();
        let message = format!("`sha256` must be 64 hex digits; this text has {length} characters or others");
        reader.problem(
            Problem::error(node.at, message).hint(
                "the digest of a key is what `printf %s \"$KEY\" | sha256sum` prints; the key itself never stands in a file",
            ),
        );
        return None;
    };
    let digits = text.value.to_ascii_lowercase();
    reader.unique("key digest", &digits, node.at).then_some(Located { value, at: node.at })
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return None;
    }
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(out)
}

fn instant(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Timestamp> {
    let Some(datetime) = node.as_datetime() else {
        reader.wrong_type(node, "a time such as 2026-01-01T00:00:00Z, without quotes");
        return None;
    };
    match datetime::timestamp(datetime) {
        Ok(instant) => Some(instant),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            None
        }
    }
}

fn routes(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Located<KeyPattern>>> {
    let mut routes: Vec<Located<KeyPattern>> = Vec::new();
    for element in reader.list(node)? {
        let Some(pattern) = reader.parsed(element, "a pattern such as \"GET /api/*\"", pattern::key) else { continue };
        if routes.iter().any(|known| known.value == pattern.value) {
            reader.problem(Complaint::new("the pattern is named twice").of(node.key, element.at));
        } else {
            routes.push(pattern);
        }
    }
    reader.filled(routes, node, "for every route leave it out; to stop the key write disabled = true")
}
