//! One request is one response: no byte of a body or of a pipeline is taken for something else.

use crate::support::client::{chunked, render};
use crate::support::*;
use std::thread;
use std::time::Duration;

const HIDDEN: &str = "GET /admin HTTP/1.1\r\nHost: a\r\nX-API-Key: KEY2\r\n\r\n";

fn world() -> Gateway {
    let toml = "[tiers.free]\nlimits = [{ name = \"free\", rate = \"1/h\" }]\n\
                [[routes]]\nmatch = \"/x\"\nauth = \"required\"\n[[routes]]\nmatch = \"/admin\"\n";
    let gateway = Setup::new(toml).keys(&format!("{}{}", consumer("one", "free"), consumer("two", "free"))).start();
    assert_eq!(gateway.get_as(&key_of("one"), "/x").status, 200);
    gateway
}

/// Whatever comes after the first response, all of it.
fn statuses_of(mut client: Client) -> Vec<u16> {
    client.set_read_timeout(Duration::from_millis(300));
    std::iter::from_fn(|| client.try_read("POST").ok().flatten()).map(|answer| answer.status).collect()
}

#[test]
fn b08_the_body_of_a_refused_request_is_never_a_request() {
    let gateway = world();
    let hidden = HIDDEN.replace("KEY2", &key_of("two"));
    let (one, wrong) = (format!("Bearer {}", key_of("one")), "Bearer wrong_key_0123456789".to_string());
    for (path, bearer, status) in [("/x", &one, 429), ("/x", &wrong, 401), ("/nowhere", &one, 404), ("/%zz", &one, 400)]
    {
        let authorization = ("Authorization", bearer.as_str());
        let plain = render("POST", path, &[authorization], hidden.as_bytes());
        let as_chunks =
            render("POST", path, &[authorization, ("Transfer-Encoding", "chunked")], &chunked(&[hidden.as_bytes()]));
        for bytes in [&plain, &as_chunks] {
            let mut client = gateway.connect();
            client.send(bytes);
            assert_eq!(statuses_of(client), [status], "{path} at once");
            let mut client = gateway.connect();
            let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            client.send(&bytes[..head]);
            thread::sleep(Duration::from_millis(20));
            let _it_may_be_closed_already = client.try_send(&bytes[head..]);
            assert_eq!(statuses_of(client), [status], "{path} in two packets");
        }
    }
    assert!(!gateway.upstream.saw("/admin"));
    assert_eq!(gateway.get_as(&key_of("two"), "/x").status, 200, "the other key was never used");
}

#[test]
fn b10_an_upgrade_that_the_upstream_did_not_grant_opens_no_tunnel() {
    for (upgrade, answer) in [("foo", 200), ("websocket", 200), ("websocket", 426), ("h2c", 200)] {
        let gateway = Setup::ip_limited(&[r#"rate = "3/h""#]).before_script(move |_| Reply::status(answer, &[], "no"));
        let mut client = gateway.connect();
        let first = render("GET", "/a", &[("Connection", "Upgrade"), ("Upgrade", upgrade)], b"");
        let rest = render("GET", "/admin", &[], b"").repeat(20);
        client.send([first, rest].concat());
        let statuses = statuses_of(client);
        assert_eq!(statuses.first(), Some(&answer), "{upgrade}");
        let reached = gateway.upstream.count();
        assert!(reached <= 3, "{upgrade}: {reached} of a pipeline reached the upstream under a limit of 3");
        let passed = gateway.metric("sluicegate_decisions_total", &[("result", "allowed")]);
        assert_eq!(passed, reached as f64, "{upgrade}: what reached the upstream was decided");
    }
}

#[test]
fn a_pipeline_is_answered_in_order_and_each_request_is_charged() {
    let gateway = Setup::limited(&[r#"rate = "3/h""#]).start();
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b"").repeat(6));
    let statuses: Vec<u16> = (0..6).map(|_| client.read("GET").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
}

#[test]
fn ambiguous_framing_is_refused_or_closes_and_is_never_read_twice() {
    let hidden = HIDDEN;
    let length = hidden.len() + 5;
    let heads = [
        format!(
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: {length}\r\n\r\nhello{hidden}"),
        format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: +{length}\r\n\r\nhello{hidden}"),
    ];
    for head in heads {
        let gateway = Setup::default().start();
        let mut client = gateway.connect();
        client.send(&head);
        let statuses = statuses_of(client);
        assert!(statuses.len() <= 1, "{head:?} → {statuses:?}");
        let targets: Vec<String> = gateway.upstream.requests().into_iter().map(|request| request.target).collect();
        assert!(!targets.contains(&"/admin".to_string()), "{head:?}");
    }
}

#[test]
fn a_request_of_http_1_1_without_a_host_is_refused() {
    let gateway = Setup::default().start();
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.read("GET").status, 400);
    assert_eq!(gateway.upstream.count(), 0);
}
