//! A key is seen by nobody but the gateway.

use crate::support::keys::{consumer_with, key};
use crate::support::reply::End;
use crate::support::*;
use std::time::Duration;

const SOURCES: &str = r#"sources = ["bearer", "header:x-api-key", "query:api_key", "cookie:session"]"#;
/// What is sent, with which headers, and the target that the upstream sees.
type Vector<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

const SECRET: &str = "Zq7XwPn4RtVb9KdMc2HsGf6JyLa3TeUo";
const WRONG: &str = "Wm8YvQk5StBn0LxFc1DrHg7PzJa4EiOu";

fn leaky_world() -> Gateway {
    let routes = "[[routes]]\nmatch = \"/ok\"\nlimits = [{ rate = \"4/h\" }]\n\
                  [[routes]]\nmatch = \"/broken\"\n[[routes]]\nmatch = \"/slow\"\ntimeout = \"200ms\"\n";
    Setup::new(format!("[tiers.free]\n{routes}"))
        .auth(SOURCES)
        .log("level = \"debug\"\naccess = \"stdout\"\nformat = \"json\"")
        .keys(&consumer_with("acme", "free", "", &key("acme-key", SECRET, "")))
        .before_script(|request| match request.target.split('?').next() {
            Some("/broken") => Reply::only(End::Reset),
            Some("/slow") => Reply::ok().after(Duration::from_millis(600)),
            _ => Reply::ok(),
        })
}

/// Sends the key in every place it may stand, to every kind of outcome.
fn provoke(gateway: &Gateway, secret: &str) -> Vec<u16> {
    let paths = ["/ok", "/ok", "/ok", "/ok", "/ok", "/nowhere", "/broken", "/slow", "/%zz"];
    let mut statuses: Vec<u16> =
        paths.iter().map(|path| gateway.get(&format!("{path}?a=1&api_key={secret}&b=2")).status).collect();
    statuses.push(gateway.get_as(secret, "/nowhere").status);
    statuses.push(gateway.get_with("/nowhere", &[("x-api-key", secret)]).status);
    statuses.push(gateway.get_with("/nowhere", &[("cookie", &format!("a=b; session={secret}"))]).status);
    statuses.push(gateway.get_with("/nowhere", &[("referer", &format!("http://a/?api_key={secret}"))]).status);
    statuses
}

#[test]
fn b40_a_key_appears_in_no_log_and_on_no_page() {
    let gateway = leaky_world();
    assert_eq!(provoke(&gateway, SECRET)[..9], [200, 200, 200, 200, 429, 404, 502, 504, 400]);
    assert!(provoke(&gateway, WRONG)[..5].iter().all(|status| *status == 401));
    gateway.wait_idle();
    wait_until("every request is in the access log", || gateway.access_log().len() >= 26);
    let pages = ["/metrics", "/readyz?verbose", "/"].map(|page| (page, gateway.admin(page).text()));
    for (place, text) in pages.into_iter().chain([("the log", gateway.log())]) {
        for secret in [SECRET, WRONG] {
            assert!(!text.contains(secret), "the key stands in {place}:\n{text}");
        }
    }
}

#[test]
fn b66_no_part_of_a_key_is_a_label() {
    let gateway = leaky_world();
    provoke(&gateway, SECRET);
    provoke(&gateway, WRONG);
    let page = gateway.metrics().text;
    for secret in [SECRET, WRONG] {
        let part = secret.as_bytes().windows(8).map(|part| std::str::from_utf8(part).unwrap());
        for part in part {
            assert!(!page.contains(part), "{part} stands on the metrics page");
        }
    }
}

#[test]
fn b40_answers_do_not_echo_the_key() {
    let gateway = leaky_world();
    for (path, secret) in [("/nowhere", SECRET), ("/broken", SECRET), ("/ok", WRONG)] {
        let answer = gateway.get(&format!("{path}?api_key={secret}"));
        assert!(!format!("{answer:?}{}", answer.text()).contains(secret), "{path}");
    }
}

#[test]
fn b135_the_upstream_never_sees_the_credential_and_all_else_untouched() {
    let gateway = leaky_world();
    let vectors: [Vector<'_>; 4] = [
        ("/ok?b=2&api_key=SECRET&a=1&b=3&c", &[], "/ok?b=2&a=1&b=3&c"),
        ("/ok?api_key=SECRET", &[], "/ok"),
        ("/ok?b=%20+x", &[("x-api-key", "SECRET"), ("x-other", "kept")], "/ok?b=%20+x"),
        ("/ok?d", &[("cookie", "a=b; session=SECRET; c=d"), ("authorization", "Bearer SECRET")], "/ok?d"),
    ];
    for (target, headers, forwarded) in vectors {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.replace("SECRET", SECRET))).collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(gateway.get_with(&target.replace("SECRET", SECRET), &headers).status, 200, "{target}");
        let seen = gateway.upstream.last();
        assert_eq!(seen.target, forwarded);
        assert!(!seen.head_text().contains(SECRET), "{}", seen.head_text());
        assert_eq!(seen.header("x-key-id"), Some("acme-key"));
    }
    let requests = gateway.upstream.requests();
    assert_eq!(requests[2].header("x-other"), Some("kept"));
    assert_eq!(requests[3].header("cookie"), Some("a=b; c=d"));
}

#[test]
fn a_credential_is_forwarded_where_the_operator_says_so() {
    let setup = Setup::new("[tiers.free]\n").auth("forward_credentials = true").keys(&consumer("acme", "free"));
    let gateway = setup.start();
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 200);
    assert_eq!(gateway.upstream.last().header("authorization"), Some(format!("Bearer {}", key_of("acme")).as_str()));
}
