//! The inspection API of the admin port: what it tells, whom, and what it never shows.

use crate::support::client::Response;
use crate::support::*;
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-the-suite";

#[track_caller]
fn read(gateway: &Gateway, target: &str) -> Value {
    let answer = gateway.admin(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    assert_eq!(answer.one("content-type"), "application/json");
    assert_eq!(answer.one("cache-control"), "no-store");
    answer.json()
}

fn ask(gateway: &Gateway, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    Client::connect(gateway.files.admin).request(method, target, headers, b"")
}

fn with_token() -> Gateway {
    let setup = Setup { admin: "token_file = \"admin.token\"".into(), ..Setup::limited(&[r#"rate = "2/h""#]) };
    let files = setup.files();
    std::fs::write(files.path("admin.token"), format!("{TOKEN}\n")).unwrap();
    let path = files.path("admin.token").display().to_string();
    Setup { admin: format!("token_file = \"{path}\""), ..setup }.start()
}

#[test]
fn status_tells_how_the_gateway_is_and_how_the_last_reload_went() {
    let mut gateway = Setup::limited(&[r#"rate = "2/h""#]).start();
    gateway.statuses(3, "/");
    let status = read(&gateway, "/api/v1/status");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&status["generation"], &status["last_reload"]), (&json!(1), &Value::Null));
    assert_eq!(status["state"], "ready");
    assert_eq!((&status["store"]["backend"], &status["store"]["breaker_open"]), (&json!("memory"), &json!(false)));
    assert_eq!(status["store"]["entries"], 1);
    let server = gateway.upstream.address().to_string();
    let upstreams = json!([{"name": "stub", "servers": [{"server": server, "healthy": true}]}]);
    assert_eq!(status["upstreams"], upstreams);
    assert!(status["uptime_seconds"].is_u64() && status["requests_in_flight"].is_i64());

    assert_eq!(gateway.reload_text("[server]\nlitsen = []\n"), Reload::Failure);
    let status = read(&gateway, "/api/v1/status");
    assert_eq!((&status["generation"], &status["last_reload"]["result"]), (&json!(1), &json!("failure")));
    let problems = status["last_reload"]["problems"].to_string();
    assert!(problems.contains("litsen") && problems.contains("sluicegate.toml"), "{problems}");

    assert_eq!(gateway.reload(|_| {}), Reload::Success);
    let status = read(&gateway, "/api/v1/status");
    assert_eq!((&status["generation"], &status["last_reload"]["generation"]), (&json!(2), &json!(2)));
    assert_eq!(status["last_reload"]["problems"], json!([]));
}

#[test]
fn config_shows_what_is_in_force_and_no_secret() {
    let toml = "[store.redis]\nurls = [\"redis://me:open-sesame@127.0.0.1:9/0\"]\n[tiers.free]\n\
                limits = [{ rate = \"5/min\", when = { \"header:x-dev\" = \"open-sesame\" } }]\n";
    let mut gateway = Setup::new(toml).keys(&consumer("acme", "free")).start();
    let config = read(&gateway, "/api/v1/config");
    assert_eq!(config["tiers"]["free"]["limits"][0]["rate"], "5/min");
    assert_eq!(config["store"]["redis"]["urls"][0], "redis://me:***@127.0.0.1:9/0");
    let text = config.to_string();
    for secret in ["open-sesame", &key_of("acme"), &keys::sha256_hex(&key_of("acme"))] {
        assert!(!text.contains(secret), "{text}");
    }
    gateway.reload(|setup| setup.toml = setup.toml.replace("5/min", "6/min"));
    assert_eq!(read(&gateway, "/api/v1/config")["tiers"]["free"]["limits"][0]["rate"], "6/min");
    gateway.reload_text("nonsense");
    assert_eq!(read(&gateway, "/api/v1/config")["tiers"]["free"]["limits"][0]["rate"], "6/min");
}

#[test]
fn top_names_the_callers_and_routes_that_are_refused_most() {
    let toml = "[tiers.free]\nlimits = [{ name = \"plan\", rate = \"1/h\" }]\n[tiers.anonymous]\n\
                limits = [{ name = \"guests\", rate = \"1/h\" }]\n[[routes]]\nmatch = \"/a\"\n[[routes]]\nmatch = \"/b\"\n";
    let gateway = Setup::new(toml).keys(&consumer("acme", "free")).trusted().start();
    (0..6).for_each(|_| drop(gateway.get_as(&key_of("acme"), "/a")));
    (0..3).for_each(|_| drop(gateway.get_from("203.0.113.7", "/b")));
    let top = read(&gateway, "/api/v1/top");
    let line = |value: &Value| (value["refused"].clone(), value["last_limit"].clone());
    assert_eq!(top["callers"].as_array().unwrap().len(), 2);
    assert_eq!(top["callers"][0]["consumer"], "acme");
    assert_eq!(line(&top["callers"][0]), (json!(5), json!("plan")));
    assert_eq!(top["callers"][1]["ip"], "203.0.113.7");
    assert_eq!(line(&top["callers"][1]), (json!(2), json!("guests")));
    assert_eq!(top["routes"][0]["route"], "/a");
    assert_eq!(top["routes"][1]["route"], "/b");
    assert_eq!(read(&gateway, "/api/v1/top?n=1")["callers"].as_array().unwrap().len(), 1);
    assert!(!top.to_string().contains(&key_of("acme")));
    for bad in ["/api/v1/top?n=0", "/api/v1/top?n=257", "/api/v1/top?m=1"] {
        assert_eq!(gateway.admin(bad).error(), "bad_request", "{bad}");
    }
}

#[test]
fn everything_but_probes_metrics_and_the_page_needs_the_token() {
    let gateway = with_token();
    for open in ["/", "/app.js", "/app.css", "/metrics", "/livez", "/readyz"] {
        assert_eq!(gateway.admin(open).status, 200, "{open}");
    }
    for target in ["/api/v1/status", "/api/v1/config", "/api/v1/top", "/api/v1/limits?ip=127.0.0.1", "/else"] {
        for wrong in ["", "Bearer ", "Bearer a-token-of-the-suit", "Basic a-token-of-the-suite", TOKEN] {
            for method in ["GET", "DELETE"] {
                let answer = ask(&gateway, method, target, &[("authorization", wrong)]);
                assert_eq!((answer.status, answer.error().as_str()), (401, "unauthorized"), "{target} {wrong:?}");
                assert!(answer.has("www-authenticate"));
                assert_eq!(answer.json()["request_id"], answer.one("x-request-id"));
            }
        }
    }
    let bearer = format!("Bearer {TOKEN}");
    let status = ask(&gateway, "GET", "/api/v1/status", &[("authorization", &bearer)]);
    assert_eq!(status.status, 200);
    assert!(!gateway.log().contains(TOKEN) && !status.text().contains(TOKEN));
}

#[test]
fn no_page_of_another_origin_can_read_or_reset() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
    let own = gateway.files.admin.to_string();
    let evil: [&[(&str, &str)]; 4] = [
        &[("host", &own), ("origin", "http://evil.example")],
        &[("host", &own), ("origin", "null")],
        &[("host", "evil.example"), ("origin", "http://evil.example")],
        &[("host", "evil.example"), ("accept-language", "en")],
    ];
    for headers in evil {
        for (method, target) in [("GET", "/api/v1/config"), ("DELETE", "/api/v1/limits?ip=127.0.0.1")] {
            let answer = ask(&gateway, method, target, headers);
            assert_eq!((answer.status, answer.error().as_str()), (403, "forbidden"), "{method} {headers:?}");
        }
        let preflight = ask(&gateway, "OPTIONS", "/api/v1/limits?ip=127.0.0.1", headers);
        assert!(preflight.status >= 400 && !preflight.has("access-control-allow-methods"));
    }
    assert_eq!(gateway.get("/").status, 429, "nothing was reset");
    let origin = format!("http://{own}");
    let reset = ask(&gateway, "DELETE", "/api/v1/limits?ip=127.0.0.1", &[("host", &own), ("origin", &origin)]);
    assert_eq!((reset.status, gateway.get("/").status), (200, 200));
}

#[test]
fn what_is_asked_wrongly_is_answered_in_the_usual_shape() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    for (method, target, status, error) in [
        ("GET", "/api/v1/limits", 400, "bad_request"),
        ("GET", "/api/v1/limits?ip=nowhere", 400, "bad_request"),
        ("GET", "/api/v1/limits?ip=1.2.3.4&ip=1.2.3.5", 400, "bad_request"),
        ("GET", "/api/v1/limits?ip=1.2.3.4&color=red", 400, "bad_request"),
        ("GET", "/api/v1/limits?ip=%zz", 400, "bad_request"),
        ("GET", "/api/v1/limits?consumer=nobody", 404, "not_found"),
        ("DELETE", "/api/v1/limits?key_id=none", 404, "not_found"),
        ("DELETE", "/api/v1/limits", 400, "bad_request"),
        ("DELETE", "/api/v1/status", 405, "method_not_allowed"),
        ("POST", "/api/v1/limits?ip=1.2.3.4", 405, "method_not_allowed"),
        ("GET", "/api/v1", 404, "not_found"),
        ("GET", "/api/v2/status", 404, "not_found"),
    ] {
        let answer = ask(&gateway, method, target, &[]);
        assert_eq!((answer.status, answer.error().as_str()), (status, error), "{method} {target}");
        assert!(answer.json()["message"].is_string() && answer.json()["request_id"].is_string());
        assert_eq!(answer.has("allow"), status == 405);
    }
    let head = Client::connect(gateway.files.admin).request("HEAD", "/api/v1/status", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
}
