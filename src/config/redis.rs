//! `[store.redis]`: the shared store.

use super::file::{self, MAX_TOKEN_BYTES};
use super::model::{OnStoreError, Redis, RedisMode, Secret};
use super::problem::{Complaint, Problem, quote};
use super::server::{MAX_TIMEOUT, MIN_TIMEOUT};
use super::tree::{Node, Reader, Table};
use crate::time::Millis;
use ::redis::IntoConnectionInfo;

const MAX_INSTANCES: i64 = 10_000;

/// The longest prefix: every key begins with it.
const MAX_PREFIX_BYTES: usize = 64;

pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Redis {
    const MODES: &[(&str, RedisMode)] =
        &[("single", RedisMode::Single), ("sentinel", RedisMode::Sentinel), ("cluster", RedisMode::Cluster)];
    const ON_ERROR: &[(&str, OnStoreError)] =
        &[("local", OnStoreError::Local), ("open", OnStoreError::Open), ("closed", OnStoreError::Closed)];
    let mode = table.option(reader, "mode", |reader, node| reader.word(node, MODES)).unwrap_or(RedisMode::Single);
    let urls = match table.take("urls") {
        Some(node) => urls(reader, node, mode),
        None => vec![Secret::new("redis://127.0.0.1:6379/0")],
    };
    let master = table.option(reader, "master", Reader::text);
    let username = table.option(reader, "username", Reader::text).map(|name| name.value);
    let password = table.take("password_file").and_then(|node| password(reader, node));
    tls(reader, table);
    let prefix = table.option(reader, "prefix", |reader, node| reader.parsed(node, "a prefix of keys", prefix));
    let timeout = table.option(reader, "timeout", |reader, node| reader.span(node, MIN_TIMEOUT..=MAX_TIMEOUT));
    let on_error = table.option(reader, "on_error", |reader, node| reader.word(node, ON_ERROR));
    let instances = table.option(reader, "instances", |reader, node| reader.integer(node, 1..=MAX_INSTANCES));
    // What an unknown key holds may be a password; its line is shown with the complaint.
    for entry in table.rest() {
        reader.sources.mask(entry.at);
    }
    Redis {
        mode,
        urls,
        master: master.map_or_else(|| "mymaster".to_owned(), |master| master.value),
        username: username.filter(|name| !name.is_empty()),
        password,
        prefix: prefix.map_or_else(|| "sluicegate".to_owned(), |prefix| prefix.value),
        timeout: timeout.unwrap_or(Millis(50)),
        on_error: on_error.unwrap_or(OnStoreError::Local),
        instances: instances.and_then(|instances| u32::try_from(instances).ok()).unwrap_or(1),
    }
}

/// A URL may hold a password, so no message quotes one.
fn urls(reader: &mut Reader<'_>, node: Node<'_>, mode: RedisMode) -> Vec<Secret> {
    let mut urls = Vec::new();
    if node.is_text() {
        reader.sources.mask(node.at);
        let hint = "such as urls = [\"redis://127.0.0.1:6379/0\"]";
        reader.problem(Problem::error(node.at, "`urls` must be a list, not a string").hint(hint));
        return urls;
    }
    for element in reader.list(node).unwrap_or_default() {
        let Some(url) = reader.secret(element, "a list of strings") else { continue };
        match url.value.split_once("://").map(|(scheme, _)| scheme) {
            Some("redis") if mode == RedisMode::Single && !urls.is_empty() => {
                let problem = Problem::error(element.at, "`urls`: the mode \"single\" has one server");
                reader.problem(problem.hint("remove the others; behind sentinels, write mode = \"sentinel\""));
            }
            // The client's own reading: what it cannot use is told here and not when the gateway starts.
            Some("redis") if url.value.as_str().into_connection_info().is_ok() => urls.push(Secret::new(url.value)),
            Some("rediss") => reader.unavailable(element.at, "TLS towards Redis, rediss://,"),
            _ => {
                let problem = Problem::error(element.at, "`urls`: expected a URL such as \"redis://127.0.0.1:6379/0\"");
                reader.problem(problem.hint("it begins with redis://, or with rediss:// for TLS"));
            }
        }
    }
    reader.filled(urls, node, "name at least one \"redis://host:port\"").unwrap_or_default()
}

fn password(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Secret> {
    if node.described() == "the string \"\"" {
        return None;
    }
    let path = reader.path(node)?;
    match file::read_text(&path.value, MAX_TOKEN_BYTES) {
        Ok(text) => Some(Secret::new(text.trim_end_matches(['\r', '\n']))),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            None
        }
    }
}

fn prefix(text: &str) -> Result<String, Complaint> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=MAX_PREFIX_BYTES).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err(Complaint::new(format!("expected 1 to {MAX_PREFIX_BYTES} letters, digits and `-_.:`, not {}", quote(text))))
}

/// The defaults may be written out; anything else asks for TLS.
fn tls(reader: &mut Reader<'_>, table: &mut Table<'_>) {
    table.section(reader, "tls", |reader, table| {
        for key in ["ca_file", "certificate", "key"] {
            if let Some(node) = table.take(key)
                && reader.text(node).is_some_and(|text| !text.value.is_empty())
            {
                reader.unavailable(node.at, "TLS towards Redis, `tls`,");
            }
        }
        if let Some(node) = table.take("verify")
            && reader.boolean(node) == Some(false)
        {
            reader.unavailable(node.at, "TLS towards Redis, `tls`,");
        }
    });
}
