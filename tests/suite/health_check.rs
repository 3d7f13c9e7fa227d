//! Probes and pages of the admin port.

use crate::support::*;
use std::time::{Duration, Instant};

#[test]
fn b59_liveness_depends_on_nothing() {
    let gateway = Setup::default().before_script(|_| Reply::only(reply::End::Hang));
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(gateway.admin("/livez").status, 200);
        assert!(asked.elapsed() < Duration::from_secs(1));
    }
    let ready = gateway.admin("/readyz");
    assert_eq!(ready.status, 200, "a memory store never degrades");
    assert!(!ready.text().contains("degraded"), "{}", ready.text());
    assert_eq!(gateway.admin("/readyz?verbose").status, 200);
}

#[test]
fn b60_probes_and_metrics_need_no_key_and_draw_on_nothing() {
    let setup = Setup::ip_limited(&[r#"name = "per-ip", rate = "1/h""#]).auth("anonymous = \"deny\"");
    let gateway = setup.toml("[tiers.free]\n").keys(&consumer("acme", "free")).start();
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 200);
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 429);
    for _ in 0..30 {
        for page in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(gateway.admin(page).status, 200, "{page}");
        }
    }
    assert_eq!(gateway.upstream.count(), 1);
    assert_eq!(gateway.metric("sluicegate_decisions_total", &[("limit", "per-ip")]), 2.0);
}

#[test]
fn b60_the_data_port_shadows_no_path_of_the_upstream() {
    let gateway = Setup::limited(&[r#"rate = "3/h""#]).start();
    for path in ["/livez", "/readyz", "/metrics/../livez"] {
        assert_eq!(gateway.get(path).status, 200);
    }
    let targets: Vec<String> = gateway.upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/livez", "/readyz", "/livez"]);
    assert_eq!(gateway.get("/livez/../api").status, 429);
}

#[test]
fn the_admin_port_is_not_the_data_port() {
    let gateway = Setup::default().start();
    assert_eq!(gateway.admin("/no/such/page").status, 404);
    assert_eq!(gateway.upstream.count(), 0);
    assert!(gateway.admin("/metrics").one("content-type").starts_with("text/plain"));
}

#[test]
fn pages_that_show_or_change_something_need_the_token_where_there_is_one() {
    let setup = Setup { admin: "token_file = \"admin.token\"".into(), ..Setup::limited(&[r#"rate = "9/h""#]) };
    let files = setup.files();
    std::fs::write(files.path("admin.token"), "a-token-of-the-suite\n").unwrap();
    let upstream = Upstream::ok();
    let mut gateway = Gateway {
        running: program::Running::start(files.directory(), &["run", "-c", "sluicegate.toml"], &[]),
        setup,
        files,
        upstream,
    };
    gateway.wait_ready();
    assert_eq!(["/livez", "/readyz", "/metrics"].map(|page| gateway.admin(page).status), [200; 3]);
    for page in ["/api/v1/status", "/api/v1/config", "/api/v1/limits?ip=127.0.0.1"] {
        assert_eq!(gateway.admin(page).status, 401, "{page}");
        let bearer = [("authorization", "Bearer a-token-of-the-suite")];
        let shown = Client::connect(gateway.files.admin).request("GET", page, &bearer, b"");
        assert_eq!(shown.status, 200, "{page}");
        assert!(shown.json().is_object() || shown.json().is_array());
        assert!(!shown.text().contains("a-token-of-the-suite"), "{page}");
    }
}

#[test]
fn counters_of_a_caller_can_be_read_and_reset() {
    let toml = "[tiers.free]\nlimits = [{ name = \"free\", rate = \"2/h\" }]\n";
    let gateway = Setup::new(toml).keys(&consumer("acme", "free")).start();
    let ask = || gateway.get_as(&key_of("acme"), "/").status;
    assert_eq!([ask(), ask(), ask()], [200, 200, 429]);
    for page in ["/api/v1/limits?consumer=acme", "/api/v1/limits?key_id=acme-key"] {
        assert!(gateway.admin(page).text().contains("free"), "{page}");
        let reset = Client::connect(gateway.files.admin).request("DELETE", page, &[], b"");
        assert!((200..300).contains(&reset.status), "{page}: {}", reset.status);
        assert_eq!([ask(), ask(), ask()], [200, 200, 429], "after the reset by {page}");
    }
}
