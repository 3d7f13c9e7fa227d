//! Forwarding: which server, how long, what is rewritten, what becomes of its failures.

use crate::support::reply::End;
use crate::support::*;
use std::time::{Duration, Instant};

#[test]
fn weights_share_the_load() {
    let (light, heavy) = (Upstream::ok(), Upstream::ok());
    let upstreams = format!(
        "[upstreams.pair]\nservers = [\"{}\", {{ address = \"{}\", weight = 2 }}]\n[[routes]]\nmatch = \"*\"\nupstream = \"pair\"\n",
        light.address(),
        heavy.address()
    );
    let gateway = Setup::new(upstreams).start();
    assert_eq!(count(&gateway.statuses(30, "/"), 200), 30);
    assert_eq!((light.count(), heavy.count()), (10, 20));
}

#[test]
fn a_refused_connection_is_502_and_another_server_is_tried_first() {
    let alive = Upstream::ok();
    let dead = format!("127.0.0.1:{}", free_port());
    let toml = |servers: &str, retries: u32| {
        format!(
            "[upstreams.u]\nservers = [{servers}]\nretries = {retries}\n[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n"
        )
    };
    let gateway = Setup::new(toml(&format!("\"{dead}\""), 0)).start();
    let refused = gateway.request("POST", "/", &[], b"x");
    assert_eq!((refused.status, refused.error().as_str()), (502, "bad_gateway"));
    let both = format!("\"{dead}\", \"{}\"", alive.address());
    let gateway = Setup::new(toml(&both, 1)).start();
    for _ in 0..6 {
        assert_eq!(gateway.request("POST", "/", &[], b"x").status, 200, "nothing was sent to the dead one");
    }
    assert_eq!(alive.count(), 6);
}

#[test]
fn nonsense_and_resets_from_the_upstream_are_502() {
    let gateway = Setup::default().stub("retries = 0").before_script(|request| match request.target.as_str() {
        "/nonsense" => Reply::raw("\x16\x03\x01 this is no HTTP\r\n\r\n").ending(End::Close),
        "/reset" => Reply::only(End::Reset),
        _ => Reply::only(End::Close),
    });
    for path in ["/nonsense", "/reset", "/close"] {
        let answer = gateway.get(path);
        assert_eq!((answer.status, answer.error().as_str()), (502, "bad_gateway"), "{path}");
    }
}

#[test]
fn a_slow_upstream_is_504_after_the_timeout_of_the_upstream_or_the_route() {
    let gateway = Setup::new("[[routes]]\nmatch = \"/route\"\ntimeout = \"150ms\"\n[[routes]]\nmatch = \"*\"\n")
        .stub("timeouts = { read = \"700ms\" }\nretries = 0")
        .before_script(|_| Reply::only(End::Hang));
    for (path, timeout_ms) in [("/route", 150), ("/upstream", 700)] {
        let asked = Instant::now();
        let answer = gateway.get(path);
        let (took, timeout) = (asked.elapsed(), Duration::from_millis(timeout_ms));
        assert_eq!((answer.status, answer.error().as_str()), (504, "upstream_timeout"), "{path}");
        assert!(took >= timeout && took < timeout + Duration::from_secs(2), "{path}: {took:?}");
    }
}

#[test]
fn a_drip_that_stays_within_the_read_timeout_is_not_cut() {
    let gateway = Setup::default()
        .stub("timeouts = { read = \"500ms\" }")
        .before_script(|_| Reply::drip(&["a", "b", "c", "d", "e", "f", "g", "h"], Duration::from_millis(100)));
    assert_eq!(gateway.get("/").text(), "abcdefgh");
}

#[test]
fn a_client_that_never_ends_its_head_is_dropped() {
    let gateway = Setup::default().server("timeouts = { header = \"400ms\" }").start();
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let start = Instant::now();
    let dripping = (0..100).take_while(|_| {
        std::thread::sleep(Duration::from_millis(50));
        client.try_send("X-Drip: 1\r\n").is_ok() && start.elapsed() < Duration::from_secs(4)
    });
    assert!(dripping.count() > 0 && start.elapsed() < Duration::from_secs(4), "a drip holds the connection for ever");
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn an_idle_connection_is_closed() {
    let gateway = Setup::default().server("timeouts = { idle = \"300ms\" }").start();
    let mut client = gateway.connect();
    assert_eq!(client.get("/").status, 200);
    assert!(client.is_closed_within(Duration::from_secs(5)));
}

#[test]
fn a_head_over_the_cap_is_refused() {
    let gateway = Setup::default().server("max_header_bytes = \"4KiB\"").start();
    let fits = gateway.get_with("/", &[("x-large", &"x".repeat(2000))]);
    let over = gateway.get_with("/", &[("x-large", &"x".repeat(8000))]);
    assert_eq!(fits.status, 200);
    assert!(matches!(over.status, 400 | 431), "{}", over.status);
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn a_prefix_is_stripped_after_matching_and_counting() {
    let toml = "[[routes]]\nmatch = \"/api/*rest\"\nstrip_prefix = \"/api\"\nlimits = [{ rate = \"3/h\" }]\n";
    let gateway = Setup::new(toml).start();
    for (sent, forwarded) in [("/api/users?x=1", "/users?x=1"), ("/api//a", "/a"), ("/api/", "/")] {
        assert_eq!(gateway.get(sent).status, 200, "{sent}");
        assert_eq!(gateway.upstream.last().target, forwarded, "{sent}");
    }
    assert_eq!(gateway.get("/api/users").status, 429);
}

#[test]
fn the_most_specific_route_wins() {
    let names = ["GET /a/:id", "/a/*rest", "/a/b", "GET /a/:id/c", "POST /a/b"];
    let routes = names.map(|name| format!("[[routes]]\nmatch = \"{name}\"\n")).concat();
    let gateway = Setup::new(format!("{routes}[[routes]]\nmatch = \"*\"\n")).start();
    let vectors = [
        ("GET", "/a/b", "/a/b"),
        ("POST", "/a/b", "POST /a/b"),
        ("GET", "/a/x", "GET /a/:id"),
        ("HEAD", "/a/y", "GET /a/:id"),
        ("GET", "/a/x/c", "GET /a/:id/c"),
        ("GET", "/a/x/d", "/a/*rest"),
        ("PUT", "/a/z", "/a/*rest"),
        ("GET", "/A/b", "default"),
    ];
    for (index, (method, path, route)) in vectors.into_iter().enumerate() {
        assert_eq!(gateway.request(method, path, &[], b"").status, 200, "{method} {path}");
        wait_until("it is logged", || gateway.access_log().len() > index);
        assert_eq!(gateway.access_log()[index]["route"], route, "{method} {path}");
    }
}

#[test]
fn a_named_host_beats_any_and_wildcards_take_subdomains() {
    let toml = "[[routes]]\nmatch = \"/x\"\nname = \"any\"\n[[routes]]\nmatch = \"/x\"\nname = \"wild\"\nhost = \"*.example.com\"\n\
                [[routes]]\nmatch = \"/x\"\nname = \"named\"\nhost = [\"api.example.com\", \"api.example.org\"]\n";
    let gateway = Setup::new(toml).start();
    let hosts = [
        ("api.example.com", "named"),
        ("api.example.org:80", "named"),
        ("b.example.com", "wild"),
        ("example.com", "any"),
        ("other.test", "any"),
    ];
    for (index, (host, route)) in hosts.into_iter().enumerate() {
        assert_eq!(gateway.get_with("/x", &[("host", host)]).status, 200);
        wait_until("it is logged", || gateway.access_log().len() > index);
        assert_eq!(gateway.access_log()[index]["route"], route, "{host}");
    }
}

#[test]
fn a_route_with_several_matches_has_one_name_and_one_counter() {
    let toml = "[[routes]]\nmatch = [\"GET /a\", \"POST /b\"]\nlimits = [{ rate = \"2/h\" }]\n";
    let gateway = Setup::new(toml).start();
    let ask = |method: &str, path: &str| gateway.request(method, path, &[], b"").status;
    assert_eq!([ask("GET", "/a"), ask("POST", "/b"), ask("GET", "/a"), ask("POST", "/a")], [200, 200, 429, 404]);
    assert_eq!(gateway.access_line("/b")["route"], "GET /a");
}

#[test]
fn head_is_get_without_a_body() {
    let gateway = Setup::limited(&[r#"rate = "5/h""#]).start();
    let mut client = gateway.connect();
    let head = client.request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.number("content-length"), head.remaining()), (200, 2, 4));
    assert_eq!(client.get("/").remaining(), 3, "the connection is still aligned");
}

#[test]
fn responses_pass_unchanged() {
    let gateway = Setup::default().before_script(|_| {
        let headers = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Location", "/elsewhere"), ("X-Custom", "kept")];
        Reply::status(302, &headers, "moved")
    });
    let answer = gateway.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (302, "moved"));
    assert_eq!((answer.all("set-cookie"), answer.one("location")), (vec!["a=1", "b=2"], "/elsewhere"));
    assert_eq!(answer.one("x-custom"), "kept");
}

#[test]
fn a_retried_body_counts_once_against_the_cap() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let gateway = Setup::default().server("max_body_bytes = \"1000B\"").before_script(move |_| {
        match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Reply::only(End::Reset),
            _ => Reply::ok(),
        }
    });
    assert_eq!(gateway.request("PUT", "/", &[], &[b'x'; 600]).status, 200);
    assert_eq!(gateway.upstream.count(), 2);
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_a_bad_gateway() {
    let gateway = Setup::default()
        .before_script(|_| Reply::raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"));
    for method in ["GET", "POST"] {
        let answer = gateway.request(method, "/", &[], b"");
        assert_eq!((answer.status, answer.error().as_str()), (502, "bad_gateway"), "{method}");
        assert!(answer.interim.is_empty(), "{method}: {:?}", answer.interim);
    }
}
