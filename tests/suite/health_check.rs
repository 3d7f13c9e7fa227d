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
fn b59_an_upstream_that_is_down_or_hangs_touches_no_probe() {
    for end in [reply::End::Hang, reply::End::Reset] {
        let lines = "health = { path = \"/up\", interval = \"50ms\", timeout = \"100ms\", fall = 1 }";
        let gateway = Setup::default().stub(lines).before_script(move |_| Reply::only(end));
        let healthy = || gateway.metric("sluicegate_upstream_healthy", &[("upstream", "stub")]);
        wait_until("it is found unhealthy", || healthy() == 0.0);
        for page in ["/livez", "/readyz", "/metrics"] {
            let asked = Instant::now();
            assert_eq!(gateway.admin(page).status, 200, "{page}");
            assert!(asked.elapsed() < Duration::from_secs(1), "{page}");
        }
        assert_eq!(gateway.get("/").status, 503);
    }
}

#[test]
fn b60_checks_of_upstreams_draw_on_no_limit() {
    let lines = "health = { path = \"/up\", interval = \"50ms\" }";
    let gateway = Setup::ip_limited(&[r#"name = "per-ip", rate = "1/h""#]).stub(lines).start();
    wait_until("it is checked", || gateway.upstream.count() > 5);
    assert_eq!(gateway.metric("sluicegate_decisions_total", &[]), 0.0);
    assert_eq!((gateway.get("/").status, gateway.get("/").status), (200, 429));
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
fn all_but_probes_and_metrics_needs_the_token_where_there_is_one() {
    let setup = Setup { admin: "token_file = \"admin.token\"".into(), ..Setup::limited(&[r#"rate = "9/h""#]) };
    let files = setup.files();
    std::fs::write(files.path("admin.token"), "a-token-of-the-suite\n").unwrap();
    let upstream = Upstream::ok();
    let mut gateway = Gateway {
        running: program::Running::start(files.directory(), &["run", "-c", "sluicegate.toml"]),
        setup,
        files,
        upstream,
    };
    gateway.wait_ready();
    assert_eq!(["/livez", "/readyz", "/metrics"].map(|page| gateway.admin(page).status), [200; 3]);
    let bearer = [("authorization", "Bearer a-token-of-the-suite")];
    let wrong = [("authorization", "Bearer a-token-of-the-suitf")];
    let ask =
        |headers: &[(&str, &str)]| Client::connect(gateway.files.admin).request("GET", "/else", headers, b"").status;
    assert_eq!([ask(&[]), ask(&wrong), ask(&bearer)], [401, 401, 404]);
    assert!(!gateway.log().contains("a-token-of-the-suite"));
}
