//! Browsers: preflights pass, refusals can be read.

use crate::support::*;

const ORIGIN: (&str, &str) = ("origin", "https://app.example.com");
const PREFLIGHT: [(&str, &str); 2] = [ORIGIN, ("access-control-request-method", "POST")];

fn world() -> Gateway {
    let toml = "[tiers.free]\nlimits = [{ name = \"key\", rate = \"1/h\" }]\n\
                [[routes]]\nmatch = \"*\"\nauth = \"required\"\nlimits = [{ name = \"route\", rate = \"1/h\" }]\n";
    let setup = Setup::new(toml).client_ip("limits = [{ name = \"per-ip\", rate = \"20/h\" }]");
    setup.keys(&consumer("acme", "free")).before_script(|request| {
        let cors =
            [("Access-Control-Allow-Origin", "https://app.example.com"), ("Access-Control-Allow-Methods", "POST")];
        Reply::status(200, if request.method == "OPTIONS" { &cors } else { &[] }, "")
    })
}

#[test]
fn b121_a_preflight_needs_no_key_and_draws_on_the_ip_layer_alone() {
    let gateway = world();
    assert_eq!([0; 2].map(|_| gateway.get_as(&key_of("acme"), "/x").status), [200, 429]);
    for index in 0..3 {
        let answer = gateway.request("OPTIONS", "/x", &PREFLIGHT, b"");
        assert_eq!(answer.status, 200, "preflight {index}");
        assert_eq!(answer.one("access-control-allow-methods"), "POST", "the upstream answers it");
    }
    assert_eq!(gateway.upstream.count(), 4);
    let decided = |limit| gateway.metric("sluicegate_decisions_total", &[("limit", limit)]);
    assert_eq!((decided("key"), decided("route")), (2.0, 2.0), "the two GETs alone");
}

#[test]
fn b121_preflights_are_not_without_any_limit() {
    let gateway = world();
    let statuses: Vec<u16> = (0..25).map(|_| gateway.request("OPTIONS", "/x", &PREFLIGHT, b"").status).collect();
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (20, 5));
}

#[test]
fn b121_an_options_request_that_is_no_preflight_is_limited_like_any_other() {
    let gateway = world();
    for headers in [&[][..], &[ORIGIN][..], &[PREFLIGHT[1]][..]] {
        assert_eq!(gateway.request("OPTIONS", "/x", headers, b"").status, 401, "{headers:?}");
    }
    let bearer = format!("Bearer {}", key_of("acme"));
    let ask = || gateway.request("OPTIONS", "/x", &[("authorization", &bearer), ORIGIN], b"").status;
    assert_eq!([ask(), ask()], [200, 429]);
}

#[test]
fn b121_a_browser_can_read_what_the_gateway_refuses() {
    let gateway = world();
    let bearer = format!("Bearer {}", key_of("acme"));
    gateway.get_with("/x", &[("authorization", &bearer)]);
    let refused = gateway.get_with("/x", &[("authorization", &bearer), ORIGIN]);
    let unknown = gateway.get_with("/x", &[ORIGIN]);
    assert_eq!((refused.status, unknown.status), (429, 401));
    for answer in [refused, unknown] {
        let allowed = answer.one("access-control-allow-origin");
        assert!(allowed == ORIGIN.1 || allowed == "*", "{allowed}");
        let exposed = answer.one("access-control-expose-headers").to_ascii_lowercase();
        for name in ["retry-after", "ratelimit-limit", "x-ratelimit-remaining", "x-request-id"] {
            assert!(exposed.contains(name), "{name} is not exposed: {exposed}");
        }
        assert!(answer.all("vary").join(",").to_ascii_lowercase().contains("origin") || allowed == "*");
    }
    assert!(!gateway.get("/x").has("access-control-allow-origin"), "no Origin, no CORS");
}
