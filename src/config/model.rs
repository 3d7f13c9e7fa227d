//! The configuration as typed data: what the operator wrote, checked for form but with nothing derived.
//!
//! One field here is one key of the TOML; `docs/configuration.md` describes each. Values that a later check may
//! complain of keep their [`Place`], so that a message can point at them. References (a tier's name, an upstream's
//! name) are still text here; compiling the policy resolves them.

mod server;
mod store;
mod upstream;

use crate::algorithm::{Algorithm, Units, Window};
use crate::time::{Millis, Timestamp};
use ipnet::IpNet;
use std::path::PathBuf;
use std::sync::Arc;

pub use server::{Admin, Secret, Server, TlsListener};
pub use store::{Identity, Redis, RedisMode, RedisTls, Store};
pub use upstream::{Balance, HashKey, HealthCheck, Upstream, UpstreamProtocol, UpstreamServer, UpstreamTls};

/// Where a value stands: an index into [`super::Sources`] and a byte range in that file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: u16,
    pub start: u32,
    pub end: u32,
}

/// A value and where it was written. A default has the place of the table it would stand in.
#[derive(Clone, Debug)]
pub struct Located<T> {
    pub value: T,
    pub at: Place,
}

/// The whole configuration: main file, includes and keys file.
#[derive(Debug)]
pub struct Config {
    pub server: Server,
    pub admin: Admin,
    pub client_ip: ClientIp,
    pub paths: Paths,
    pub auth: Auth,
    pub store: Store,
    pub upstreams: Vec<Upstream>,
    pub tiers: Vec<Tier>,
    pub consumers: Vec<Consumer>,
    pub routes: Vec<Route>,
    /// `[[limits]]`: the layer `custom`.
    pub limits: Vec<Limit>,
    pub headers: Headers,
    pub rate_limited: RateLimited,
    pub log: Log,
    /// The main file and those it includes, as written; secrets masked.
    pub written: Arc<serde_json::Value>,
}

/// `[client_ip]`: who a request is from.
#[derive(Debug)]
pub struct ClientIp {
    pub trusted_proxies: Vec<IpNet>,
    pub header: ClientIpHeader,
    pub ipv4_prefix: u8,
    pub ipv6_prefix: u8,
    pub allow: Vec<IpNet>,
    pub deny: Vec<IpNet>,
    pub exempt: Vec<IpNet>,
    pub limits: Vec<Limit>,
}

/// The one header that names the client when the peer is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIpHeader {
    XForwardedFor,
    Forwarded,
    /// A header that holds one address; its lower-case name.
    Single(String),
}

/// What happens to `%2F` in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedSlash {
    Reject,
    Keep,
}

/// `[paths]`: which spellings of a path are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths {
    pub encoded_slash: EncodedSlash,
    pub merge_slashes: bool,
}

/// A place in a request where an API key may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    Bearer,
    /// Lower-case header name.
    Header(String),
    Query(String),
    Cookie(String),
}

/// `[auth]`: where keys are looked for and what their absence means.
#[derive(Debug)]
pub struct Auth {
    pub sources: Vec<KeySource>,
    /// Whether a request without a key may pass as the tier `anonymous`.
    pub anonymous: bool,
    /// Per address, for wrong keys.
    pub failures: Located<Rate>,
    pub forward_credentials: bool,
}

/// `[tiers.NAME]`: what a plan grants.
#[derive(Debug)]
pub struct Tier {
    pub name: Located<String>,
    pub limits: Vec<Limit>,
    pub rate_limited: Option<RateLimited>,
}

/// `[consumers.NAME]` of the keys file: a caller, whatever key it uses.
#[derive(Debug)]
pub struct Consumer {
    pub name: Located<String>,
    pub tier: Located<String>,
    /// When present, instead of the tier's.
    pub limits: Option<Vec<Limit>>,
    pub keys: Vec<Key>,
}

/// `[[consumers.NAME.keys]]`: the digest of a key and where the key is good.
#[derive(Debug)]
pub struct Key {
    pub id: Located<String>,
    pub sha256: Located<[u8; 32]>,
    pub not_before: Option<Timestamp>,
    pub expires: Option<Timestamp>,
    /// Absent: every route.
    pub routes: Option<Vec<Located<KeyPattern>>>,
    /// Absent: every address.
    pub allow_ips: Option<Vec<IpNet>>,
    pub disabled: bool,
}

/// A key's route scope: `GET /api/*`; `*` ending the pattern is any rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// Upper-case; absent: any.
    pub method: Option<String>,
    /// Normalised as request paths are, without the ending `*`; `*` alone is the empty prefix. A segment that
    /// starts with `:` is a parameter and stands for any one segment (`{id}` is stored as `:id`).
    pub path: String,
    /// Whether it ends in `*`.
    pub any_rest: bool,
}

/// `POST /api/export`, `/api/users/:id`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePattern {
    /// As written: the default name.
    pub text: String,
    /// Upper-case; absent: any.
    pub method: Option<String>,
    /// Absent for `*`, the route of all that no other takes.
    pub path: Option<Vec<PatternSegment>>,
}

/// One segment of a route's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternSegment {
    Literal(String),
    /// `:id` or `{id}`.
    Parameter(String),
    /// `*rest`: only as the last segment.
    Rest(String),
}

/// Whether a route needs a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAuth {
    Optional,
    Required,
    /// The key is not looked at.
    None,
}

/// `[[routes]]`: what is matched, what it costs and where it goes.
#[derive(Debug)]
pub struct Route {
    pub at: Place,
    /// At least one.
    pub matches: Vec<Located<RoutePattern>>,
    /// Given or, by default, the first match as written (`*` is `default`).
    pub name: Located<String>,
    /// Canonical (lower case, no port, no trailing dot); `*.` starts a wildcard. Empty: any host.
    pub hosts: Vec<Located<String>>,
    /// May be absent when there is only one upstream.
    pub upstream: Option<Located<String>>,
    pub cost: Located<Units>,
    pub auth: RouteAuth,
    /// Who may call; absent: every tier.
    pub tiers: Option<Vec<Located<String>>>,
    pub limits: Vec<Limit>,
    pub skip: Vec<Layer>,
    pub timeout: Option<Millis>,
    pub strip_prefix: Option<Located<String>>,
    pub rate_limited: Option<RateLimited>,
}

/// Where a limit was written, which decides its default `per` and its place in the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Ip,
    Key,
    Endpoint,
    Custom,
}

impl Layer {
    /// The name in configuration, metrics and bodies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Key => "key",
            Self::Endpoint => "endpoint",
            Self::Custom => "custom",
        }
    }
}

/// `"100/min"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Whole requests, 1 to 1e12.
    pub count: i64,
    pub window: Window,
    /// The window as written (`min`, `10s`), for default names.
    pub window_text: String,
}

/// What has a counter of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Ip,
    Consumer,
    /// The consumer if known, else the address.
    Subject,
    Route,
    Tier,
    Host,
    Method,
    Global,
    /// Lower-case name.
    Header(String),
    /// A path parameter.
    Param(String),
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Cost,
    Requests,
}

/// Whether a limit refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    Shadow,
}

/// What happens when the store fails. A memory store never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreError {
    Local,
    Open,
    Closed,
}

/// `when`: all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// Lower-case name and the exact value.
    pub headers: Vec<(String, String)>,
    pub ip: Option<Vec<IpNet>>,
    /// Upper-case.
    pub method: Option<Vec<String>>,
    /// Canonical, may be `*.` wildcards.
    pub host: Option<Vec<String>>,
}

/// One limit, wherever it is written.
#[derive(Clone, Debug)]
pub struct Limit {
    pub at: Place,
    pub name: Option<Located<String>>,
    pub algorithm: Located<&'static dyn Algorithm>,
    pub rate: Located<Rate>,
    /// Whole requests.
    pub burst: Option<Located<i64>>,
    /// Whole units of cost.
    pub queue: Option<Located<i64>>,
    pub max_wait: Option<Located<Millis>>,
    pub per: Option<Located<Vec<Scope>>>,
    pub counts: Counts,
    pub tiers: Option<Vec<Located<String>>>,
    pub mode: Mode,
    pub on_store_error: Option<OnStoreError>,
    pub expose: bool,
    pub when: Option<When>,
}

/// Which rate-limit header fields are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Classic,
    Ietf,
    Both,
    Off,
}

/// The meaning of the classic and the X- reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    Epoch,
    Delta,
}

/// `[headers]`: what a client is told of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    pub dialect: Dialect,
    pub x_ratelimit: bool,
    pub reset: Reset,
}

/// `[responses.rate_limited]`; each absent field is taken from the next wider table (route, tier, global).
#[derive(Clone, Debug, Default)]
pub struct RateLimited {
    pub documentation_url: Option<String>,
    pub upgrade_url: Option<String>,
    pub content_type: Option<String>,
    /// The text of `body` or of `body_file`.
    pub body: Option<Located<String>>,
    /// Checked to be valid header names and values.
    pub headers: Vec<(String, String)>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
    /// Text on a terminal, else JSON.
    Auto,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    Off,
    Stdout,
    File(PathBuf),
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: tracing::Level,
    pub format: LogFormat,
    pub access: AccessLog,
}

/// A shared name; names of limits, tiers and routes are handed to every request.
pub type Name = Arc<str>;
