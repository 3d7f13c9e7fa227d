//! What the metrics page shows, and that no client can make it grow.

use crate::support::*;

#[test]
fn b29_the_number_of_series_is_bounded_by_the_configuration() {
    let toml = "[tiers.free]\nlimits = [{ rate = \"9/h\" }]\n[[routes]]\nmatch = \"/u/:id\"\nlimits = [{ rate = \"9/h\", per = [\"ip\", \"param:id\"] }]\n";
    let gateway = Setup::new(toml).trusted().auth("failures = \"100000/h\"").keys(&consumer("acme", "free")).start();
    gateway.get_as(&key_of("acme"), "/u/1");
    gateway.get_as("wrong_key_0123456789", "/u/1");
    gateway.get("/nowhere");
    let before = gateway.metrics().samples.len();
    burst(4, 4, |worker| {
        let mut client = gateway.connect();
        for n in 0..150 {
            let (from, wrong) = (format!("203.0.{worker}.{n}"), format!("Bearer guess_{worker}_{n}_0123456789"));
            client.request("GET", &format!("/u/{worker}-{n}"), &[("x-forwarded-for", &from)], b"");
            client.request("GET", &format!("/unknown/{worker}/{n}"), &[("host", &format!("h{n}.test"))], b"");
            client.request("GET", "/u/1", &[("authorization", &wrong), ("user-agent", &from)], b"");
            client.request(&format!("M{worker}X{n}"), "/u/1", &[], b"");
        }
    });
    let page = gateway.metrics();
    assert!(page.samples.len() < before + 200, "{before} series became {}", page.samples.len());
    assert!(page.text.len() < 200_000, "{} bytes", page.text.len());
    for text in ["203.0.", "guess_", "/unknown/1/", "h1.test", "M1X"] {
        assert!(!page.text.contains(text), "{text} is a label");
    }
}

#[test]
fn every_metric_of_the_contract_is_there() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    gateway.statuses(2, "/");
    gateway.get_as("wrong_key_0123456789", "/");
    let page = gateway.metrics();
    let names = [
        "rate_limit_checks_total",
        "rate_limit_remaining_fraction",
        "rate_limiter_errors_total",
        "sluicegate_http_requests_total",
        "sluicegate_http_request_duration_seconds",
        "sluicegate_upstream_request_duration_seconds",
        "sluicegate_decisions_total",
        "sluicegate_decision_duration_seconds",
        "sluicegate_store_entries",
        "sluicegate_store_evictions_total",
        "sluicegate_auth_failures_total",
        "sluicegate_config_reloads_total",
        "sluicegate_config_last_reload_success_timestamp_seconds",
        "sluicegate_config_generation",
        "sluicegate_requests_in_flight",
        "sluicegate_build_info",
    ];
    let missing: Vec<_> = names.iter().filter(|name| !page.names(name)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}\n{}", page.text);
}

#[test]
fn checks_are_counted_by_result_tier_and_endpoint() {
    let toml = "[tiers.free]\nlimits = [{ name = \"free\", rate = \"2/h\" }]\n[[routes]]\nmatch = \"GET /api/users/:id/profile\"\n";
    let gateway = Setup::new(toml).keys(&consumer("acme", "free")).start();
    for n in 0..3 {
        gateway.get_as(&key_of("acme"), &format!("/api/users/{n}/profile"));
    }
    let route = "GET /api/users/:id/profile";
    let checks = |result| {
        gateway.metric("rate_limit_checks_total", &[("result", result), ("tier", "free"), ("endpoint", route)])
    };
    assert_eq!((checks("allowed"), checks("rejected")), (2.0, 1.0));
    let decided = |result| {
        gateway.metric("sluicegate_decisions_total", &[("limit", "free"), ("layer", "key"), ("result", result)])
    };
    assert_eq!((decided("allowed"), decided("rejected")), (2.0, 1.0));
    let answered = |status| {
        gateway.metric("sluicegate_http_requests_total", &[("route", route), ("method", "GET"), ("status", status)])
    };
    wait_until("all three are counted", || (answered("200"), answered("429")) == (2.0, 1.0));
    assert_eq!(gateway.metric("rate_limit_remaining_fraction_count", &[("tier", "free")]), 3.0);
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}
