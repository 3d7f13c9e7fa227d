//! Who the client is: the socket peer, unless a trusted peer says otherwise.

use crate::support::*;

const THREE: &str = r#"rate = "3/h""#;

fn trusting(limit: &str) -> Setup {
    Setup::ip_limited(&[limit]).trusted()
}

#[test]
fn b09_a_forwarded_header_of_an_untrusted_peer_is_not_believed() {
    let gateway = Setup::ip_limited(&[r#"rate = "5/h""#]).start();
    let claim = |header: &str, n: usize| {
        let value = if header == "Forwarded" { format!("for=1.2.3.{n}") } else { format!("1.2.3.{n}") };
        gateway.get_with("/", &[(header, &value)]).status
    };
    let first: Vec<u16> = (1..=20).map(|n| claim("X-Forwarded-For", n)).collect();
    assert_eq!((count(&first, 200), count(&first, 429)), (5, 15));
    for header in ["X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "X_Forwarded_For"] {
        let statuses: Vec<u16> = (1..=5).map(|n| claim(header, n)).collect();
        assert_eq!(count(&statuses, 429), 5, "{header} opened a fresh counter");
    }
    let seen = gateway.upstream.requests()[0].all("x-forwarded-for").join(",");
    assert_eq!(seen, "127.0.0.1", "the chain ends with the real peer");
}

#[test]
fn b62_an_unparsable_hop_ends_the_walk_and_keys_nothing() {
    let gateway = Setup::ip_limited(&[THREE]).client_ip(r#"trusted_proxies = ["127.0.0.1/32", "10.0.0.0/8"]"#).start();
    let chain = |n: usize, junk: &str| gateway.get_from(&format!("1.1.1.{n}, {junk}, 10.0.0.2"), "/").status;
    let statuses: Vec<u16> = (1..=10).map(|n| chain(n, "not-an-ip")).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 429, 429, 429, 429]);
    for (n, junk) in ["unknown", "_hidden", "", "999.1.1.1", "01.2.3.4", "[::1"].into_iter().enumerate() {
        assert_eq!(chain(n, junk), 429, "{junk:?} opened a fresh counter");
    }
}

#[test]
fn b63_a_port_behind_an_address_makes_no_other_client() {
    let gateway = trusting(THREE).start();
    let mut ask = |from: &str| gateway.get_from(from, "/").status;
    let v4 = ["203.0.113.9:40001", "203.0.113.9:40002", "203.0.113.9:40003", "203.0.113.9:40004", "203.0.113.9"];
    assert_eq!(v4.map(&mut ask), [200, 200, 200, 429, 429]);
    assert_eq!(ask("203.0.113.10:1"), 200);
    let v6 = ["[2001:db8::1]:443", "[2001:db8::1]", "2001:db8::1", "[2001:db8::1]:9"];
    assert_eq!(v6.map(&mut ask), [200, 200, 200, 429]);
}

#[test]
fn the_walk_goes_from_the_right_over_all_lines_and_skips_trusted_hops() {
    let gateway = Setup::default().client_ip(r#"trusted_proxies = ["127.0.0.1/32", "10.0.0.0/8"]"#).start();
    let vectors: &[(&[&str], &str)] = &[
        (&["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
        (&["9.9.9.9, 10.0.0.5"], "9.9.9.9"),
        (&["evil", "3.3.3.3"], "3.3.3.3"),
        (&["1.1.1.1", "4.4.4.4, 10.0.0.2"], "4.4.4.4"),
        (&["4.4.4.4, junk, 10.0.0.2"], "10.0.0.2"),
        (&["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        (&["5.5.5.5:1234"], "5.5.5.5"),
        (&["::ffff:6.6.6.6"], "6.6.6.6"),
        (&[""], "127.0.0.1"),
        (&[], "127.0.0.1"),
    ];
    for (index, (lines, client)) in vectors.iter().enumerate() {
        let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        let path = format!("/vector-{index}");
        assert_eq!(gateway.get_with(&path, &headers).status, 200);
        assert_eq!(gateway.access_line(&path)["client_ip"], *client, "{lines:?}");
    }
}

#[test]
fn only_the_configured_header_names_the_client() {
    let vectors = [
        ("forwarded", "Forwarded", r#"for=203.0.113.7;proto=https, for="[2001:db8::17]:4711""#, "for=198.51.100.1"),
        ("cf-connecting-ip", "CF-Connecting-IP", "203.0.113.7", "203.0.113.8"),
    ];
    for (configured, header, one, other) in vectors {
        let gateway = trusting(r#"rate = "1/h""#).client_ip(&format!("header = \"{configured}\"")).start();
        let ask = |header: &str, value: &str| gateway.get_with("/", &[(header, value)]).status;
        assert_eq!([ask(header, one), ask(header, one), ask(header, other)], [200, 429, 200], "{configured}");
        let rotating = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| ask("X-Forwarded-For", address));
        assert_eq!(rotating, [200, 429, 429], "{configured}: X-Forwarded-For must mean nothing");
    }
}

#[test]
fn denied_networks_get_403_and_draw_on_nothing() {
    let setup = trusting(r#"name = "per-ip", rate = "2/h""#)
        .client_ip("deny = [\"203.0.113.0/24\"]\nallow = [\"203.0.113.0/24\", \"198.51.100.0/24\"]");
    let gateway = setup.start();
    for _ in 0..4 {
        let refused = gateway.get_from("203.0.113.5", "/");
        assert_eq!((refused.status, refused.error().as_str()), (403, "forbidden"));
    }
    assert_eq!(gateway.metric("sluicegate_decisions_total", &[("limit", "per-ip")]), 0.0);
    assert_eq!(gateway.get_from("198.51.100.1", "/").status, 200);
    assert_eq!(gateway.get_from("192.0.2.1", "/").status, 403, "not in `allow`");
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn exempt_networks_have_no_limits_and_no_limit_headers() {
    let gateway = trusting(r#"rate = "1/h""#).client_ip(r#"exempt = ["203.0.113.0/24"]"#).start();
    for _ in 0..5 {
        let passed = gateway.get_from("203.0.113.5", "/");
        assert_eq!((passed.status, passed.has("ratelimit-limit")), (200, false));
    }
    assert_eq!(["198.51.100.1"; 2].map(|from| gateway.get_from(from, "/").status), [200, 429]);
}
