//! Upgrades: charged at the handshake, refused in plain HTTP, tunnelled whole.

use crate::support::client::UPGRADE;
use crate::support::*;

#[test]
fn b141_handshakes_are_limited_and_refused_in_plain_http() {
    let gateway = Setup::limited(&[r#"rate = "3/h""#]).before_script(|_| Reply::upgrade());
    let mut tunnels: Vec<Client> = (0..3).map(|_| gateway.connect()).collect();
    for tunnel in &mut tunnels {
        assert_eq!(tunnel.request("GET", "/ws", &UPGRADE, b"").status, 101);
    }
    for _ in 0..2 {
        let mut client = gateway.connect();
        let refused = client.request("GET", "/ws", &UPGRADE, b"");
        assert_eq!((refused.status, refused.error().as_str()), (429, "rate_limit_exceeded"));
        assert!(refused.retry_after() >= 1 && !refused.has("upgrade"));
        let closes = refused.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        assert!(if closes { client.is_closed_within(PATIENCE) } else { client.get("/").status == 429 });
    }
    assert_eq!(gateway.upstream.count(), 3);
}

#[test]
fn b141_a_handshake_that_the_upstream_declines_counts_once() {
    let gateway = Setup::limited(&[r#"rate = "10/h""#])
        .before_script(|request| Reply::status(if request.target == "/426" { 426 } else { 200 }, &[], "no"));
    for (path, remaining) in [("/426", 9), ("/200", 8)] {
        let answer = gateway.get_with(path, &UPGRADE);
        assert_eq!((answer.status, answer.remaining()), (path[1..].parse().unwrap(), remaining));
    }
}
