//! What a configuration comes to mean: which limits concern a request, what they are called, and what is refused.

use super::*;
use crate::charge::Part;
use crate::config::{Place, Problem, Severity, load_text};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

const UPSTREAM: &str = "[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n";
const ANY_ROUTE: &str = "[[routes]]\nmatch = \"*\"\n";

/// Compiles a main file as it stands.
fn compiled_whole(main: &str, keys: &str) -> (Option<Policy>, Vec<Problem>) {
    let loaded = load_text("test.toml", main, Some(keys), &|_| None);
    let errors: Vec<_> = loaded.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    compile(&loaded.config.expect("it has no errors"))
}

/// The policy of a main file that has one upstream besides.
fn policy_with_keys(main: &str, keys: &str) -> Policy {
    let (policy, problems) = compiled_whole(&format!("{main}\n{UPSTREAM}"), keys);
    policy.unwrap_or_else(|| panic!("{problems:?}"))
}

fn policy(main: &str) -> Policy {
    policy_with_keys(main, "")
}

/// What is wrong with a main file that has one upstream besides.
fn problems(main: &str) -> Vec<Problem> {
    compiled_whole(&format!("{main}\n{UPSTREAM}"), "").1
}

#[track_caller]
fn assert_one_problem(problems: &[Problem], severity: Severity, message: &str, hint: &str) {
    let [problem] = problems else { panic!("{} problems: {problems:?}", problems.len()) };
    assert_eq!(problem.severity, severity);
    assert!(problem.message.contains(message), "{}", problem.message);
    assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{:?}", problem.hint);
    assert_ne!(problem.place.unwrap_or_default(), Place::default(), "it points somewhere");
}

/// An anonymous caller on the first route.
fn caller(headers: &HeaderMap) -> Facts<'_> {
    let address = IpAddr::from([203, 0, 113, 7]);
    Facts {
        address,
        group: address,
        method: "GET",
        host: "api.example.com",
        route: Some(0),
        parameters: SmallVec::new(),
        consumer: None,
        tier: ANONYMOUS,
        headers,
    }
}

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    lines.fold(HeaderMap::new(), |mut headers, (name, value)| {
        headers.append(name, value);
        headers
    })
}

/// Names of the limits that apply, in order.
fn names<'p>(policy: &'p Policy, facts: &Facts<'_>, draw: Draw) -> Vec<&'p str> {
    policy.select(facts, draw).limits.iter().map(|index| &*policy.limits[*index].name).collect()
}

fn costs(policy: &Policy, facts: &Facts<'_>, draw: Draw) -> Vec<Units> {
    policy.select(facts, draw).charges.iter().map(|charge| charge.cost).collect()
}

const LAYERS: &str = "
    [client_ip]
    limits = [{ name = \"a\", rate = \"1/s\" }]
    [tiers.anonymous]
    limits = [{ name = \"k2\", rate = \"1/s\" }, { name = \"k1\", rate = \"1/min\" }]
    [[limits]]
    name = \"c\"
    per = \"global\"
    rate = \"1/s\"
    [[routes]]
    match = \"/a\"
    cost = 2.5
    limits = [{ name = \"e\", rate = \"9/s\" }]
    [[routes]]
    match = \"*\"
    skip = [\"ip\", \"key\", \"endpoint\"]
    limits = [{ name = \"skipped\", rate = \"9/s\" }]";

#[test]
fn charges_come_in_the_order_ip_key_endpoint_custom_as_configured() {
    let (policy, headers) = (policy(&LAYERS.replace("2.5", "1")), HeaderMap::new());
    assert_eq!(names(&policy, &caller(&headers), Draw::Everything), ["a", "k2", "k1", "e", "c"]);
}

#[test]
fn a_route_leaves_out_the_layers_it_skips_and_never_the_custom_one() {
    let (policy, headers) = (policy(&LAYERS.replace("2.5", "1")), HeaderMap::new());
    let facts = Facts { route: Some(1), ..caller(&headers) };
    assert_eq!(names(&policy, &facts, Draw::Everything), ["c"]);
    let unmatched = Facts { route: None, ..caller(&headers) };
    assert_eq!(names(&policy, &unmatched, Draw::Address), ["a"], "no route, nothing skipped");
}

#[test]
fn what_a_request_draws_on_decides_its_limits_and_its_cost() {
    let limits =
        LAYERS.replace("rate = \"1/", "rate = \"9/").replace("name = \"c\"", "name = \"c\"\ncounts = \"requests\"");
    let (policy, headers) = (policy(&limits), HeaderMap::new());
    let facts = caller(&headers);
    assert_eq!(costs(&policy, &facts, Draw::Everything), [2500, 2500, 2500, 2500, UNIT]);
    assert_eq!(names(&policy, &facts, Draw::Address), ["a"]);
    assert_eq!(costs(&policy, &facts, Draw::Address), [UNIT], "a refusal costs one, whatever the route");
    assert_eq!(names(&policy, &facts, Draw::WrongKey), ["a", "auth-failures"]);
    assert_eq!(costs(&policy, &facts, Draw::WrongKey), [UNIT, UNIT]);
    assert!(names(&policy, &facts, Draw::Nothing).is_empty());
}

#[test]
fn a_consumers_own_limits_stand_instead_of_its_tiers() {
    let tiers = format!("[tiers.pro]\nlimits = [{{ name = \"pro\", rate = \"1/s\" }}]\n{ANY_ROUTE}");
    let keys = "[consumers.plain]\ntier = \"pro\"\n[consumers.own]\ntier = \"pro\"\nlimits = [{ name = \"own\", rate = \"1/s\" }]\n\
                [consumers.free]\ntier = \"pro\"\nlimits = []";
    let (policy, headers) = (policy_with_keys(&tiers, keys), HeaderMap::new());
    let expected: [(&str, &[&str]); 3] = [("plain", &["pro"]), ("own", &["own"]), ("free", &[])];
    for (name, limits) in expected {
        let consumer = policy.consumers.iter().position(|consumer| *consumer.name == *name);
        let facts = Facts { consumer, tier: 1, ..caller(&headers) };
        assert_eq!(names(&policy, &facts, Draw::Everything), limits, "{name}");
    }
}

#[test]
fn the_anonymous_tier_is_the_first_and_needs_not_be_written() {
    for tiers in ["[tiers.pro]", "[tiers.pro]\n[tiers.anonymous]"] {
        let policy = policy(&format!("{tiers}\n{ANY_ROUTE}"));
        let names: Vec<_> = policy.tiers.iter().map(|tier| &*tier.name).collect();
        assert_eq!(names, ["anonymous", "pro"]);
    }
}

#[test]
fn a_limit_for_certain_tiers_concerns_no_other() {
    let limits = "limits = [{ name = \"l\", rate = \"1/s\", tiers = [\"pro\"] }]";
    let (policy, headers) = (policy(&format!("[tiers.pro]\n{ANY_ROUTE}{limits}")), HeaderMap::new());
    assert!(names(&policy, &caller(&headers), Draw::Everything).is_empty());
    assert_eq!(names(&policy, &Facts { tier: 1, ..caller(&headers) }, Draw::Everything), ["l"]);
}

#[test]
fn a_limit_with_conditions_applies_where_all_of_them_hold() {
    let when = "when = { \"header:x-dev\" = \"true\", method = [\"POST\", \"PUT\"], host = \"*.example.com\", ip = \"203.0.113.0/24\" }";
    let policy = policy(&format!("{ANY_ROUTE}limits = [{{ name = \"l\", rate = \"1/s\", {when} }}]"));
    let (dev, padded, other) =
        (headers(&[("x-dev", "true")]), headers(&[("x-dev", " true ")]), headers(&[("x-dev", "TRUE")]));
    let twice = headers(&[("x-dev", "true"), ("x-dev", "true")]);
    let all = |headers| Facts { method: "PUT", ..caller(headers) };
    let none = HeaderMap::new();
    let vectors = [
        (all(&dev), true),
        (all(&padded), true),
        (all(&other), false),
        (all(&twice), false),
        (all(&none), false),
        (Facts { method: "GET", ..all(&dev) }, false),
        (Facts { host: "example.com", ..all(&dev) }, false),
        (Facts { host: "a.b.example.com", ..all(&dev) }, true),
        (Facts { address: IpAddr::from([198, 51, 100, 1]), ..all(&dev) }, false),
        (Facts { group: IpAddr::from([198, 51, 100, 1]), ..all(&dev) }, true),
    ];
    for (facts, applies) in vectors {
        assert_eq!(!names(&policy, &facts, Draw::Everything).is_empty(), applies, "{facts:?}");
    }
}

#[test]
fn a_shadow_limit_is_asked_but_not_enforced() {
    let limits = "limits = [{ name = \"s\", rate = \"1/s\", mode = \"shadow\" }, { name = \"e\", rate = \"1/s\" }]";
    let (policy, headers) = (policy(&format!("{ANY_ROUTE}{limits}")), HeaderMap::new());
    let facts = caller(&headers);
    let enforced: Vec<_> =
        policy.select(&facts, Draw::Everything).charges.iter().map(|charge| charge.enforced).collect();
    assert_eq!(enforced, [false, true]);
}

/// The parts of the one limit that is split by `per`, for a caller that is changed by `change`.
fn parts_of(per: &str, headers: &HeaderMap, change: impl FnOnce(&mut Facts<'_>)) -> Vec<Part<'static>> {
    let limits = format!("[[limits]]\nname = \"l\"\nper = {per}\nrate = \"1/s\"");
    let tiers = "[tiers.pro]\nlimits = []";
    let route = "[[routes]]\nname = \"users\"\nmatch = \"/users/:id\"";
    let policy = policy_with_keys(&format!("{limits}\n{tiers}\n{route}"), "[consumers.acme]\ntier = \"pro\"");
    let mut facts = caller(headers);
    change(&mut facts);
    policy.select(&facts, Draw::Everything).charges[0].parts.iter().map(Part::to_static).collect()
}

fn named(kind: &'static str, value: &'static str) -> Part<'static> {
    Part::Named(kind, value.as_bytes()).to_static()
}

#[test]
fn each_scope_gives_its_value_under_its_own_tag() {
    let headers = headers(&[("x-tenant", " blue ")]);
    let address = Part::Address(IpAddr::from([203, 0, 113, 7]));
    let vectors = [
        ("\"ip\"", vec![address.clone()]),
        ("\"consumer\"", vec![named("consumer", "acme")]),
        ("\"subject\"", vec![named("consumer", "acme")]),
        ("\"route\"", vec![named("route", "users")]),
        ("\"tier\"", vec![named("tier", "pro")]),
        ("\"host\"", vec![named("host", "api.example.com")]),
        ("\"method\"", vec![named("method", "GET")]),
        ("\"global\"", vec![named("global", "")]),
        ("\"header:X-Tenant\"", vec![named("header:x-tenant", "blue")]),
        ("\"param:id\"", vec![named("param:id", "7")]),
        ("[\"route\", \"ip\"]", vec![named("route", "users"), address]),
    ];
    for (per, expected) in vectors {
        let parts = parts_of(per, &headers, |facts| {
            facts.consumer = Some(0);
            facts.tier = 1;
            facts.parameters.push(("id", "7"));
        });
        assert_eq!(parts, expected, "{per}");
    }
}

#[test]
fn what_is_missing_is_counted_all_the_same() {
    let headers = HeaderMap::new();
    let group = IpAddr::from([203, 0, 113, 0]);
    let vectors = [
        ("\"consumer\"", Part::Address(group)),
        ("\"subject\"", Part::Address(group)),
        ("\"tier\"", named("tier", "anonymous")),
        ("\"route\"", named("route", "users")),
        ("\"header:x-tenant\"", named("header:x-tenant", "")),
        ("\"param:id\"", named("param:id", "")),
    ];
    for (per, expected) in vectors {
        assert_eq!(parts_of(per, &headers, |facts| facts.group = group), [expected], "{per}");
    }
}

#[test]
fn lines_of_a_header_are_one_value_joined_by_commas() {
    let headers = headers(&[("x-tenant", "a"), ("x-tenant", " b "), ("x-other", "z"), ("x-tenant", "")]);
    assert_eq!(parts_of("\"header:x-tenant\"", &headers, |_| {}), [named("header:x-tenant", "a,b,")]);
}

#[test]
fn a_limit_without_a_name_is_named_after_its_owner_and_its_window() {
    let main = "[client_ip]\nlimits = [{ rate = \"1000/min\" }]\n[tiers.free]\nlimits = [{ rate = \"9/day\" }]\n\
                [[routes]]\nmatch = \"GET /api/users/:id\"\nlimits = [{ rate = \"9/15min\" }]\n\
                [[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"9/month\" }]\n\
                [[limits]]\nper = \"global\"\nrate = \"9/500ms\"";
    let policy = policy_with_keys(
        main,
        "[consumers.\"Acme Ltd.\"]\ntier = \"free\"\nlimits = [{ rate = \"1/h\" }]"
            .replace("Acme Ltd.", "Acme/1")
            .as_str(),
    );
    let names: Vec<_> = policy.limits.iter().map(|limit| &*limit.name).collect();
    let expected =
        ["ip-min", "auth-failures", "free-day", "acme-1-h", "get-api-users-id-15min", "default-month", "custom-500ms"];
    assert_eq!(names, expected);
}

#[test]
fn limits_that_would_share_a_name_are_refused() {
    let twice = "limits = [{ rate = \"1/s\" }, { rate = \"2/s\" }]";
    let written = "limits = [{ name = \"default-s\", rate = \"1/min\" }, { rate = \"2/s\" }]";
    for limits in [twice, written] {
        let found = problems(&format!("{ANY_ROUTE}{limits}"));
        assert_one_problem(&found, Severity::Error, "already a limit named \"default-s\"", "`name` of its own");
    }
    let found = problems(&format!("{ANY_ROUTE}limits = [{{ name = \"auth-failures\", rate = \"1/s\" }}]"));
    assert_one_problem(&found, Severity::Error, "already a limit named \"auth-failures\"", "`name` of its own");
}

#[test]
fn a_default_name_that_is_too_long_asks_for_one() {
    let route = format!("[[routes]]\nmatch = \"/{}\"\nlimits = [{{ rate = \"1/s\" }}]", "a".repeat(70));
    assert_one_problem(&problems(&route), Severity::Error, "over 64 characters", "give the limit a `name`");
}

#[test]
fn references_to_nothing_are_told_with_the_nearest_name() {
    let vectors = [
        ("[tiers.premium]\n[[routes]]\nmatch = \"*\"\ntiers = [\"premum\"]", "no tier \"premum\"", "\"premium\""),
        ("[[routes]]\nmatch = \"*\"\ntiers = [\"gold\"]", "no tier \"gold\"", "[tiers.NAME]"),
        ("[[routes]]\nmatch = \"*\"\nupstream = \"apy\"", "no upstream \"apy\"", "\"api\""),
        ("[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"1/s\", tiers = [\"x\"] }]", "no tier \"x\"", "[tiers.NAME]"),
    ];
    for (main, message, hint) in vectors {
        assert_one_problem(&problems(main), Severity::Error, message, hint);
    }
    let (policy, found) = compiled_whole(&format!("{ANY_ROUTE}{UPSTREAM}"), "[consumers.acme]\ntier = \"annonymous\"");
    assert!(policy.is_none());
    assert_one_problem(&found, Severity::Error, "no tier \"annonymous\"", "\"anonymous\"");
}

#[test]
fn a_route_says_its_upstream_when_there_are_several() {
    let two = format!("{UPSTREAM}[upstreams.b]\nservers = [\"127.0.0.1:9001\"]\n");
    let (_, found) = compiled_whole(&format!("{ANY_ROUTE}{two}"), "");
    assert_one_problem(&found, Severity::Error, "does not say which upstream", "one of: api, b");
    let (policy, _) = compiled_whole(&format!("{ANY_ROUTE}upstream = \"b\"\n{two}"), "");
    assert_eq!(policy.expect("valid").routes[0].upstream, 1);
}

#[test]
fn a_cost_that_its_own_limit_never_holds_is_an_error_and_a_wider_one_a_warning() {
    let route = |limits: &str| format!("[[routes]]\nmatch = \"*\"\ncost = 5\n{limits}");
    let own = |limit: &str| problems(&route(&format!("limits = [{{ name = \"l\", {limit} }}]")));
    assert_one_problem(
        &own("rate = \"4/s\""),
        Severity::Error,
        "never fit the route's own limit \"l\"",
        "lower the cost",
    );
    let small = "rate = \"9/s\", algorithm = \"token_bucket\", burst = 4";
    assert_one_problem(&own(small), Severity::Error, "never fit", "lower the cost");
    for fits in ["rate = \"5/s\"", "rate = \"4/s\", counts = \"requests\""] {
        assert_eq!(own(fits), [], "{fits}");
    }
    let wider = [
        "[client_ip]\nlimits = [{ name = \"w\", rate = \"4/s\" }]",
        "[tiers.anonymous]\nlimits = [{ name = \"w\", rate = \"4/s\" }]",
        "[[limits]]\nname = \"w\"\nper = \"global\"\nrate = \"4/s\"",
    ];
    for limit in wider {
        let found = problems(&format!("{}\n{limit}", route("")));
        assert_one_problem(&found, Severity::Warning, "more than the limit \"w\" can ever hold", "");
    }
    let other_tier = "[tiers.pro]\nlimits = [{ name = \"w\", rate = \"4/s\" }]";
    assert_eq!(problems(&format!("{}\n{other_tier}", route("tiers = [\"anonymous\"]"))), [], "its callers never come");
}

#[test]
fn a_pattern_that_another_hides_is_refused() {
    let main = "[[routes]]\nname = \"one\"\nmatch = \"/a/:id\"\n[[routes]]\nmatch = [\"/b\", \"/a/{name}\"]";
    assert_one_problem(
        &problems(main),
        Severity::Error,
        "\"/a/{name}\" can never be reached: route \"one\"",
        "remove one",
    );
}

#[test]
fn a_routes_limit_splits_only_by_parameters_that_all_its_patterns_have() {
    let route = |patterns: &str| {
        format!("[[routes]]\nname = \"r\"\nmatch = {patterns}\nlimits = [{{ rate = \"1/s\", per = \"param:id\" }}]")
    };
    for patterns in ["\"/a/:id\"", "[\"/a/:id\", \"/b/{id}/c\", \"/c/*id\"]"] {
        assert_eq!(problems(&route(patterns)), [], "{patterns}");
    }
    for patterns in ["\"*\"", "[\"/a/:id\", \"/b\"]", "\"/a/:name\""] {
        assert_one_problem(
            &problems(&route(patterns)),
            Severity::Error,
            "route \"r\" has no parameter \"id\"",
            "`:name`",
        );
    }
}

#[test]
fn a_quota_that_its_algorithm_cannot_serve_is_told_at_the_rate() {
    let found =
        problems(&format!("{ANY_ROUTE}limits = [{{ rate = \"200000/s\", algorithm = \"sliding_window_log\" }}]"));
    assert_one_problem(&found, Severity::Error, "at most 100000", "");
}

#[test]
fn all_problems_are_told_at_once() {
    let main =
        "[[routes]]\nmatch = \"/a\"\ntiers = [\"x\"]\nupstream = \"y\"\n[[routes]]\nname = \"b\"\nmatch = \"/a\"";
    assert_eq!(problems(main).len(), 3);
}

#[test]
fn counters_keep_their_name_when_only_quota_or_burst_change() {
    let identity = |limit: &str| {
        let policy = policy(&format!("{ANY_ROUTE}limits = [{{ name = \"l\", {limit} }}]"));
        policy.limits.last().expect("the route's limit").meter.identity.clone()
    };
    let bucket = identity("rate = \"10/min\", algorithm = \"token_bucket\", burst = 5");
    assert_eq!(bucket, identity("rate = \"20/60s\", algorithm = \"token_bucket\", burst = 9, expose = false"));
    for other in [
        "rate = \"10/min\"",
        "rate = \"10/h\", algorithm = \"token_bucket\", burst = 5",
        "rate = \"10/month\", algorithm = \"token_bucket\"",
    ] {
        assert_ne!(bucket, identity(other), "{other}");
    }
    assert_ne!(identity("rate = \"10/month\""), identity("rate = \"10/30day\""), "a month is no span");
}
