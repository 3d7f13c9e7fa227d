//! Keys: who carries one, who carries a wrong one, and what trying costs.

use crate::support::keys::{consumer_with, key};
use crate::support::*;

const PRO: &str = "[tiers.pro]\nlimits = [{ name = \"pro\", rate = \"3/h\" }]\n";
const REQUIRED: &str = "[[routes]]\nmatch = \"*\"\nauth = \"required\"\n";

/// One consumer, `acme`, under 3/h; every route needs a key.
fn guarded() -> Setup {
    Setup::new(format!("{PRO}{REQUIRED}")).auth("failures = \"1000/min\"").keys(&consumer("acme", "pro"))
}

#[test]
fn b20_every_spelling_of_a_credential_is_one_bucket_or_none() {
    let sources = r#"sources = ["bearer", "header:x-api-key", "query:api_key"]"#;
    let gateway = guarded().auth(sources).start();
    let key = key_of("acme");
    for _ in 0..3 {
        assert_eq!(gateway.get_as(&key, "/").status, 200);
    }
    let carriers = [
        ("Authorization", format!("bearer {key}")),
        ("Authorization", format!("BEARER {key}")),
        ("Authorization", format!("Bearer  {key}")),
        ("Authorization", format!("Bearer\t{key}")),
        ("Authorization", format!("Bearer {key}\t")),
        ("Authorization", format!(" {key} ")),
        ("Authorization", key.clone()),
        ("Authorization", format!("x Bearer {key}")),
        ("AUTHORIZATION", format!("Bearer {key}")),
        ("X-API-Key", key.clone()),
        ("x-api-key", format!(" {key} \t")),
    ];
    for (header, value) in &carriers {
        let status = gateway.get_with("/", &[(header, value)]).status;
        assert!(matches!(status, 401 | 429), "{header}: {value} → {status}");
    }
    let in_query = gateway.get(&format!("/?api_key={key}")).status;
    assert_eq!(in_query, 429);
    assert_eq!(gateway.upstream.count(), 3);
}

#[test]
fn b23_guessing_keys_is_neither_free_nor_remembered() {
    let setup = Setup::new(format!("{PRO}{REQUIRED}")).trusted().auth("failures = \"10/h\"");
    let gateway = setup.keys(&consumer("acme", "pro")).start();
    let before = gateway.metric("sluicegate_store_entries", &[]);
    let guess = |n: usize| {
        let bearer = format!("Bearer {}", key_of(&format!("guess{n}")));
        gateway.get_with("/", &[("authorization", &bearer), ("x-forwarded-for", "203.0.113.1")]).status
    };
    let statuses: Vec<u16> = (0..40).map(guess).collect();
    assert_eq!((count(&statuses, 401), count(&statuses, 429)), (10, 30));
    assert!(gateway.metric("sluicegate_store_entries", &[]) - before <= 2.0, "an entry for each guess");
    let right = format!("Bearer {}", key_of("acme"));
    for address in ["203.0.113.1", "203.0.113.2"] {
        let headers = [("authorization", right.as_str()), ("x-forwarded-for", address)];
        assert_eq!(gateway.get_with("/", &headers).status, 200, "a right key from {address}");
    }
    assert_eq!(gateway.upstream.count(), 2);
}

#[test]
fn b79_no_carrier_of_a_credential_skips_the_limits() {
    let gateway = guarded().start();
    let key = key_of("acme");
    let bearer = format!("Bearer {key}");
    let vectors: &[(&[(&str, &str)], u16)] = &[
        (&[], 401),
        (&[("Authorization", "")], 401),
        (&[("X-API-Key", "")], 401),
        (&[("Authorization", "Bearer ")], 401),
        (&[("Authorization", "Basic eDp5")], 401),
        (&[("AUTHORIZATION", &bearer)], 200),
        (&[("x-api-key", &key)], 200),
        (&[("Authorization", "Basic eDp5"), ("X-API-Key", &key)], 200),
    ];
    for (headers, status) in vectors {
        let answer = gateway.get_with("/", headers);
        assert_eq!(answer.status, *status, "{headers:?}");
        assert_eq!(answer.status == 200, answer.has("ratelimit-limit") && answer.limit() == 3, "{headers:?}");
    }
    let h2 = http2::Http2::connect(gateway.files.data).request("GET", "/", &[("x-api-key", &key)]);
    assert_eq!(h2.status, 429, "the fourth use, over HTTP/2");
}

#[test]
fn b79_a_wrong_key_is_never_anonymous() {
    let gateway = Setup::new(PRO).keys(&consumer("acme", "pro")).start();
    assert_eq!(gateway.get("/").status, 200);
    for headers in [("authorization", "Bearer wrong_key_0123456789"), ("x-api-key", "wrong_key_0123456789")] {
        let refused = gateway.get_with("/", &[headers]);
        assert_eq!((refused.status, refused.error().as_str()), (401, "invalid_api_key"));
        assert_eq!(refused.one("www-authenticate"), "Bearer realm=\"sluicegate\"");
    }
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn b144_every_kind_of_wrong_key_gets_the_same_bytes() {
    let past = key("old", &key_of("old"), "expires = 2020-01-01T00:00:00Z");
    let future = key("new", &key_of("new"), "not_before = 2100-01-01T00:00:00Z");
    let disabled = key("off", &key_of("off"), "disabled = true");
    let setup = guarded().keys(&consumer_with("beta", "pro", "", &format!("{past}{future}{disabled}")));
    let gateway = setup.start();
    let right = key_of("acme");
    let shared = |bytes: usize| format!("{}{}", &right[..bytes], "Z".repeat(right.len() - bytes));
    let wrong = [key_of("old"), key_of("new"), key_of("off"), key_of("unknown"), shared(0), shared(10), shared(31)];
    let bodies = wrong.map(|key| {
        let bearer = format!("Bearer {key}");
        let answer = gateway.get_with("/", &[("authorization", &bearer), ("x-request-id", "same-for-all-of-them")]);
        // What counts or dates differs from one request to the next, whoever asks.
        let tells = |name: &str| !name.eq_ignore_ascii_case("date") && !name.to_ascii_lowercase().contains("ratelimit");
        let headers: Vec<_> = answer.headers.into_iter().filter(|(name, _)| tells(name)).collect();
        (answer.status, headers, answer.body)
    });
    assert_eq!(bodies[0].0, 401);
    assert!(bodies.iter().all(|each| *each == bodies[0]), "{bodies:?}");
    for reason in ["expired", "not_yet_valid", "disabled"] {
        assert_eq!(gateway.metric("sluicegate_auth_failures_total", &[("reason", reason)]), 1.0, "{reason}");
    }
    assert_eq!(gateway.metric("sluicegate_auth_failures_total", &[("reason", "invalid")]), 4.0);
}

#[test]
fn without_anonymous_callers_a_request_needs_a_key() {
    let gateway = Setup::new(PRO).auth("anonymous = \"deny\"").keys(&consumer("acme", "pro")).start();
    let missing = gateway.get("/");
    assert_eq!((missing.status, missing.error().as_str()), (401, "missing_api_key"));
    assert_eq!(missing.one("www-authenticate"), "Bearer realm=\"sluicegate\"");
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 200);
    assert_eq!(gateway.metric("sluicegate_auth_failures_total", &[("reason", "missing")]), 1.0);
}

#[test]
fn two_different_keys_in_one_request_are_refused_and_two_equal_ones_are_not() {
    let gateway = guarded().keys(&consumer("beta", "pro")).start();
    let (acme, beta) = (key_of("acme"), key_of("beta"));
    let bearer = format!("Bearer {acme}");
    let two = gateway.get_with("/", &[("authorization", &bearer), ("x-api-key", &beta)]);
    assert_eq!((two.status, two.error().as_str()), (400, "bad_request"));
    let lines = gateway.get_with("/", &[("x-api-key", &acme), ("x-api-key", &beta)]);
    assert_eq!(lines.status, 400);
    assert_eq!(gateway.get_with("/", &[("authorization", &bearer), ("x-api-key", &acme)]).status, 200);
    assert_eq!(gateway.metric("sluicegate_auth_failures_total", &[("reason", "ambiguous")]), 2.0);
}

#[test]
fn a_key_is_good_only_for_its_routes_and_addresses() {
    let scoped = key("scoped", &key_of("scoped"), "routes = [\"GET /api/*\"]");
    let local = key("local", &key_of("local"), "allow_ips = [\"203.0.113.0/24\"]");
    let setup = Setup::new(PRO).trusted().keys(&consumer_with("acme", "pro", "", &format!("{scoped}{local}")));
    let gateway = setup.start();
    let ask = |name: &str, method: &str, path: &str, from: &str| {
        let bearer = format!("Bearer {}", key_of(name));
        gateway.request(method, path, &[("authorization", &bearer), ("x-forwarded-for", from)], b"").status
    };
    assert_eq!(ask("scoped", "GET", "/api/users", "198.51.100.1"), 200);
    for (method, path) in [("POST", "/api/users"), ("GET", "/admin"), ("GET", "/api/../admin"), ("GET", "/apis")] {
        assert_eq!(ask("scoped", method, path, "198.51.100.1"), 403, "{method} {path}");
    }
    assert_eq!(ask("local", "GET", "/admin", "203.0.113.9"), 200);
    assert_eq!(ask("local", "GET", "/admin", "198.51.100.1"), 403);
    assert_eq!(gateway.metric("sluicegate_auth_failures_total", &[("reason", "forbidden")]), 5.0);
}

#[test]
fn a_route_may_ask_for_a_tier_and_may_ignore_keys() {
    let gateway = Setup::new(format!(
        "{PRO}[tiers.free]\n[[routes]]\nmatch = \"/pro\"\ntiers = [\"pro\"]\n\
         [[routes]]\nmatch = \"/open\"\nauth = \"none\"\n"
    ))
    .keys(&format!("{}{}", consumer("acme", "pro"), consumer("beta", "free")))
    .start();
    assert_eq!(gateway.get_as(&key_of("acme"), "/pro").status, 200);
    assert_eq!(gateway.get_as(&key_of("beta"), "/pro").error(), "forbidden");
    assert_eq!(gateway.get("/pro").status, 403, "anonymous is a tier, too");
    assert_eq!(gateway.get_as("no_such_key_0123456789", "/open").status, 200);
}

#[test]
fn refused_requests_draw_one_on_the_ip_layer_and_on_nothing_else() {
    let gateway = Setup::new(format!(
        "{PRO}[[routes]]\nmatch = \"/r\"\nauth = \"required\"\ncost = 3\nlimits = [{{ name = \"r\", rate = \"9/h\" }}]\n\
         [[routes]]\nmatch = \"/vip\"\ntiers = [\"pro\"]\n"
    ))
    .client_ip("limits = [{ name = \"per-ip\", rate = \"5/h\" }]")
    .keys(&consumer("acme", "pro"))
    .start();
    let statuses = ["/r", "/vip", "/nowhere", "/%zz"].map(|path| gateway.get(path).status);
    assert_eq!(statuses, [401, 403, 404, 400]);
    assert_eq!(gateway.get_as("no_such_key_0123456789", "/r").status, 401);
    assert_eq!(gateway.get("/nowhere").status, 429, "five refusals have spent 5/h");
    let decided = |limit| gateway.metric("sluicegate_decisions_total", &[("limit", limit), ("result", "allowed")]);
    assert_eq!((decided("r"), decided("pro")), (0.0, 0.0));
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn rotating_keys_does_not_double_a_quota() {
    let keys = ["one", "two"].map(|name| key(name, &key_of(name), "")).concat();
    let gateway = Setup::new(PRO).keys(&consumer_with("acme", "pro", "", &keys)).start();
    let statuses = ["one", "two", "one", "two"].map(|name| gateway.get_as(&key_of(name), "/").status);
    assert_eq!(statuses, [200, 200, 200, 429]);
}
