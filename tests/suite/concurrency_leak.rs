//! However a request ends, nothing of it stays behind.

use crate::support::client::{UPGRADE, render};
use crate::support::reply::End;
use crate::support::*;
use std::time::Duration;

fn world() -> Gateway {
    let toml = "[[routes]]\nmatch = \"/timeout\"\ntimeout = \"100ms\"\n[[routes]]\nmatch = \"*\"\n";
    Setup::new(toml).before_script(|request| match request.target.as_str() {
        "/reset" => Reply::only(End::Reset),
        "/timeout" | "/hang" => Reply::only(End::Hang),
        "/half" => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").ending(End::Hang),
        "/tunnel" => Reply::upgrade(),
        path => Reply::status(path[1..].parse().unwrap_or(200), &[], "x"),
    })
}

/// One abort of each kind, by index.
fn abort(gateway: &Gateway, kind: usize) {
    let mut client = gateway.connect();
    match kind % 7 {
        0 => client.send("GET /never HTTP/1.1\r\nHost"),
        1 => client.send(render("POST", "/body", &[("Content-Length", "1000")], b"half")),
        2 => client.send(render("GET", "/hang", &[], b"")),
        3 => {
            client.send(render("GET", "/half", &[], b""));
            client.read_exactly(20);
        }
        4 => return drop(client.get("/reset")),
        5 => return drop(client.get("/timeout")),
        _ => {
            let h2 = http2::Http2::connect(gateway.files.data);
            h2.open_and_reset("/hang");
            return;
        }
    }
    if kind.is_multiple_of(2) { client.reset() } else { drop(client) }
}

#[test]
fn b35_aborted_requests_leave_nothing_in_flight() {
    let gateway = world();
    burst(70, 10, |index| abort(&gateway, index));
    gateway.wait_idle();
    let statuses = burst(5, 5, |_| gateway.get("/200").status);
    assert_eq!(count(&statuses, 200), 5);
}

#[test]
fn b35_the_gauge_counts_what_is_in_flight() {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |_| Reply::ok().behind(&held));
    let mut clients: Vec<Client> = (0..5).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client.send(render("GET", "/", &[], b""));
    }
    wait_until("five are in flight", || gateway.metric("sluicegate_requests_in_flight", &[]) == 5.0);
    gate.open();
    assert!(clients.iter_mut().all(|client| client.read("GET").status == 200));
    gateway.wait_idle();
}

#[test]
fn b85_upgrades_that_become_no_tunnel_and_refusals_leave_nothing_in_flight() {
    let toml = "[[routes]]\nmatch = \"/limited\"\nlimits = [{ rate = \"1/h\" }]\n[[routes]]\nmatch = \"*\"\n";
    let gateway =
        Setup::new(toml).auth("failures = \"1000/h\"").before_script(|request| match request.target.as_str() {
            "/tunnel" => Reply::upgrade(),
            path => Reply::status(path[1..].parse().unwrap_or(200), &[], "x"),
        });
    for path in ["/426", "/200", "/500", "/limited"] {
        burst(30, 6, |_| drop(gateway.get_with(path, &UPGRADE)));
    }
    burst(30, 6, |_| drop(gateway.get_as("wrong_key_0123456789", "/200")));
    gateway.wait_idle();
    let mut tunnel = gateway.connect();
    assert_eq!(tunnel.request("GET", "/tunnel", &UPGRADE, b"").status, 101);
    drop(tunnel);
    gateway.wait_idle();
}

#[test]
fn b35_a_client_that_leaves_frees_the_upstream_connection() {
    let gateway = world();
    let mut client = gateway.connect();
    client.send(render("GET", "/hang", &[], b""));
    wait_until("it arrived", || gateway.upstream.count() == 1);
    drop(client);
    assert!(becomes_true(Duration::from_secs(5), || gateway.metric("sluicegate_requests_in_flight", &[]) == 0.0));
}
