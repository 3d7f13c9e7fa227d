//! Requests of different weight.

use crate::support::*;

#[test]
fn b50_a_cost_that_never_fits_its_own_routes_limit_is_a_configuration_error() {
    let route = "[[routes]]\nmatch = \"/heavy\"\ncost = 8\nlimits = [{ rate = \"5/h\" }]\n";
    let files = Setup::new(route).files();
    let checked = program::run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(1), "{}", checked.output());
    assert!(checked.output().contains("cost"), "{}", checked.output());
}

#[test]
fn b50_a_cost_that_never_fits_at_run_time_is_final_and_costs_nothing() {
    let toml = "[tiers.free]\nlimits = [{ name = \"five\", rate = \"5/h\" }]\n\
                [[routes]]\nmatch = \"/heavy\"\ncost = 8\n[[routes]]\nmatch = \"/light\"\n";
    let setup = Setup::new(toml).client_ip("limits = [{ name = \"per-ip\", rate = \"100/h\" }]");
    let gateway = setup.keys(&consumer("acme", "free")).start();
    for _ in 0..3 {
        let refused = gateway.get_as(&key_of("acme"), "/heavy");
        assert_eq!((refused.status, refused.error().as_str()), (429, "cost_exceeds_limit"));
        assert!(!refused.has("retry-after") && !refused.has("retry-after-ms"), "waiting cannot help: {refused:?}");
    }
    let light = gateway.get_as(&key_of("acme"), "/light");
    assert_eq!((light.status, light.limit(), light.remaining()), (200, 5, 4));
    assert_eq!(light.one("ratelimit-policy"), "100;w=3600, 5;w=3600");
    assert_eq!(gateway.get("/light").remaining(), 98, "the ip layer counted the two light requests alone");
    assert_eq!(gateway.upstream.count(), 2);
}

#[test]
fn b131_remaining_is_shown_in_the_units_that_are_charged() {
    let routes = [("GET", "1"), ("POST", "5"), ("DELETE", "0")]
        .map(|(method, cost)| format!("[[routes]]\nmatch = \"{method} /x\"\ncost = {cost}\n"))
        .concat();
    let limit = "[[limits]]\nname = \"units\"\nper = \"ip\"\nrate = \"10/h\"\n";
    let gateway = Setup::new(format!("{routes}{limit}")).start();
    let ask = |method: &str| {
        let answer = gateway.request(method, "/x", &[("x-cost", "0"), ("x-request-cost", "0.001")], b"");
        (answer.status, answer.remaining())
    };
    let sequence = ["POST", "GET", "DELETE", "POST", "GET", "HEAD", "GET", "GET", "GET", "DELETE"].map(ask);
    let expected = [(200, 5), (200, 4), (200, 4), (429, 4), (200, 3), (200, 2), (200, 1), (200, 0), (429, 0), (200, 0)];
    assert_eq!(sequence, expected);
}

#[test]
fn a_cost_has_up_to_three_decimals_and_remaining_is_rounded_down() {
    let gateway = Setup::new("[[routes]]\nmatch = \"*\"\ncost = 0.4\nlimits = [{ rate = \"1/h\" }]\n").start();
    let answers = [0; 3].map(|_| gateway.get("/"));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429]);
    assert_eq!(answers.each_ref().map(|answer| answer.remaining()), [0, 0, 0]);
}

#[test]
fn a_limit_may_count_requests_instead_of_cost() {
    let limits =
        r#"limits = [{ name = "cost", rate = "10/h" }, { name = "requests", rate = "2/h", counts = "requests" }]"#;
    let gateway = Setup::new(format!("[[routes]]\nmatch = \"*\"\ncost = 3\n{limits}\n")).start();
    assert_eq!(gateway.statuses(3, "/"), [200, 200, 429]);
    assert_eq!(gateway.get("/").json()["policy"], "requests");
}
