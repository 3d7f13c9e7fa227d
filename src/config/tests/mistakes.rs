//! One mistake a row: the part of the file that has it, where it is reported, and what is said.

use super::*;

/// A text, the place, what the message has and what the hint has.
pub(super) type Row = (&'static str, &'static str, &'static str, &'static str);

fn expect_one(text: &str, loaded: &Loaded, place: &str, message: &str, hint: &str) {
    let complaints = complaints(loaded);
    assert_eq!(complaints.len(), 1, "{text}\n{complaints:#?}");
    let record = loaded.sources.record(&loaded.problems[0]);
    assert_eq!(complaints[0].split(' ').next(), Some(place), "{text}\n{complaints:?}");
    assert!(record.message.contains(message), "{text}\n{complaints:?}");
    let given = record.hint.unwrap_or_default();
    assert!(given.contains(hint) && hint.is_empty() == given.is_empty(), "{text}\n{complaints:?}");
}

pub(super) fn check(rows: &[Row]) {
    for (text, place, message, hint) in rows {
        expect_one(text, &from_text(&format!("{text}\n{REST}")), place, message, hint);
    }
}

#[test]
fn b18_a_mistyped_or_misplaced_key_is_named() {
    check(&[
        ("[[route]]\nmatch = \"/a\"", "1:3", "unknown key `route` in the top level", "did you mean `routes`?"),
        ("[Server]", "1:2", "unknown key `Server`", "did you mean `server`?"),
        ("[server]\nThreads = 1", "2:1", "unknown key `Threads` in `server`", "`threads`"),
        ("[server]\nmax-parked = 1", "2:1", "unknown key `max-parked`", "`max_parked`"),
        (
            "[tiers.a]\nlimits = [{ rate = \"5/s\", requets = 5 }]",
            "2:27",
            "unknown key `requets` in `limits`",
            "<count>/<window>",
        ),
        ("[tiers.a]\nlimits = [{ rate = \"5/s\", Mode = \"shadow\" }]", "2:27", "unknown key `Mode`", "`mode`"),
        ("[tiers.a]\nlimit = [{ rate = \"5/s\" }]", "2:1", "unknown key `limit` in `a`", "`limits`"),
        (
            "[server]\nlimits = [{ rate = \"5/s\" }]",
            "2:1",
            "unknown key `limits` in `server`",
            "in [client_ip], in a tier",
        ),
        ("[[routes]]\nmatch = \"/a\"\nrate = \"5/s\"", "3:1", "unknown key `rate` in `routes`", "belongs in a limit"),
        ("[limits]\nrate = \"5/s\"", "1:1", "`limits` must be a list of limits", "[[limits]]"),
        ("[tiers.a]\nlimits = { rate = \"5/s\" }", "2:10", "`limits` must be a list of limits", "limits = [{"),
        ("[server]\ninclude = []", "2:1", "unknown key `include` in `server`", "before its first table"),
        ("[consumers.a]\ntier = \"x\"", "1:2", "unknown key `consumers`", "auth.keys_file"),
        ("[store]\nmax_entries = 5", "2:1", "unknown key `max_entries` in `store`", "[store.memory]"),
        ("[server.timeouts]\nread = \"5s\"", "2:1", "unknown key `read` in `timeouts`", ""),
        ("[\"a\\u0007b\"]", "1:2", "unknown key `a\\u{7}b`", ""),
    ]);
}

#[test]
fn b18_a_value_of_the_wrong_type_is_named() {
    check(&[
        (
            "[server]\nthreads = \"5\"",
            "2:11",
            "`threads` must be an integer from 0 to 1024, not the string \"5\"",
            "without quotes: 5",
        ),
        ("[server]\nthreads = 1.5", "2:11", "not the float 1.5", ""),
        ("[server]\nthreads = -1", "2:11", "must be an integer from 0 to 1024, not -1", ""),
        ("[server]\nthreads = 99999999999999999999", "2:11", "must be an integer", ""),
        ("[server]\ndrain = 30", "2:9", "must be a span such as \"30s\", not the bare number 30", "\"30s\""),
        ("[server]\ndrain = \"30\"", "2:9", "not \"30\"", "\"30s\""),
        ("[server]\ndrain = \"8day\"", "2:9", "must be from 0 ms to 604800000 ms", ""),
        ("[server]\ndrain = true", "2:9", "must be a span such as \"30s\", not true", ""),
        ("[server]\ntimeouts = { idle = \"0s\" }", "2:21", "must be from 1 ms", ""),
        ("[server]\ntimeouts = \"5s\"", "2:12", "`timeouts` must be a table, not the string \"5s\"", ""),
        (
            "[server]\nmax_body_bytes = 1024",
            "2:18",
            "must be a size such as \"32KiB\", not the bare number 1024",
            "\"1024B\"",
        ),
        ("[server]\nmax_body_bytes = \"10mb\"", "2:18", "expected a size", "\"10MB\""),
        ("[server]\nmax_header_bytes = \"0\"", "2:20", "must be from 1024 to 1048576 bytes, not 0", ""),
        ("[paths]\nmerge_slashes = \"true\"", "2:17", "`merge_slashes` must be true or false", "without quotes: true"),
        (
            "[paths]\nencoded_slash = \"Keep\"",
            "2:17",
            "expected \"reject\" or \"keep\", not \"Keep\"",
            "did you mean \"keep\"?",
        ),
        ("server = 5", "1:10", "`server` must be a table, not the integer 5", ""),
        ("[client_ip]\ntrusted_proxies = \"10.0.0.0/8\"", "2:19", "must be a list, not the string", ""),
        ("[client_ip]\ndeny = [5]", "2:9", "must be a network such as \"10.0.0.0/8\", not the integer 5", ""),
        (
            "[headers]\ndialect = \"clasic\"",
            "2:11",
            "expected \"classic\", \"ietf\", \"both\" or \"off\", not \"clasic\"",
            "\"classic\"",
        ),
        ("[headers]\nreset = 2026-01-01", "2:9", "not the time 2026-01-01", ""),
        ("[log]\nlevel = \"warning\"", "2:9", "expected \"error\", \"warn\"", "\"warn\""),
    ]);
}

#[test]
fn mistakes_of_the_server_and_of_addresses() {
    check(&[
        ("[server]\nlisten = []", "2:10", "`listen` must not be empty", "0.0.0.0:8080"),
        ("[server]\nlisten = \"0.0.0.0:8080\"", "2:10", "`listen` must be a list", ""),
        ("[server]\nlisten = [\":8080\"]", "2:11", "expected an address and port", "\"0.0.0.0:8080\""),
        ("[server]\nlisten = [\"localhost:8080\"]", "2:11", "expected an address and port", "\"127.0.0.1:8080\""),
        ("[server]\nlisten = [\"127.0.0.1\"]", "2:11", "expected an address and port", "port is missing"),
        ("[server]\nlisten = [\"8080\"]", "2:11", "expected an address and port", "\"0.0.0.0:8080\""),
        (
            "[server]\nlisten = [\"[::]:80\", \"[::0]:80\"]",
            "2:22",
            "listen address `[::]:80` is defined twice",
            "test.toml:2:11",
        ),
        (
            "[admin]\nlisten = \"0.0.0.0:8080\"\n[server]",
            "2:10",
            "listen address `0.0.0.0:8080` is defined twice",
            "test.toml:3:1",
        ),
        ("[admin]\nlisten = \"0.0.0.0:9090\"", "2:10", "not loopback, and there is no `token_file`", "holds a token"),
        ("[admin]\nlisten = \"[::]:9090\"\ntoken_file = \"\"", "2:10", "not loopback", "holds a token"),
        ("[admin]\nlisten = \"[::]:9090\"\ntoken_file = \"${NOPE:-}\"", "2:10", "not loopback", "holds a token"),
        ("[admin]\ntoken_file = \"/nowhere/token\"", "2:14", "`token_file`: cannot read /nowhere/token", ""),
        ("[client_ip]\ndeny = [\"10.1.2.3/8\"]", "2:9", "bits set beyond its prefix", "\"10.0.0.0/8\""),
        ("[client_ip]\nipv4_prefix = 0", "2:15", "an integer from 8 to 32, not 0", ""),
        ("[client_ip]\nipv6_prefix = 129", "2:15", "an integer from 16 to 128, not 129", ""),
        ("[client_ip]\nheader = \"x forwarded\"", "2:10", "expected a header's name", ""),
        ("[client_ip]\ntrusted_proxies = [\"0.0.0.0/0\"]", "2:19", "any client could choose its own address", ""),
        ("[client_ip]\nexempt = [\"::/0\"]", "2:10", "no limit applies to anyone", ""),
        ("[store]\nmemory = { max_entries = 0 }", "2:26", "an integer from 1", ""),
        ("[log]\naccess = \"of\"", "2:10", "`access` must be \"off\" or \"stdout\" or a file, not \"of\"", "./of"),
        ("[log]\naccess = \"stdotu\"", "2:10", "not \"stdotu\"", "\"stdout\""),
    ]);
}

#[test]
fn mistakes_of_keys_and_sources() {
    check(&[
        ("[auth]\nsources = []", "2:11", "`sources` must not be empty", "bearer"),
        ("[auth]\nsources = [\"Bearer\"]", "2:12", "expected \"bearer\", \"header:NAME\"", "\"bearer\""),
        ("[auth]\nsources = [\"header\"]", "2:12", "expected \"bearer\"", "name it"),
        ("[auth]\nsources = [\"headers:x-a\"]", "2:12", "expected \"bearer\"", "\"header:x-a\""),
        ("[auth]\nsources = [\"query:k\", \"query:k\"]", "2:23", "named twice", ""),
        ("[auth]\nsources = [\"header:X-Key\", \"header:x-key\"]", "2:28", "named twice", ""),
        ("[auth]\nanonymous = \"no\"", "2:13", "expected \"allow\" or \"deny\"", ""),
        ("[auth]\nfailures = 10", "2:12", "must be a rate such as \"10/min\", not the integer 10", ""),
        ("[auth]\nkeys_file = \"nowhere.toml\"", "2:13", "cannot read nowhere.toml", ""),
    ]);
    let rows: &[Row] = &[
        ("[consumers.a]", "1:1", "the consumer `a` has no `tier`", "tier = \"free\""),
        ("[consumers.\"a b\"]\ntier = \"t\"", "1:12", "visible ASCII", ""),
        ("[consumer.a]\ntier = \"t\"", "1:2", "unknown key `consumer`", "`consumers`"),
        (
            "[consumers.a]\ntier = \"t\"\nkeys = { id = \"x\" }",
            "3:8",
            "`keys` must be a list of keys",
            "[[consumers.NAME.keys]]",
        ),
        ("[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nsha256 = \"HEX1\"", "3:1", "the key has no `id`", "id ="),
        ("[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"", "3:1", "the key has no `sha256`", "64 hex"),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"abc\"",
            "5:10",
            "64 hex digits; this text has 3",
            "sha256sum",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nexpires = 2026-01-01T00:00:00",
            "6:11",
            "not an instant",
            "2026-01-01T00:00:00Z",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nexpires = \"2026-01-01\"",
            "6:11",
            "must be a time such as",
            "",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nnot_before = 2026-01-01T00:00:00Z\nexpires = 2026-01-01T00:00:00Z",
            "7:11",
            "not later than `not_before`",
            "",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nroutes = []",
            "6:10",
            "`routes` must not be empty",
            "disabled = true",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nroutes = [\"get /a\"]",
            "6:11",
            "\"get\" is not a method",
            "\"GET\"",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\nallow_ips = []",
            "6:13",
            "`allow_ips` must not be empty",
            "disabled = true",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\n[consumers.b]\ntier = \"t\"\n[[consumers.b.keys]]\nid = \"k\"\nsha256 = \"HEX2\"",
            "9:6",
            "key id `k` is defined twice",
            "keys:4:6",
        ),
        (
            "[consumers.a]\ntier = \"t\"\n[[consumers.a.keys]]\nid = \"k\"\nsha256 = \"HEX1\"\n[[consumers.a.keys]]\nid = \"l\"\nsha256 = \"HEX1\"",
            "8:10",
            "key digest",
            "keys:5:10",
        ),
    ];
    for (keys, place, message, hint) in rows {
        let keys = keys.replace("HEX1", &"1a".repeat(32)).replace("HEX2", &"2b".repeat(32));
        let loaded = load_text("test.toml", REST, Some(&keys), &no_environment);
        expect_one(&keys, &loaded, place, message, hint);
    }
}

#[test]
fn mistakes_of_upstreams_and_tiers() {
    check(&[
        ("[upstreams.b]", "1:1", "the upstream `b` has no `servers`", "servers ="),
        ("[upstreams.b]\nservers = []", "2:11", "`servers` must not be empty", "host:port"),
        ("[upstreams.\"b c\"]\nservers = [\"a:1\"]", "1:12", "a name has 1 to 64", ""),
        ("[upstreams.b]\nservers = [\"http://a:1\"]", "2:12", "expected \"host:port\"", "write \"a:1\""),
        ("[upstreams.b]\nservers = [\"a:1\", \"a:1\"]", "2:19", "\"a:1\" is listed twice", "weight"),
        ("[upstreams.b]\nservers = [{ weight = 2 }]", "2:12", "a server has an `address`", "address ="),
        ("[upstreams.b]\nservers = [{ address = \"a:1\", weight = 0 }]", "2:40", "an integer from 1", ""),
        ("[upstreams.b]\nservers = [{ address = \"a:1\", wieght = 2 }]", "2:31", "unknown key `wieght`", "`weight`"),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nprotocol = \"http2\"",
            "3:12",
            "expected \"http1\" or \"h2\"",
            "\"http1\"",
        ),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nbalance = \"roundrobin\"",
            "3:11",
            "expected \"round_robin\"",
            "\"round_robin\"",
        ),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nbalance = \"hash:header:a b\"",
            "3:11",
            "not \"hash:header:a b\"",
            "hash:header:NAME",
        ),
        ("[upstreams.b]\nservers = [\"a:1\"]\nbalance = 5", "3:11", "`balance` must be a way to choose", ""),
        ("[upstreams.b]\nservers = [\"a:1\"]\nretries = 11", "3:11", "an integer from 0 to 10", ""),
        ("[tiers.\"a/b\"]", "1:8", "a name has 1 to 64", ""),
        ("tiers = []", "1:9", "`tiers` must be a table, not a list", ""),
        ("tiers = { a = 5 }", "1:15", "`a` must be a table", ""),
    ]);
}

#[test]
fn mistakes_of_health_checks_and_tls() {
    check(&[
        ("[upstreams.b]\nservers = [\"a:1\"]\nhealth = {}", "3:10", "`health` has no `path`", "/healthz"),
        ("[upstreams.b]\nservers = [\"a:1\"]\nhealth = \"/h\"", "3:10", "`health` must be a table", ""),
        ("[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"h\" }", "3:19", "expected a path", "slash"),
        ("[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"/a b\" }", "3:19", "expected a path", ""),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"/h\", interval = \"1ms\" }",
            "3:36",
            "`interval` must be from 50 ms",
            "",
        ),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"/h\", timeout = 5 }",
            "3:35",
            "must be a span",
            "\"5s\"",
        ),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"/h\", fall = 0 }",
            "3:32",
            "`fall` must be an integer from 1",
            "",
        ),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\nhealth = { path = \"/h\", raise = 2 }",
            "3:25",
            "unknown key `raise`",
            "`rise`",
        ),
        ("[upstreams.b]\nservers = [\"a:1\"]\ntls = true", "3:7", "`tls` must be a table, not true", ""),
        (
            "[upstreams.b]\nservers = [\"a:1\"]\ntls = { server_name = \"https://a\" }",
            "3:23",
            "expected a host name or an address",
            "without scheme",
        ),
        ("[upstreams.b]\nservers = [\"a:1\"]\ntls = { ca_file = \"none.pem\" }", "3:19", "cannot read", ""),
        ("[upstreams.b]\nservers = [\"a:1\"]\ntls = { verify = \"no\" }", "3:18", "true or false", ""),
        ("[upstreams.b]\nservers = [\"a:1\"]\ntls = { sni = \"a\" }", "3:9", "unknown key `sni`", ""),
        (
            "[upstreams.b]\nservers = [\"a-:1\"]\ntls = {}",
            "2:12",
            "no certificate can have the name \"a-\"",
            "server_name",
        ),
    ]);
}

#[test]
fn mistakes_of_limits() {
    check(&[
        ("[[limits]]\nper = \"ip\"", "1:1", "the limit has no `rate`", "\"100/min\""),
        ("[[limits]]\nrate = \"5/s\"", "1:1", "needs `per`", "\"global\""),
        ("[[limits]]\nper = \"ip\"\nrate = \"0/min\"", "3:8", "grants nothing", "deny"),
        ("[[limits]]\nper = \"ip\"\nrate = 5", "3:8", "must be a rate such as \"100/min\", not the integer 5", ""),
        ("[[limits]]\nper = \"ip\"\nrate = \"0.5/s\"", "3:8", "not a whole number", "\"1/2s\""),
        ("[[limits]]\nper = []\nrate = \"5/s\"", "2:7", "`per` must not be empty", "\"global\""),
        ("[[limits]]\nper = \"sub\"\nrate = \"5/s\"", "2:7", "expected \"ip\", \"consumer\"", "\"subject\""),
        ("[[limits]]\nper = [\"ip\", \"ip\"]\nrate = \"5/s\"", "2:14", "named twice", ""),
        ("[[limits]]\nper = 5\nrate = \"5/s\"", "2:7", "must be a string or a list of strings", ""),
        ("[[limits]]\nname = \"Big\"\nper = \"ip\"\nrate = \"5/s\"", "2:8", "beginning with a letter", "\"big\""),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nalgorithm = \"token-bucket\"",
            "4:13",
            "expected \"fixed_window\"",
            "\"token_bucket\"",
        ),
        ("[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nalgorithm = \"gcra\"", "4:13", "not \"gcra\"", ""),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nburst = 5",
            "4:1",
            "`burst` is for `token_bucket` only; this limit's algorithm is `sliding_window_counter`",
            "token_bucket",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nalgorithm = \"token_bucket\"\nburst = 0",
            "5:9",
            "an integer from 1",
            "",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nalgorithm = \"token_bucket\"\nqueue = 5",
            "5:1",
            "`queue` is for `leaky_bucket` only",
            "leaky_bucket",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nmax_wait = \"1s\"",
            "4:1",
            "`max_wait` is for `leaky_bucket` only",
            "leaky_bucket",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nalgorithm = \"leaky_bucket\"\nmax_wait = 5",
            "5:12",
            "not the bare number 5",
            "\"5s\"",
        ),
        ("[[limits]]\nper = \"ip\"\nrate = \"5/s\"\ntiers = []", "4:9", "`tiers` must not be empty", "leave it out"),
        ("[[limits]]\nper = \"ip\"\nrate = \"5/s\"\ntiers = [\"a\", \"a\"]", "4:15", "named twice", ""),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nmode = \"shaddow\"",
            "4:8",
            "expected \"enforce\" or \"shadow\"",
            "\"shadow\"",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\ncounts = \"request\"",
            "4:10",
            "expected \"cost\" or \"requests\"",
            "\"requests\"",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\non_store_error = \"close\"",
            "4:18",
            "expected \"local\"",
            "\"closed\"",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nexpose = \"false\"",
            "4:10",
            "true or false",
            "without quotes: false",
        ),
        ("[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = {}", "4:8", "names no condition", "no `when`"),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { methods = [\"GET\"] }",
            "4:10",
            "unknown key `methods` in `when`",
            "`method`",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { \"headers:x\" = \"1\" }",
            "4:10",
            "unknown key `headers:x` in `when`",
            "header:NAME",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { \"header:x\" = 1 }",
            "4:23",
            "must be a string, not the integer 1",
            "",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { \"header:a b\" = \"1\" }",
            "4:10",
            "expected a header's name",
            "",
        ),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { method = [\"get\"] }",
            "4:20",
            "\"get\" is not a method",
            "\"GET\"",
        ),
        ("[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { host = [\"a:80\"] }", "4:18", "expected a host", "\"a\""),
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nwhen = { ip = [] }",
            "4:15",
            "`ip` must not be empty",
            "leave it out",
        ),
        (
            "[[limits]]\nname = \"a\"\nper = \"ip\"\nrate = \"5/s\"\n[client_ip]\nlimits = [{ name = \"a\", rate = \"5/s\" }]",
            "2:8",
            "limit `a` is defined twice",
            "test.toml:6:20",
        ),
    ]);
}

#[test]
fn mistakes_of_routes() {
    check(&[
        ("[[routes]]\nname = \"a\"", "1:1", "the route has no `match`", "match ="),
        ("[[routes]]\nmatch = []", "2:9", "`match` must not be empty", "at least one"),
        ("[[routes]]\nmatch = 5", "2:9", "must be a string or a list of strings", ""),
        ("[[routes]]\nmatch = \"post /a\"", "2:9", "\"post\" is not a method", "\"POST\""),
        ("[[routes]]\nmatch = \"/a/\"", "2:9", "equals no normalised path", "\"/a\""),
        ("[[routes]]\nmatch = [\"/a\", \"/a//b\"]", "2:16", "equals no normalised path", "\"/a/b\""),
        ("[[routes]]\nmatch = \"GTE /a\"", "2:9", "`GTE` is not a method in common use", "`GET`"),
        ("[[routes]]\nmatch = \"/a%2Fb\"", "2:9", "has an encoded slash", "\"keep\""),
        ("[[routes]]\nmatch = \"/a\"\nname = \"\"", "3:8", "expected 1 to 256 bytes", ""),
        (
            "[[routes]]\nmatch = \"/a\"\n[[routes]]\nmatch = \"/a\"",
            "4:9",
            "route `/a` is defined twice",
            "test.toml:2:9",
        ),
        ("[[routes]]\nmatch = \"/a\"\nhost = \"a.com:80\"", "3:8", "expected a host", "\"a.com\""),
        ("[[routes]]\nmatch = \"/a\"\nhost = [\"a.com\", \"A.com\"]", "3:18", "named twice", ""),
        ("[[routes]]\nmatch = \"/a\"\nhost = []", "3:8", "`host` must not be empty", "leave it out"),
        ("[[routes]]\nmatch = \"/a\"\ncost = \"5\"", "3:8", "must be a decimal number, not the string \"5\"", ""),
        ("[[routes]]\nmatch = \"/a\"\ncost = -1", "3:8", "`-1` is negative", ""),
        ("[[routes]]\nmatch = \"/a\"\ncost = 0.0001", "3:8", "at most 3 decimals", ""),
        ("[[routes]]\nmatch = \"/a\"\ncost = nan", "3:8", "not written in plain digits", ""),
        ("[[routes]]\nmatch = \"/a\"\ncost = 1000000001", "3:8", "above that", ""),
        (
            "[[routes]]\nmatch = \"/a\"\nauth = \"require\"",
            "3:8",
            "expected \"optional\", \"required\" or \"none\"",
            "\"required\"",
        ),
        ("[[routes]]\nmatch = \"/a\"\ntiers = []", "3:9", "`tiers` must not be empty", "leave it out"),
        ("[[routes]]\nmatch = \"/a\"\nskip = [\"custom\"]", "3:9", "expected \"ip\", \"key\" or \"endpoint\"", ""),
        ("[[routes]]\nmatch = \"/a\"\nskip = [\"ip\", \"ip\"]", "3:15", "named twice", ""),
        ("[[routes]]\nmatch = \"/a\"\ntimeout = 60", "3:11", "not the bare number 60", "\"60s\""),
        ("[[routes]]\nmatch = \"/a\"\nstrip_prefix = \"api\"", "3:16", "is not a path", "slash"),
        ("[[routes]]\nmatch = \"/a\"\nupstream = 5", "3:12", "must be a string", ""),
    ]);
    let table = "[upstreams.a]\nservers = [\"a:1\"]\n[routes]\nmatch = \"/a\"";
    expect_one(table, &from_text(table), "3:1", "`routes` must be a list of routes", "[[routes]]");
}

#[test]
fn mistakes_of_responses() {
    check(&[
        ("[responses.rate_limited]\nbody_file = \"none\"", "2:13", "cannot read none", ""),
        ("[responses.rate_limited]\ndocumentation_url = \"docs\"", "2:21", "expected a link", ""),
        ("[responses.rate_limited]\nupgrade_url = \"ftp://a/b\"", "2:15", "expected a link", ""),
        ("[responses.rate_limited]\ncontent_type = \"json\"", "2:16", "expected a media type", ""),
        ("[responses.rate_limited]\nheaders = { \"a b\" = \"c\" }", "2:13", "`a b` is not a header's name", ""),
        ("[responses.rate_limited]\nheaders = { x-a = \"b\\n\" }", "2:19", "expected visible ASCII", ""),
        ("[responses.rate_limited]\nheaders = { X-A = \"b\", x-a = \"b\" }", "2:24", "named twice", ""),
        (
            "[responses.rate_limited]\nheaders = { Content-Length = \"5\" }",
            "2:13",
            "`content-length` is the gateway's own",
            "another name",
        ),
        (
            "[responses.rate_limited]\nheaders = { RateLimit-Limit = \"5\" }",
            "2:13",
            "`ratelimit-limit` is the gateway's own",
            "another name",
        ),
        (
            "[responses.rate_limited]\nheaders = { retry-after = \"5\" }",
            "2:13",
            "`retry-after` is the gateway's own",
            "another name",
        ),
        (
            "[responses.rate_limited]\nheaders = { content-type = \"a/b\" }",
            "2:13",
            "`content-type` is not set among",
            "content_type =",
        ),
        ("[responses]\nbody = \"x\"", "2:1", "unknown key `body` in `responses`", "[responses.rate_limited]"),
        ("[tiers.a.responses.rate_limited]\nupgrade_url = \"x\"", "2:15", "expected a link", ""),
    ]);
}

#[test]
fn what_is_not_available_yet_is_refused_by_name() {
    check(&[
        (
            "[[limits]]\nper = \"ip\"\nrate = \"5/s\"\nmax = 5",
            "4:1",
            "`max`, requests in flight at once, is not available yet",
            "remove it",
        ),
        (
            "[[limits]]\nper = \"ip\"\nalgorithm = \"concurrency\"",
            "3:13",
            "\"concurrency\" is not available yet",
            "remove it",
        ),
        (
            "[[routes]]\nmatch = \"/a\"\ncost = { reserve = 5 }",
            "3:8",
            "a cost known late (`reserve`, `actual`, `refund`) is not available yet",
            "remove it",
        ),
    ]);
}
