//! Whole files: what is read of them, and what each mistake is told, with its line and column.

mod files;
mod mistakes;
mod random;
mod redis;

use super::model::*;
use super::*;
use crate::algorithm::{UNIT, Window};
use crate::time::{Millis, Timestamp};

/// What a configuration cannot be without, put after the part that a test is about.
const REST: &str = "\n[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n[[routes]]\nmatch = \"*\"\n";

/// The whole example of the format, without what later versions bring.
const FULL: &str = r##"
[server]
listen   = ["0.0.0.0:8080"]
threads  = 0
drain    = "30s"
timeouts = { header = "10s", idle = "75s", body = "60s" }
max_header_bytes = "32KiB"
max_body_bytes   = "0"
max_connections_per_ip = 0
max_parked       = 10000
runtime_dir      = "/run/sluicegate"

[admin]
listen = "127.0.0.1:9090"

[client_ip]
trusted_proxies = ["10.0.0.0/8"]
header          = "x-forwarded-for"
ipv4_prefix     = 32
ipv6_prefix     = 64
allow  = []
deny   = []
exempt = []
limits = [{ name = "per-ip", rate = "1000/min" }]

[paths]
encoded_slash = "reject"
merge_slashes = true

[auth]
sources    = ["bearer", "header:x-api-key"]
anonymous  = "allow"
failures   = "10/min"
forward_credentials = false

[store]
backend = "memory"

[store.memory]
max_entries = 1_000_000
snapshot    = ""

[upstreams.api]
servers  = ["127.0.0.1:9000", { address = "127.0.0.1:9001", weight = 2 }]
balance  = "round_robin"
protocol = "http1"
timeouts = { connect = "2s", read = "30s", write = "30s" }
retries  = 1

[tiers.anonymous]
limits = [{ rate = "30/min" }]
[tiers.free]
limits = [
  { name = "free-minute", rate = "60/min" },
  { name = "free-day",    rate = "1000/day", algorithm = "fixed_window" },
]
[tiers.pro]
limits = [
  { name = "pro-burst", algorithm = "token_bucket", rate = "600/min", burst = 100 },
  { name = "pro-day",   rate = "50000/day", algorithm = "fixed_window", on_store_error = "closed" },
]
[tiers.enterprise]
limits = []

[[routes]]
match    = "POST /api/export"
name     = "POST /api/export"
upstream = "api"
cost     = 5
auth     = "required"
tiers    = ["pro", "enterprise"]
limits   = [
  { rate = "10/min", tiers = ["pro"] },
  { name = "export-all", rate = "100/min", per = "route" },
]
skip     = []
timeout  = "60s"
strip_prefix = "/api"

[[routes]]
match = "GET /api/users/:id/profile"
host  = "api.example.com"
[[routes]]
match = "*"
limits = [{ rate = "300/min" }]

[[limits]]
name = "tenant"
per  = ["header:x-tenant", "route"]
rate = "5000/h"
when = { "header:x-dev" = "true", ip = ["192.168.0.0/16"], method = ["POST"], host = ["a.example.com"] }

[headers]
dialect     = "classic"
x_ratelimit = true
reset       = "epoch"

[responses.rate_limited]
documentation_url = "https://docs.example.com/rate-limits"
upgrade_url       = "https://example.com/pricing"
content_type      = "application/json"
body              = ""
body_file         = ""
headers           = { "x-support" = "api@example.com" }

[log]
level  = "info"
format = "auto"
access = "stdout"
"##;

const KEYS: &str = r#"
[consumers.acme]
tier   = "pro"
limits = []

[[consumers.acme.keys]]
id         = "acme-2026"
sha256     = "93a4000000000000000000000000000000000000000000000000000000000ad2"
not_before = 2026-01-01T00:00:00Z
expires    = 2027-01-01T00:00:00Z
routes     = ["GET *"]
allow_ips  = ["203.0.113.0/24"]
disabled   = false
"#;

fn no_environment(_: &str) -> Option<String> {
    None
}

fn from_text(text: &str) -> Loaded {
    load_text("test.toml", text, None, &no_environment)
}

/// Every problem as `line:column message (hint)`.
fn complaints(loaded: &Loaded) -> Vec<String> {
    let shown = |problem: &Problem| {
        let record = loaded.sources.record(problem);
        let hint = record.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}:{} {}{hint}", record.line.unwrap_or(0), record.column.unwrap_or(0), record.message)
    };
    loaded.problems.iter().map(shown).collect()
}

/// The configuration of a text without problems.
fn config(text: &str, keys: Option<&str>) -> Config {
    let loaded = load_text("test.toml", text, keys, &no_environment);
    assert_eq!(complaints(&loaded), Vec::<String>::new());
    loaded.config.expect("a text without problems is a configuration")
}

#[test]
fn the_full_example_is_read_as_written() {
    let config = config(FULL, Some(KEYS));
    assert_eq!(config.server, super::tests::config(REST, None).server, "the example shows the defaults");
    assert_eq!(config.client_ip.trusted_proxies, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(config.upstreams[0].servers[1].address.value, "127.0.0.1:9001");
    assert_eq!(config.upstreams[0].servers[1].weight, 2);
    let tiers: Vec<&str> = config.tiers.iter().map(|tier| tier.name.value.as_str()).collect();
    assert_eq!(tiers, ["anonymous", "free", "pro", "enterprise"], "in the order of the file");
    let burst = &config.tiers[2].limits[0];
    assert_eq!((burst.algorithm.value.name(), burst.burst.as_ref().unwrap().value), ("token_bucket", 100));
    assert_eq!(config.tiers[2].limits[1].on_store_error, Some(OnStoreError::Closed));
    let export = &config.routes[0];
    assert_eq!((export.name.value.as_str(), export.cost.value), ("POST /api/export", 5 * UNIT));
    assert_eq!((export.auth, export.timeout), (RouteAuth::Required, Some(Millis(60_000))));
    assert_eq!(export.strip_prefix.as_ref().unwrap().value, "/api");
    assert_eq!(export.limits[1].per.as_ref().unwrap().value, [Scope::Route]);
    assert_eq!(config.routes[1].hosts[0].value, "api.example.com");
    assert_eq!(config.routes[2].name.value, "default");
    let tenant = &config.limits[0];
    assert_eq!(tenant.per.as_ref().unwrap().value, [Scope::Header("x-tenant".to_owned()), Scope::Route]);
    let when = tenant.when.as_ref().unwrap();
    assert_eq!(when.headers, [("x-dev".to_owned(), "true".to_owned())]);
    assert_eq!(when.method.as_deref(), Some(&["POST".to_owned()][..]));
    assert_eq!(config.rate_limited.headers, [("x-support".to_owned(), "api@example.com".to_owned())]);
    assert!(config.rate_limited.body.is_none());
    let acme = &config.consumers[0];
    assert_eq!((acme.name.value.as_str(), acme.tier.value.as_str()), ("acme", "pro"));
    assert!(acme.limits.as_ref().is_some_and(Vec::is_empty), "no limits is not the tier's limits");
    let key = &acme.keys[0];
    assert_eq!((key.sha256.value[0], key.sha256.value[31]), (0x93, 0xd2));
    assert_eq!(key.not_before, Some(Timestamp(1_767_225_600_000)));
    assert!(key.routes.as_ref().unwrap()[0].value.any_rest);
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = config(REST, None);
    let server = &config.server;
    assert_eq!(server.listen, ["0.0.0.0:8080".parse().unwrap()]);
    assert_eq!((server.threads, server.max_parked, server.max_body_bytes), (0, 10_000, 0));
    assert_eq!((server.max_header_bytes, server.drain), (32_768, Millis(30_000)));
    assert_eq!(
        (server.header_timeout, server.idle_timeout, server.body_timeout),
        (Millis(10_000), Millis(75_000), Millis(60_000))
    );
    assert_eq!(server.runtime_dir, Path::new("/run/sluicegate"));
    assert_eq!(config.admin, Admin { listen: "127.0.0.1:9090".parse().unwrap(), token: None });
    assert_eq!(config.client_ip.header, ClientIpHeader::XForwardedFor);
    assert_eq!((config.client_ip.ipv4_prefix, config.client_ip.ipv6_prefix), (32, 64));
    assert!(config.client_ip.limits.is_empty() && config.client_ip.trusted_proxies.is_empty());
    assert_eq!(config.paths, Paths { encoded_slash: EncodedSlash::Reject, merge_slashes: true });
    assert_eq!(config.auth.sources, [KeySource::Bearer, KeySource::Header("x-api-key".to_owned())]);
    assert!(config.auth.anonymous && !config.auth.forward_credentials);
    assert_eq!(config.auth.failures.value.count, 10);
    assert_eq!(config.store.max_entries, 1_000_000);
    assert!(config.store.redis.is_none());
    let upstream = &config.upstreams[0];
    assert_eq!(
        (upstream.connect_timeout, upstream.read_timeout, upstream.write_timeout, upstream.retries),
        (Millis(2000), Millis(30_000), Millis(30_000), 1)
    );
    assert_eq!((upstream.protocol, upstream.servers[0].weight), (UpstreamProtocol::Http1, 1));
    assert_eq!((&upstream.balance, &upstream.tls, &upstream.health), (&Balance::RoundRobin, &None, &None));
    let route = &config.routes[0];
    assert_eq!((route.cost.value, route.auth), (UNIT, RouteAuth::Optional));
    assert!(route.tiers.is_none() && route.skip.is_empty() && route.timeout.is_none());
    assert_eq!(config.headers, Headers { dialect: Dialect::Classic, x_ratelimit: true, reset: Reset::Epoch });
    assert_eq!(config.log, Log { level: tracing::Level::INFO, format: LogFormat::Auto, access: AccessLog::Stdout });
    assert!(config.consumers.is_empty() && config.tiers.is_empty());
}

#[test]
fn a_limit_without_an_algorithm_is_a_sliding_window_counter() {
    let config = config(&format!("[[limits]]\nrate = \"5/500ms\"\nper = \"global\"\n{REST}"), None);
    let limit = &config.limits[0];
    assert_eq!(limit.algorithm.value.name(), "sliding_window_counter");
    assert_eq!((limit.rate.value.count, limit.rate.value.window), (5, Window::Span(Millis(500))));
    assert_eq!((limit.counts, limit.mode, limit.expose), (Counts::Cost, Mode::Enforce, true));
    assert!(limit.on_store_error.is_none() && limit.when.is_none() && limit.tiers.is_none());
}

#[test]
fn b130_two_windows_on_one_subject_are_both_kept() {
    let text = format!("[tiers.anonymous]\nlimits = [{{ rate = \"10/1s\" }}, {{ rate = \"100/60s\" }}]\n{REST}");
    let config = config(&text, None);
    let rates: Vec<(i64, &str)> = config.tiers[0]
        .limits
        .iter()
        .map(|limit| (limit.rate.value.count, limit.rate.value.window_text.as_str()))
        .collect();
    assert_eq!(rates, [(10, "1s"), (100, "60s")]);
}

#[test]
fn defaults_of_features_that_are_not_available_yet_may_be_written_out() {
    let text = format!(
        "[server]\nmax_connections_per_ip = 0\n[store.redis]\ntls = {{ ca_file = \"\", certificate = \"\", key = \"\", verify = true }}\n{REST}[upstreams.b]\nservers = [\"a:1\"]\nbalance = \"round_robin\"\nprotocol = \"h2\"\n"
    );
    assert_eq!(config(&text, None).upstreams[1].protocol, UpstreamProtocol::H2);
}

#[test]
fn an_upstream_says_how_its_servers_are_chosen_checked_and_trusted() {
    let upstream = |lines: &str| {
        let text = format!("{REST}[upstreams.b]\nservers = [\"a.test:1\", \"[::1]:2\"]\n{lines}");
        config(&text, None).upstreams.remove(1)
    };
    let balances = [
        ("round_robin", Balance::RoundRobin),
        ("least_connections", Balance::LeastConnections),
        ("hash:ip", Balance::Hash(HashKey::Ip)),
        ("hash:consumer", Balance::Hash(HashKey::Consumer)),
        ("hash:header:X-Tenant", Balance::Hash(HashKey::Header("x-tenant".to_owned()))),
    ];
    for (text, balance) in balances {
        assert_eq!(upstream(&format!("balance = \"{text}\"")).balance, balance);
    }
    let health = |path: &str, interval, timeout, fall, rise| {
        Some(HealthCheck { path: path.to_owned(), interval: Millis(interval), timeout: Millis(timeout), fall, rise })
    };
    assert_eq!(upstream("health = { path = \"/h\" }").health, health("/h", 5000, 1000, 3, 1));
    let all = "health = { path = \"/h?x=1\", interval = \"100ms\", timeout = \"2s\", fall = 1, rise = 5 }";
    assert_eq!(upstream(all).health, health("/h?x=1", 100, 2000, 1, 5));
    let tls = UpstreamTls { server_name: None, authorities: None, verify: true };
    assert_eq!(upstream("tls = {}").tls.as_ref(), Some(&tls));
    let written = upstream("tls = { server_name = \"\", ca_file = \"\", verify = true }").tls;
    assert_eq!(written.as_ref(), Some(&tls));
    let named = upstream("tls = { server_name = \"api.internal\" }").tls.and_then(|tls| tls.server_name);
    assert_eq!(named.as_deref(), Some("api.internal"));
}

#[test]
fn certificates_that_are_not_looked_at_are_a_warning() {
    let text = format!("{REST}[upstreams.b]\nservers = [\"a.test:1\"]\ntls = {{ verify = false }}\n");
    let loaded = from_text(&text);
    assert!(loaded.config.is_some_and(|config| config.upstreams[1].tls.as_ref().is_some_and(|tls| !tls.verify)));
    assert!(loaded.problems.iter().any(|problem| problem.severity == Severity::Warning), "{:?}", loaded.problems);
}

#[test]
fn costs_of_three_decimals_are_exact() {
    for (written, units) in [("0.1", 100), ("0.001", 1), ("2.50", 2500), ("0", 0), ("1_000", 1_000_000)] {
        let text = format!("{REST}[[routes]]\nmatch = \"/a\"\ncost = {written}\n");
        assert_eq!(config(&text, None).routes[1].cost.value, units, "{written}");
    }
}

#[test]
fn a_problem_is_shown_with_its_line_and_a_record_of_it_is_json() {
    let loaded = from_text(&format!("[server]\n\tthreads = \"5\"\n{REST}"));
    let shown = loaded.sources.render(&loaded.problems[0]);
    assert_eq!(
        shown,
        "error: `threads` must be an integer from 0 to 1024, not the string \"5\"\n --> test.toml:2:12\n2 |  threads = \"5\"\n  |            ^^^\n  help: without quotes: 5\n"
    );
    let record = serde_json::to_value(loaded.sources.record(&loaded.problems[0])).unwrap();
    let expected = serde_json::json!({
        "severity": "error", "file": "test.toml", "line": 2, "column": 12,
        "message": "`threads` must be an integer from 0 to 1024, not the string \"5\"", "hint": "without quotes: 5",
    });
    assert_eq!(record, expected);
    let unplaced = serde_json::to_value(Sources::default().record(&Problem::unplaced("x"))).unwrap();
    assert_eq!(unplaced["line"], serde_json::Value::Null);
}

#[test]
fn all_problems_are_reported_together_in_the_order_of_the_file() {
    let text = "[server]\nthreads = \"5\"\ndrain = 30\n[[routes]]\nmatch = \"get /a\"\nlimits = [{ rate = \"0/min\" }, { rat = \"1/s\" }]\n[upstreams.a]\nservers = []\n";
    let lines: Vec<String> =
        complaints(&from_text(text)).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["2:11", "3:9", "5:9", "6:20", "6:31", "6:33", "8:11"]);
}

#[test]
fn b18_syntax_errors_have_a_place_and_do_not_hide_the_rest() {
    let text = format!("[server]\nthreads = \n[log]\nlevel = \"loud\"\n{REST}");
    let loaded = from_text(&text);
    let complaints = complaints(&loaded);
    assert!(complaints[0].starts_with("2:") && complaints[0].contains("not valid TOML"), "{complaints:?}");
    assert!(complaints[1].starts_with("4:9 `level`"), "{complaints:?}");
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(loaded.config.is_none(), "what is read of half a file is not a configuration");
}

#[test]
fn b18_a_duplicate_key_or_table_is_an_error() {
    let vectors = [
        ("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", "3:1 `level` is defined twice"),
        ("[tiers.a]\n[tiers.a]\n", "2:8 `a` is defined twice"),
        ("[log]\n[paths]\n[log]\n", "3:2 `log` is defined twice"),
    ];
    for (text, expected) in vectors {
        let complaints = complaints(&from_text(&format!("{text}{REST}")));
        assert_eq!(complaints, [expected], "{text}");
    }
}

#[test]
fn an_empty_file_lacks_upstreams_and_routes() {
    for text in ["", "\n# nothing\n", "\u{feff}"] {
        let complaints = complaints(&from_text(text));
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("1:1 there is no [upstreams.NAME]"));
        assert!(complaints[1].starts_with("1:1 there is no [[routes]]"));
    }
}

#[test]
fn the_admin_token_is_never_shown() {
    let admin = Admin { listen: "127.0.0.1:1".parse().unwrap(), token: Some(Secret::new("s3cret")) };
    assert!(!format!("{admin:?}").contains("s3cret"));
    assert_eq!(admin.token.unwrap().reveal(), "s3cret");
}

#[test]
fn b135_what_stands_where_a_digest_should_is_not_repeated() {
    let keys = "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"a\"\nsha256 = \"sk_live_secret\"\nkey = \"sk_other_secret\"\n[[consumers.a.keys]]\nid = \"b\"\nsha256 = 12345\n";
    let loaded = load_text("test.toml", REST, Some(keys), &no_environment);
    assert_eq!(loaded.problems.len(), 3);
    let shown: String = loaded.problems.iter().map(|problem| loaded.sources.render(problem)).collect();
    assert!(!shown.contains("secret") && !shown.contains("12345"), "{shown}");
    assert!(shown.contains("sha256 = ****************") && shown.contains("key = *****************"), "{shown}");
}
