//! What a client writes into headers stays the client's: it names nobody, breaks nothing, leaks nowhere.

use crate::support::*;

#[test]
fn b54_hop_by_hop_headers_stop_at_the_gateway() {
    let gateway = Setup::default().start();
    for _ in 0..100 {
        let headers = [
            ("Connection", "close, X-Private"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Trailer", "X-Sum"),
            ("Proxy-Authorization", "Basic eDp5"),
            ("Proxy-Connection", "keep-alive"),
            ("X-Private", "1"),
            ("X-Public", "1"),
        ];
        assert_eq!(gateway.get_with("/", &headers).status, 200);
    }
    for request in gateway.upstream.requests() {
        for name in ["keep-alive", "te", "trailer", "proxy-authorization", "proxy-connection", "x-private"] {
            assert_eq!(request.header(name), None, "{name}");
        }
        assert!(!request.header("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close")));
        assert_eq!(request.header("x-public"), Some("1"));
    }
    assert!(gateway.upstream.connections() <= 10, "{} connections for 100 requests", gateway.upstream.connections());
}

#[test]
fn b55_identity_headers_of_an_untrusted_client_are_dropped() {
    let gateway = Setup::new("[tiers.free]\n").keys(&consumer("acme", "free")).start();
    let forged = [
        "X-Consumer-Id",
        "X-Consumer-Tier",
        "X-Key-Id",
        "X_Consumer_Id",
        "X-Consumer_Tier",
        "x_key_id",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Prefix",
        "X-Forwarded-Port",
        "X-Real-IP",
        "Forwarded",
        "X_Forwarded_For",
        "X_Real_IP",
        "X_Request_Id",
    ];
    let mut headers: Vec<(&str, &str)> = forged.iter().map(|name| (*name, "forged")).collect();
    gateway.get_with("/anonymous", &headers);
    let bearer = format!("Bearer {}", key_of("acme"));
    headers.push(("Authorization", &bearer));
    gateway.get_with("/known", &headers);
    let [anonymous, known] = <[Recorded; 2]>::try_from(gateway.upstream.requests()).unwrap();
    for request in [&anonymous, &known] {
        assert!(!request.head_text().contains("forged"), "{}", request.head_text());
        assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(request.all("x-forwarded-proto"), ["http"]);
        assert_eq!(request.all("x-forwarded-host"), ["gateway.test"]);
        assert_eq!(request.all("x-request-id").len(), 1);
    }
    assert_eq!(known.all("x-consumer-id"), ["acme"]);
    assert_eq!(known.all("x-consumer-tier"), ["free"]);
    assert_eq!(known.all("x-key-id"), ["acme-key"]);
    assert_eq!((anonymous.header("x-consumer-id"), anonymous.header("x-key-id")), (None, None));
}

#[test]
fn b55_what_a_trusted_peer_forwards_is_kept_and_continued() {
    let gateway = Setup::default().trusted().start();
    let headers = [
        ("X-Forwarded-For", "203.0.113.7"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "shop.test"),
        ("X-Consumer-Id", "forged"),
    ];
    gateway.get_with("/", &headers);
    let seen = gateway.upstream.last();
    assert_eq!(seen.all("x-forwarded-for").join(", "), "203.0.113.7, 127.0.0.1");
    assert_eq!((seen.all("x-forwarded-proto"), seen.all("x-forwarded-host")), (vec!["https"], vec!["shop.test"]));
    assert_eq!(seen.header("x-consumer-id"), None, "identity is the gateway's word alone");
}

#[test]
fn b92_client_text_in_logs_and_bodies_is_escaped() {
    let gateway = Setup::new("[[routes]]\nmatch = \"/known\"\n").start();
    let targets = ["/%0d%0aSet-Cookie:%20a=b", "/a%22%7d,%7b%22x%22:%22", "/%1b[31m", "/%e2%80%a8", "/a\"},{\"x\":\""];
    for target in targets {
        let answer = gateway.get(target);
        assert!(matches!(answer.status, 400 | 404), "{target}: {}", answer.status);
        assert!(answer.body.is_empty() || answer.json().is_object(), "{target}: {}", answer.text());
        assert!(!answer.has("set-cookie"), "{target}");
    }
    let key = r#""},{"x":""#;
    let wrong = gateway.get_with("/known", &[("x-api-key", key)]);
    assert!(wrong.status == 401 && wrong.json().is_object());
    wait_until("all lines are there", || gateway.access_log().len() >= 6);
    let lines = gateway.running.stdout();
    for line in lines.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "not one JSON value: {line:?}");
    }
    assert!(!lines.contains('\u{1b}') && !lines.contains('\u{2028}'));
}

#[test]
fn b92_a_request_id_is_kept_if_sane_and_made_otherwise() {
    let gateway = Setup::default().start();
    let sane = "3f2b8c1e-6a4d-4a79-9d0e-1b2c3d4e5f60";
    let forwarded = |headers: &[(&str, &str)]| {
        assert_eq!(gateway.get_with("/", headers).status, 200);
        let ids = gateway.upstream.last().all("x-request-id").join(" and ");
        assert!((8..=128).contains(&ids.len()) && !ids.contains(" and "), "{headers:?} became {ids:?}");
        ids
    };
    assert_eq!(forwarded(&[("x-request-id", sane)]), sane);
    let long = "x".repeat(8192);
    for bad in [long.as_str(), "a b", "a\"b", "", "a<b>", "caf\u{e9}"] {
        assert_ne!(forwarded(&[("x-request-id", bad)]), bad);
    }
    forwarded(&[("X-Request-Id", "first-of-two"), ("X-Request-Id", "second-of-two")]);
    assert_ne!(forwarded(&[]), forwarded(&[]));
}
