//! Upgrades: charged at the handshake, refused in plain HTTP, tunnelled whole.

use crate::support::client::{UPGRADE, render};
use crate::support::*;
use std::time::Duration;

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

/// Opens a tunnel, sends three frames through it and gets each back; the error says how far it came.
fn echo_three(gateway: &Gateway) -> Result<(), String> {
    let mut tunnel = gateway.connect();
    tunnel.send(render("GET", "/ws", &UPGRADE, b""));
    let status = tunnel.try_read("GET").map_err(|error| error.to_string())?.map(|answer| answer.status);
    if status != Some(101) {
        return Err(format!("the handshake was answered {status:?}"));
    }
    for frame in [&b"one"[..], b"two two", b"three three three"] {
        tunnel.send(frame);
        let echoed = tunnel.try_read_exactly(frame.len()).map_err(|error| format!("{frame:?}: {error}"))?;
        if echoed != frame {
            return Err(format!("{frame:?} came back as {echoed:?}"));
        }
    }
    Ok(())
}

#[test]
fn b76_every_handshake_becomes_a_tunnel_however_fast_the_upstream_agrees() {
    for (delay_ms, handshakes) in [(0, 1000), (5, 200), (50, 50)] {
        let gateway = Setup::default().before_script(move |_| match delay_ms {
            0 => Reply::upgrade(),
            delay_ms => Reply::upgrade().after(Duration::from_millis(delay_ms)),
        });
        let failed: Vec<String> =
            burst(handshakes, 8, |_| echo_three(&gateway)).into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "after {delay_ms} ms {} of {handshakes} failed: {:?}", failed.len(), failed[0]);
        gateway.wait_idle();
    }
}

#[test]
fn what_comes_ahead_of_an_agreement_goes_through_the_tunnel_and_not_upstream_as_a_request() {
    let gate = reply::Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |_| Reply::upgrade().behind(&held));
    let mut tunnel = gateway.connect();
    let ahead = render("GET", "/admin", &[], b"");
    tunnel.send([render("GET", "/ws", &UPGRADE, b""), ahead.clone()].concat());
    wait_until("the handshake arrived", || gateway.metric("sluicegate_requests_in_flight", &[]) == 1.0);
    gate.open();
    assert_eq!(tunnel.read("GET").status, 101);
    assert_eq!(tunnel.read_exactly(ahead.len()), ahead);
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn a_tunnel_lives_through_a_reload_and_ends_with_either_side() {
    let mut gateway = Setup::default().before_script(|_| Reply::upgrade());
    let mut tunnel = gateway.connect();
    assert_eq!(tunnel.request("GET", "/ws", &UPGRADE, b"").status, 101);
    gateway.reload(|setup| *setup = setup.clone().client_ip("limits = [{ rate = \"9/h\" }]"));
    tunnel.send("still here");
    assert_eq!(tunnel.read_exactly(10), b"still here");
    drop(tunnel);
    gateway.wait_idle();
}

#[test]
fn an_upgrade_that_connection_does_not_name_is_a_plain_request() {
    let gateway = Setup::default().before_script(|request| match request.header("upgrade") {
        Some(_) => Reply::upgrade(),
        None => Reply::ok(),
    });
    let mut client = gateway.connect();
    for headers in [&UPGRADE[1..], &[&[("Connection", "keep-alive")], &UPGRADE[1..]].concat()] {
        assert_eq!(client.request("GET", "/ws", headers, b"").status, 200);
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(gateway.get_with("/ws", &UPGRADE).status, 101);
}
