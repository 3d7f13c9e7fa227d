//! `[store.redis]`: the shared store.

mod tls;

use super::file::{self, MAX_TOKEN_BYTES};
use super::model::{OnStoreError, Place, Redis, RedisMode, RedisTls, Secret};
use super::problem::{Complaint, Problem, quote};
use super::server::{MAX_TIMEOUT, MIN_TIMEOUT};
use super::tree::{Node, Reader, Table};
use crate::time::Millis;
use ::redis::IntoConnectionInfo;

const MAX_INSTANCES: i64 = 10_000;

/// The scheme that asks for TLS.
const TLS_SCHEME: &str = "rediss";

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
        None => Urls { list: vec![Secret::new("redis://127.0.0.1:6379/0")], tls: None, cleartext: None },
    };
    let master = table.option(reader, "master", Reader::text);
    let username = table.option(reader, "username", Reader::text).map(|name| name.value);
    let password = table.take("password_file").and_then(|node| password(reader, node));
    let (tls, data_tls) = tls_of(reader, table, mode, &urls);
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
        urls: urls.list,
        master: master.map_or_else(|| "mymaster".to_owned(), |master| master.value),
        username: username.filter(|name| !name.is_empty()),
        password,
        data_tls,
        tls,
        prefix: prefix.map_or_else(|| "sluicegate".to_owned(), |prefix| prefix.value),
        timeout: timeout.unwrap_or(Millis(50)),
        on_error: on_error.unwrap_or(OnStoreError::Local),
        instances: instances.and_then(|instances| u32::try_from(instances).ok()).unwrap_or(1),
    }
}

/// The URLs, and where the first of each kind stands.
struct Urls {
    list: Vec<Secret>,
    tls: Option<Place>,
    cleartext: Option<Place>,
}

/// A URL may hold a password, so no message quotes one.
fn urls(reader: &mut Reader<'_>, node: Node<'_>, mode: RedisMode) -> Urls {
    let mut urls = Urls { list: Vec::new(), tls: None, cleartext: None };
    if node.is_text() {
        reader.sources.mask(node.at);
        let hint = "such as urls = [\"redis://127.0.0.1:6379/0\"]";
        reader.problem(Problem::error(node.at, "`urls` must be a list, not a string").hint(hint));
        return urls;
    }
    for element in reader.list(node).unwrap_or_default() {
        let Some(url) = reader.secret(element, "a list of strings") else { continue };
        if mode == RedisMode::Single && !urls.list.is_empty() {
            let problem = Problem::error(element.at, "`urls`: the mode \"single\" has one server");
            reader.problem(problem.hint("remove the others; behind sentinels, write mode = \"sentinel\""));
            continue;
        }
        match url_scheme(&url.value) {
            Ok(scheme) => {
                let first = if scheme == TLS_SCHEME { &mut urls.tls } else { &mut urls.cleartext };
                first.get_or_insert(element.at);
                urls.list.push(Secret::new(url.value));
            }
            Err(complaint) => reader.problem(complaint.of(element.key, element.at)),
        }
    }
    urls.list = reader.filled(urls.list, node, "name at least one \"redis://host:port\"").unwrap_or_default();
    urls
}

/// The scheme of a URL that the client can use: what it cannot is told here and not when the gateway starts.
fn url_scheme(url: &str) -> Result<&str, Complaint> {
    let unknown = || {
        let complaint = Complaint::new("expected a URL such as \"redis://127.0.0.1:6379/0\"");
        complaint.hint("it begins with redis://, or with rediss:// for TLS")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    if scheme == TLS_SCHEME && rest.contains('#') {
        let complaint = Complaint::new("a URL ends before a `#`");
        return Err(complaint.hint("servers that need not prove who they are: tls = { verify = false }"));
    }
    // The client's own reading, which is the same for both.
    let cleartext = format!("redis://{rest}");
    let usable = ["redis", TLS_SCHEME].contains(&scheme) && cleartext.as_str().into_connection_info().is_ok();
    if usable { Ok(scheme) } else { Err(unknown()) }
}

/// How TLS is spoken, and whether with the data servers: their URLs say so; behind sentinels, whose URLs are the
/// sentinels', that `tls` is written.
fn tls_of(reader: &mut Reader<'_>, table: &mut Table<'_>, mode: RedisMode, urls: &Urls) -> (RedisTls, bool) {
    let node = table.take("tls");
    let written = match node.and_then(|node| reader.table(node, tls::read)) {
        Some(written) => written,
        None => reader.absent_table(table.at, tls::read),
    };
    let data_tls = if mode == RedisMode::Sentinel { node.is_some() } else { urls.tls.is_some() };
    if let (false, None, Some(said)) = (data_tls, urls.tls, written.said) {
        let problem = Problem::error(said, "`tls` has no effect: no URL asks for TLS");
        reader.problem(problem.hint("write rediss:// instead of redis://"));
    }
    match (mode, urls.tls, urls.cleartext) {
        (RedisMode::Cluster, Some(_), Some(cleartext)) => {
            let problem = Problem::error(cleartext, "`urls`: the servers of a Cluster all speak TLS, or none does");
            reader.problem(problem.hint("write rediss:// in each URL"));
        }
        (RedisMode::Sentinel, Some(place), _) if !data_tls => {
            let problem = Problem::warning(place, "the sentinels are asked over TLS, but their master is not");
            reader.problem(problem.hint("for TLS to the data servers write tls = {}, or what it needs"));
        }
        _ => {}
    }
    (written.tls, data_tls)
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
