//! No spelling of a path or a host escapes the rule that its plain form is under.

use crate::support::*;

/// One limited route beside one that takes the rest without a limit: what evades the rule is a 200.
fn guarded(route: &str) -> Gateway {
    let catch_all = "[[routes]]\nmatch = \"*\"\n";
    Setup::new(format!("[[routes]]\nmatch = \"{route}\"\nlimits = [{{ rate = \"3/h\" }}]\n{catch_all}")).start()
}

fn assert_no_evasion(gateway: &Gateway, method: &str, plain: &str, spellings: &[&str]) {
    for _ in 0..3 {
        assert_eq!(gateway.request(method, plain, &[], b"").status, 200);
    }
    for spelling in spellings {
        let before = gateway.upstream.count();
        let status = gateway.request(method, spelling, &[], b"").status;
        assert!(matches!(status, 429 | 400 | 404), "{spelling} → {status}");
        assert_eq!(gateway.upstream.count(), before, "{spelling} reached the upstream");
    }
}

#[test]
fn b02_every_spelling_of_a_path_shares_one_counter() {
    let gateway = guarded("POST /api/login");
    let spellings = [
        "/api//login",
        "//api/login",
        "/api/login?x=1",
        "/api/./login",
        "/api/x/../login",
        "/api/login#",
        "/api/login/",
        "/api/login;a=b",
        "/api;x/login",
        "/../api/login",
        "/api/login/.",
        "/api/login/x/..",
    ];
    assert_no_evasion(&gateway, "POST", "/api/login", &spellings);
}

#[test]
fn b43_an_escaped_letter_dodges_no_rule() {
    let gateway = guarded("/api/send");
    let spellings = [
        "/api/%73end",
        "/%61pi/send",
        "/api/se%6Ed",
        "/api/se%6ed",
        "/api/%2e/send",
        "/api/x/%2e%2e/send",
        "/api/x/%2E./send",
        "/api/%2573end",
        "/api%2fsend",
        "/api%5csend",
        "/api\\send",
    ];
    assert_no_evasion(&gateway, "GET", "/api/send", &spellings);
}

#[test]
fn b43_a_double_escape_is_never_decoded_twice() {
    let gateway = Setup::default().start();
    assert_eq!(gateway.get("/api/%2573end").status, 400);
    assert_eq!(gateway.get("/api/%25").status, 200, "an escaped percent sign before no digits is a percent sign");
    assert_eq!(gateway.upstream.last().target, "/api/%25");
}

#[test]
fn b108_spellings_of_a_host_share_one_counter() {
    let gateway = Setup::new(
        "[[routes]]\nmatch = \"/x\"\nhost = \"api.test\"\nlimits = [{ rate = \"3/h\" }]\n[[routes]]\nmatch = \"*\"\n",
    )
    .start();
    let ask = |target: &str, host: &str| gateway.get_with(target, &[("Host", host)]).status;
    assert_eq!(["api.test", "API.TEST", "api.test:8080"].map(|host| ask("/x", host)), [200; 3]);
    assert_eq!(ask("/x", "api.test."), 429);
    assert_eq!(ask("http://api.test/x", "api.test"), 429, "the absolute form is the same request");
    assert_eq!(ask("http://API.test:80/x", "other.test"), 429, "the authority of the absolute form beats Host");
    assert_eq!(ask("http://other.test/x?y", "api.test"), 200, "the other way round too");
    let seen = gateway.upstream.last();
    assert_eq!((seen.target.as_str(), seen.header("host")), ("/x?y", Some("other.test")));
    let two = gateway.get_with("/x", &[("Host", "other.test"), ("Host", "api.test")]);
    assert_eq!(two.status, 400);
}

#[test]
fn what_is_matched_is_what_is_forwarded() {
    let gateway = Setup::default().start();
    let vectors = [
        ("/a/./b/../c", "/a/c"),
        ("/a/%2e%2E/b", "/b"),
        ("/%7euser", "/~user"),
        ("//a///b", "/a/b"),
        ("/..", "/"),
        ("/a/", "/a/"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/a%3fb", "/a%3Fb"),
        ("/A", "/A"),
        ("/a?next=%2Fb%2f..&x=//", "/a?next=%2Fb%2f..&x=//"),
    ];
    for (sent, forwarded) in vectors {
        assert_eq!(gateway.get(sent).status, 200, "{sent}");
        assert_eq!(gateway.upstream.last().target, forwarded, "{sent}");
    }
}

#[test]
fn what_no_path_may_hold_is_refused_with_400() {
    let gateway = Setup::default().start();
    let refused =
        ["/%zz", "/%", "/%4", "/%00", "/a%0ab", "/a%7f", "/a\\b", "/a%5cb", "/a%5Cb", "/a%2fb", "/a%252fb", "/%2541"];
    for path in refused {
        let answer = gateway.get(path);
        assert_eq!((answer.status, answer.error().as_str()), (400, "bad_request"), "{path}");
    }
    for raw in [&b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = gateway.connect();
        client.send(raw);
        assert_eq!(client.read("GET").status, 400);
    }
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn an_encoded_slash_that_is_kept_separates_nothing() {
    let gateway = Setup::new(
        "[paths]\nencoded_slash = \"keep\"\n[[routes]]\nmatch = \"/files/:name\"\nname = \"file\"\n\
         [[routes]]\nmatch = \"/files/a/b\"\nname = \"nested\"\n",
    )
    .start();
    assert_eq!(gateway.get("/files/a%2fb").status, 200);
    assert_eq!(gateway.upstream.last().target, "/files/a%2Fb");
    assert_eq!(gateway.access_line("/files/a%2Fb")["route"], "file");
}

#[test]
fn slashes_that_are_not_merged_are_forwarded_as_they_are() {
    let gateway = Setup::new("[paths]\nmerge_slashes = false\n").start();
    assert_eq!(gateway.get("/a//b").status, 200);
    assert_eq!(gateway.upstream.last().target, "/a//b");
}
