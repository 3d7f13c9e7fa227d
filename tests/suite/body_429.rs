//! The body of a refusal, and of every other response the gateway makes.

use crate::support::client::render;
use crate::support::reply::End;
use crate::support::*;

const ONE: &str = r#"name = "free-minute", rate = "1/h""#;

fn exhausted(setup: Setup) -> Gateway {
    let gateway = setup.start();
    assert_eq!(gateway.get("/").status, 200);
    gateway
}

/// What every answer of the gateway's own has.
fn assert_envelope(answer: &Response, error: &str) {
    assert_eq!(answer.error(), error, "{answer:?}");
    let length = answer.number("content-length");
    assert_eq!(length, answer.body.len() as i64);
    assert!(answer.one("content-type").starts_with("application/json"));
    let body = answer.json();
    assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    assert!(body["request_id"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
}

#[test]
fn b120_a_refusal_is_json_for_every_method_and_accept() {
    let gateway = exhausted(Setup::limited(&[ONE]));
    for method in ["GET", "POST", "OPTIONS", "PUT"] {
        for accept in
            ["text/html", "application/json", "*/*", ";;;", "application/vnd.api+json", "application/json;q=0"]
        {
            let refused = gateway.request(method, "/", &[("accept", accept)], b"");
            assert_eq!(refused.status, 429, "{method} {accept}");
            assert_envelope(&refused, "rate_limit_exceeded");
            assert_eq!(refused.json()["retry_after_seconds"], refused.retry_after());
            assert_eq!(refused.one("cache-control"), "no-store");
        }
    }
}

#[test]
fn b120_a_refused_head_has_the_headers_of_get_and_no_body() {
    let gateway = exhausted(Setup::limited(&[ONE]));
    let mut client = gateway.connect();
    client.send([render("HEAD", "/", &[], b""), render("GET", "/", &[], b"")].concat());
    let head = client.read("HEAD");
    assert_eq!((head.status, head.one("content-type")), (429, "application/json"));
    assert!(head.number("content-length") > 0 && head.retry_after() >= 1);
    let get = client.read("GET");
    assert_eq!(get.status, 429, "the next response of the pipeline is aligned");
    assert_envelope(&get, "rate_limit_exceeded");
}

#[test]
fn b120_every_answer_of_the_gateways_own_has_one_shape() {
    let routes = "[[routes]]\nmatch = \"/key\"\nauth = \"required\"\n[[routes]]\nmatch = \"/up/*rest\"\n\
                  [[routes]]\nmatch = \"/vip\"\ntiers = [\"vip\"]\n[[routes]]\nmatch = \"/slow\"\ntimeout = \"150ms\"\n[tiers.vip]\n";
    let gateway = Setup::new(routes)
        .server("max_body_bytes = \"10\"")
        .before_script(|request| Reply::only(if request.target == "/slow" { End::Hang } else { End::Reset }));
    let vectors: [(&str, &str, &[u8], u16, &str); 7] = [
        ("GET", "/%zz", b"", 400, "bad_request"),
        ("GET", "/key", b"", 401, "missing_api_key"),
        ("GET", "/vip", b"", 403, "forbidden"),
        ("GET", "/nowhere", b"", 404, "route_not_found"),
        ("POST", "/up/x", b"eleven byte", 413, "payload_too_large"),
        ("POST", "/up/x", b"x", 502, "bad_gateway"),
        ("GET", "/slow", b"", 504, "upstream_timeout"),
    ];
    for (method, path, body, status, error) in vectors {
        let answer = gateway.request(method, path, &[("accept", "text/html")], body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert_envelope(&answer, error);
    }
}

#[test]
fn the_body_says_what_refused_and_when_to_come_back() {
    let urls = "[responses.rate_limited]\ndocumentation_url = \"https://docs.example.com/rate-limits\"\n\
                upgrade_url = \"https://example.com/pricing\"\nheaders = { \"x-support\" = \"api@example.com\" }\n";
    let gateway =
        Setup::new(format!("[tiers.anonymous]\nlimits = [{{ name = \"free-minute\", rate = \"2/min\" }}]\n{urls}"))
            .start();
    gateway.statuses(2, "/");
    let refused = gateway.get_with("/", &[("x-request-id", "caller-chosen-1")]);
    let (body, wait) = (refused.json(), refused.retry_after());
    let unit = if wait == 1 { "second" } else { "seconds" };
    assert_eq!(body["message"], format!("Rate limit exceeded: 2 requests per minute. Retry in {wait} {unit}."));
    for (member, value) in
        [("policy", "free-minute"), ("layer", "key"), ("window", "60s"), ("request_id", "caller-chosen-1")]
    {
        assert_eq!(body[member], value, "{member}");
    }
    for (member, value) in [("limit", 2), ("remaining", 0), ("cost", 1), ("retry_after_seconds", wait)] {
        assert_eq!(body[member], value, "{member}");
    }
    assert_eq!(body["documentation_url"], "https://docs.example.com/rate-limits");
    assert_eq!(body["upgrade_url"], "https://example.com/pricing");
    assert_eq!(refused.one("x-support"), "api@example.com");
    let reset_at = body["reset_at"].as_str().unwrap();
    assert!(reset_at.len() == 20 && reset_at.ends_with('Z'), "{reset_at}");
}

#[test]
fn urls_that_are_not_configured_are_left_out() {
    let refused = exhausted(Setup::limited(&[ONE])).get("/").json();
    assert!(refused.get("documentation_url").is_none() && refused.get("upgrade_url").is_none(), "{refused}");
}

#[test]
fn calendar_windows_are_named() {
    for window in ["month", "year"] {
        let limit = format!("rate = \"1/{window}\", algorithm = \"fixed_window\"");
        assert_eq!(exhausted(Setup::limited(&[&limit])).get("/").json()["window"], window);
    }
}

#[test]
fn problem_json_is_for_those_who_name_it_and_prefer_it_no_less() {
    let gateway = exhausted(Setup::limited(&[ONE]));
    let vectors = [
        ("application/problem+json", true),
        ("application/json, application/problem+json", true),
        ("application/*;q=0.8, application/problem+json", true),
        ("application/json, application/problem+json;q=0.5", false),
        ("application/problem+json;q=0, application/json", false),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", false),
        ("application/*", false),
    ];
    for (accept, problem) in vectors {
        let refused = gateway.get_with("/", &[("accept", accept)]);
        let kind = if problem { "application/problem+json" } else { "application/json" };
        assert_eq!(refused.one("content-type"), kind, "{accept}");
        let body = refused.json();
        assert_eq!(body["error"], "rate_limit_exceeded");
        let extra = ["type", "title", "status", "detail"].iter().all(|member| body.get(member).is_some());
        assert_eq!(extra, problem, "{accept}: {body}");
    }
    let not_found =
        Setup::new("[[routes]]\nmatch = \"/x\"\n").start().get_with("/", &[("accept", "application/problem+json")]);
    assert_eq!(
        (not_found.one("content-type"), not_found.json()["status"].as_i64()),
        ("application/problem+json", Some(404))
    );
}

#[test]
fn a_template_is_filled_and_escaped() {
    let template = r#"[responses.rate_limited]
content_type = "application/json"
body = '{"wait": {{ retry_after_seconds }}, "who": "{{ policy }}", "id": "{{ request_id }}"}'
"#;
    let gateway = exhausted(Setup::limited(&[ONE]).toml(template));
    let refused = gateway.get("/");
    let body = refused.json();
    assert_eq!((body["who"].as_str(), body["wait"].as_i64()), (Some("free-minute"), Some(refused.retry_after())));
    assert_eq!(body["id"], refused.one("x-request-id"));
}

#[test]
fn a_tiers_and_a_routes_responses_override_the_global_one() {
    let url = |name: &str| format!("documentation_url = \"https://docs.example.com/{name}\"\n");
    let toml = format!(
        "[responses.rate_limited]\n{}upgrade_url = \"https://example.com/up\"\n\
         [tiers.free]\nlimits = [{{ rate = \"1/h\" }}]\n[tiers.free.responses.rate_limited]\n{}\
         [tiers.pro]\nlimits = [{{ rate = \"1/h\" }}]\n\
         [[routes]]\nmatch = \"/own\"\n[routes.responses.rate_limited]\n{}[[routes]]\nmatch = \"*\"\n",
        url("global"),
        url("tier"),
        url("route")
    );
    let gateway = Setup::new(toml).keys(&format!("{}{}", consumer("f", "free"), consumer("p", "pro"))).start();
    for (name, path, says) in [("f", "/", "tier"), ("p", "/", "global"), ("f", "/own", "route")] {
        gateway.get_as(&key_of(name), path);
        let body = gateway.get_as(&key_of(name), path).json();
        assert_eq!(body["documentation_url"], format!("https://docs.example.com/{says}"), "{name} {path}");
        assert_eq!(body["upgrade_url"], "https://example.com/up");
    }
}

#[test]
fn every_answer_of_the_gateways_own_carries_the_request_id() {
    let gateway = exhausted(Setup::limited(&[ONE]));
    for path in ["/", "/%zz"] {
        let answer = gateway.get(path);
        assert_eq!(answer.json()["request_id"], answer.one("x-request-id"));
    }
}
