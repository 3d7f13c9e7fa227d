//! The access log: one object a request, with what an operator asks for and nothing secret.

use crate::support::*;

#[test]
fn a_line_tells_who_asked_what_and_what_was_decided() {
    let toml = "[tiers.free]\nlimits = [{ name = \"free\", rate = \"1/h\" }]\n[[routes]]\nmatch = \"GET /items/:id\"\n";
    let gateway = Setup::new(toml).trusted().keys(&consumer("acme", "free")).start();
    let bearer = format!("Bearer {}", key_of("acme"));
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-request-id", "request-of-the-suite"),
    ];
    assert_eq!(gateway.get_with("/items/1?q=private", &headers).status, 200);
    let line = wait_for_line(&gateway, 0);
    let texts = [
        ("request_id", "request-of-the-suite"),
        ("client_ip", "203.0.113.7"),
        ("consumer", "acme"),
        ("key_id", "acme-key"),
        ("tier", "free"),
        ("method", "GET"),
        ("route", "GET /items/:id"),
        ("decision", "allowed"),
        ("limit", "free"),
    ];
    for (field, value) in texts {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    for (field, value) in [("status", 200), ("cost", 1), ("remaining", 0)] {
        assert_eq!(line[field].as_f64(), Some(f64::from(value)), "{field} of {line}");
    }
    for field in ["time", "path", "bytes", "duration_ms", "upstream", "upstream_ms"] {
        assert!(line.get(field).is_some_and(|value| !value.is_null()), "{field} of {line}");
    }
    assert!(!line.to_string().contains("private"), "the query is masked: {line}");
}

#[test]
fn a_refusal_is_logged_as_such_and_names_its_limit() {
    let gateway = Setup::limited(&[r#"name = "one", rate = "1/h""#]).start();
    gateway.statuses(2, "/");
    let line = wait_for_line(&gateway, 1);
    assert_eq!((line["decision"].as_str(), line["limit"].as_str()), (Some("rejected"), Some("one")));
    assert_eq!(line["status"], 429);
}

#[test]
fn every_request_has_exactly_one_line() {
    let gateway = Setup::new("[[routes]]\nmatch = \"/x\"\n").start();
    for path in ["/x", "/nowhere", "/%zz", "/x"] {
        gateway.get(path);
    }
    wait_for_line(&gateway, 3);
    gateway.wait_idle();
    assert_eq!(gateway.access_log().len(), 4);
}

#[test]
fn the_log_may_be_off_or_a_file_that_is_reopened_on_usr1() {
    let off = Setup::default().log("access = \"off\"\nformat = \"json\"").start();
    off.get("/");
    off.wait_idle();
    assert!(off.access_log().is_empty());
    let gateway = Setup::default().log("access = \"access.log\"\nformat = \"json\"").start();
    let (path, moved) = (gateway.files.path("access.log"), gateway.files.path("access.log.1"));
    let holds = |path: &std::path::Path, text: &str| std::fs::read_to_string(path).is_ok_and(|log| log.contains(text));
    gateway.get("/first");
    wait_until("the first line is there", || holds(&path, "/first"));
    std::fs::rename(&path, &moved).unwrap();
    gateway.signal("USR1");
    wait_until("lines go to a new file", || {
        gateway.get("/second");
        holds(&path, "/second")
    });
    assert!(holds(&moved, "/first") && !holds(&path, "/first"));
}

fn wait_for_line(gateway: &Gateway, index: usize) -> serde_json::Value {
    wait_until("the line is written", || gateway.access_log().len() > index);
    gateway.access_log()[index].clone()
}

#[test]
fn every_line_has_every_field_of_the_contract() {
    let gateway = Setup::new("[[routes]]\nmatch = \"/x\"\n").start();
    for path in ["/x", "/nowhere"] {
        gateway.get(path);
    }
    wait_for_line(&gateway, 1);
    let names = [
        "time",
        "request_id",
        "client_ip",
        "consumer",
        "key_id",
        "tier",
        "method",
        "route",
        "path",
        "status",
        "bytes",
        "duration_ms",
        "upstream",
        "upstream_ms",
        "decision",
        "limit",
        "cost",
        "remaining",
        "decided_at",
    ];
    for line in gateway.access_log() {
        let missing: Vec<_> = names.iter().filter(|name| line.get(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?} of {line}");
        assert!(line["consumer"].is_null() && line["limit"].is_null(), "{line}");
    }
}
