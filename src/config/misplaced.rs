//! Where a key belongs that was written where it is not valid.
//!
//! A limit in the wrong table limits nothing, so the complaint about it should end the search. Only hints come from
//! here, never a decision.

const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &[
            "rate",
            "burst",
            "queue",
            "max_wait",
            "per",
            "counts",
            "algorithm",
            "expose",
            "when",
            "on_store_error",
            "max",
        ],
        "it belongs in a limit: `limits = [{ rate = \"100/min\" }]`, or [[limits]]",
    ),
    (
        &["limits", "limit"],
        "limits belong in [client_ip], in a tier, in a consumer, in a route, or at the top level as [[limits]]",
    ),
    (
        &[
            "requests",
            "requets",
            "count",
            "quota",
            "window",
            "period",
            "per_second",
            "per_minute",
            "rpm",
            "rps",
            "limit_by",
        ],
        "a limit is written `rate = \"<count>/<window>\"`, such as \"100/min\"",
    ),
    (&["include"], "`include` belongs at the top of the main file, before its first table"),
    (&["consumers", "consumer", "keys"], "consumers and their keys belong in the file that `auth.keys_file` names"),
    (&["keys_file", "sources", "anonymous", "failures", "forward_credentials"], "it belongs in [auth]"),
    (&["trusted_proxies", "exempt", "allow", "deny", "ipv4_prefix", "ipv6_prefix"], "it belongs in [client_ip]"),
    (
        &["listen", "threads", "drain", "max_header_bytes", "max_body_bytes", "max_parked", "runtime_dir"],
        "it belongs in [server]",
    ),
    (&["match", "strip_prefix", "skip", "cost"], "it belongs in a route: [[routes]]"),
    (&["dialect", "x_ratelimit", "reset"], "it belongs in [headers]"),
    (
        &["documentation_url", "upgrade_url", "content_type", "body", "body_file", "rate_limited"],
        "it belongs in [responses.rate_limited]",
    ),
    (&["balance", "retries", "servers", "protocol"], "it belongs in an upstream: [upstreams.NAME]"),
    (&["max_entries", "snapshot"], "it belongs in [store.memory]"),
    (&["encoded_slash", "merge_slashes"], "it belongs in [paths]"),
    (&["access", "level", "format"], "it belongs in [log]"),
    (&["token_file"], "it belongs in [admin]"),
    (&["tier", "allow_ips", "sha256", "not_before", "expires"], "it belongs in the keys file, in a consumer or a key"),
];

/// Where a key of that name is valid.
pub(super) fn belongs(key: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, hint)| *hint)
}
