//! The configuration while its files are read: one section after another, file after file.
//!
//! A table of single things (`[server]`) may stand in one file only. Named things and lists are gathered from all
//! files, main file first.

use super::auth;
use super::client_ip;
use super::limit;
use super::model::{
    Admin, Auth, ClientIp, Config, Consumer, EncodedSlash, Headers, Layer, Limit, Located, Log, Paths, PatternSegment,
    Place, RateLimited, Route, Server, Store, Tier, Upstream,
};
use super::output;
use super::problem::{Problem, quote};
use super::responses;
use super::route;
use super::server;
use super::store;
use super::tier;
use super::tree::{Reader, Table};
use super::upstream;
use std::path::PathBuf;
use std::sync::Arc;

/// What has been read so far.
#[derive(Default)]
pub(super) struct Draft {
    server: Option<Server>,
    admin: Option<Admin>,
    client_ip: Option<ClientIp>,
    paths: Option<Paths>,
    auth: Option<(Auth, Option<Located<PathBuf>>)>,
    store: Option<Store>,
    headers: Option<Headers>,
    rate_limited: Option<RateLimited>,
    log: Option<Log>,
    upstreams: Vec<Upstream>,
    tiers: Vec<Tier>,
    routes: Vec<Route>,
    limits: Vec<Limit>,
    /// Whether any file has routes or upstreams, valid or not.
    has_routes: bool,
    has_upstreams: bool,
    pub consumers: Vec<Consumer>,
    /// See [`Config::written`].
    pub written: serde_json::Map<String, serde_json::Value>,
}

impl Draft {
    /// Reads the top level of the main file or of an included one.
    pub fn read(&mut self, reader: &mut Reader<'_>, root: &mut Table<'_>) {
        single(reader, root, "server", &mut self.server, server::read);
        single(reader, root, "admin", &mut self.admin, server::read_admin);
        single(reader, root, "client_ip", &mut self.client_ip, client_ip::read);
        single(reader, root, "paths", &mut self.paths, client_ip::read_paths);
        single(reader, root, "auth", &mut self.auth, auth::read);
        single(reader, root, "store", &mut self.store, store::read);
        single(reader, root, "headers", &mut self.headers, output::read_headers);
        single(reader, root, "responses", &mut self.rate_limited, responses::read);
        single(reader, root, "log", &mut self.log, output::read_log);
        if let Some(node) = root.take("upstreams") {
            self.has_upstreams = true;
            self.upstreams.extend(reader.table(node, upstream::read_all).unwrap_or_default());
        }
        if let Some(node) = root.take("tiers") {
            self.tiers.extend(reader.table(node, tier::read_all).unwrap_or_default());
        }
        if let Some(node) = root.take("routes") {
            self.has_routes = true;
            self.routes.extend(route::read_all(reader, node));
        }
        if let Some(node) = root.take("limits") {
            self.limits.extend(limit::list(reader, node, Layer::Custom).unwrap_or_default());
        }
    }

    /// The file that `auth.keys_file` names.
    pub fn keys_file(&self) -> Option<&Located<PathBuf>> {
        self.auth.as_ref().and_then(|(_, keys_file)| keys_file.as_ref())
    }

    /// Puts defaults where nothing was written. `main` is the place of what is missing altogether.
    pub fn finish(self, reader: &mut Reader<'_>, main: Place) -> Config {
        if !self.has_upstreams {
            let hint = "such as [upstreams.api] with servers = [\"127.0.0.1:9000\"]";
            reader.missing(main, "there is no [upstreams.NAME]", hint);
        }
        if !self.has_routes {
            let hint = "such as [[routes]] with match = \"*\"";
            reader.missing(main, "there is no [[routes]]: every request would be answered 404", hint);
        }
        let config = Config {
            server: self.server.unwrap_or_else(|| reader.absent_table(main, server::read)),
            admin: self.admin.unwrap_or_else(|| reader.absent_table(main, server::read_admin)),
            client_ip: self.client_ip.unwrap_or_else(|| reader.absent_table(main, client_ip::read)),
            paths: self.paths.unwrap_or_else(|| reader.absent_table(main, client_ip::read_paths)),
            auth: self.auth.unwrap_or_else(|| reader.absent_table(main, auth::read)).0,
            store: self.store.unwrap_or_else(|| reader.absent_table(main, store::read)),
            upstreams: self.upstreams,
            tiers: self.tiers,
            consumers: self.consumers,
            routes: self.routes,
            limits: self.limits,
            headers: self.headers.unwrap_or_else(|| reader.absent_table(main, output::read_headers)),
            rate_limited: self.rate_limited.unwrap_or_default(),
            log: self.log.unwrap_or_else(|| reader.absent_table(main, output::read_log)),
            written: Arc::new(serde_json::Value::Object(self.written)),
        };
        unreachable_escapes(reader, &config);
        config
    }
}

/// A table that only one file may have. A second one is read for its problems and then dropped.
fn single<T>(
    reader: &mut Reader<'_>,
    root: &mut Table<'_>,
    key: &'static str,
    slot: &mut Option<T>,
    read: impl FnOnce(&mut Reader<'_>, &mut Table<'_>) -> T,
) {
    let Some(node) = root.take(key) else { return };
    reader.unique("table", key, node.key_at);
    let value = reader.table(node, |reader, table| read(reader, table));
    if slot.is_none() {
        *slot = value;
    }
}

/// An encoded slash in a route's pattern, where every request with one is answered 400.
fn unreachable_escapes(reader: &mut Reader<'_>, config: &Config) {
    if config.paths.encoded_slash == EncodedSlash::Keep {
        return;
    }
    let has_slash = |segment: &PatternSegment| matches!(segment, PatternSegment::Literal(text) if text.contains("%2F"));
    for pattern in config.routes.iter().flat_map(|route| &route.matches) {
        if pattern.value.path.as_ref().is_some_and(|segments| segments.iter().any(has_slash)) {
            let message = format!("{} has an encoded slash, which [paths] rejects", quote(&pattern.value.text));
            reader.problem(Problem::error(pattern.at, message).hint("write encoded_slash = \"keep\" in [paths]"));
        }
    }
}
