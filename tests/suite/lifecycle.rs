//! Start and end: signals, draining, exit codes.

use crate::support::client::render;
use crate::support::*;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A gateway with one request under way that answers when the gate opens.
fn busy() -> (Gateway, Client, Gate) {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |_| Reply::ok().behind(&held));
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b""));
    wait_until("the request is under way", || gateway.upstream.count() == 1);
    (gateway, client, gate)
}

#[test]
fn term_and_quit_let_open_requests_finish_and_exit_0() {
    for signal in ["TERM", "QUIT"] {
        let (mut gateway, mut client, gate) = busy();
        gateway.signal(signal);
        wait_until("no new connection is taken", || {
            TcpStream::connect(gateway.files.data).is_err() || gateway.log().to_ascii_lowercase().contains("drain")
        });
        assert!(gateway.running.is_running(), "{signal}: it must wait for the open request");
        gate.open();
        let opened = Instant::now();
        let answer = client.read("GET");
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{signal}");
        assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{signal}");
        assert!(
            opened.elapsed() < Duration::from_secs(8),
            "{signal}: it slept out its drain time: {:?}",
            opened.elapsed()
        );
    }
}

#[test]
fn an_idle_gateway_ends_at_once_on_every_ending_signal() {
    for signal in ["TERM", "QUIT", "INT"] {
        let mut gateway = Setup::default().start();
        let mut kept = gateway.connect();
        assert_eq!(kept.get("/").status, 200);
        let _silent = gateway.connect();
        assert_eq!(gateway.get("/").status, 200);
        gateway.signal(signal);
        let sent = Instant::now();
        assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{signal}");
        assert!(sent.elapsed() < Duration::from_secs(8), "{signal}: {:?}", sent.elapsed());
    }
}

#[test]
fn int_ends_at_once_whatever_is_open() {
    let (mut gateway, _client, _gate) = busy();
    gateway.signal("INT");
    assert_eq!(gateway.wait_exit(Duration::from_secs(5)), Some(0));
}

#[test]
fn a_second_term_ends_at_once() {
    let (mut gateway, _client, _gate) = busy();
    gateway.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(gateway.running.is_running());
    gateway.signal("TERM");
    gateway.wait_exit(Duration::from_secs(5));
}

#[test]
fn draining_ends_at_its_deadline() {
    let gate = Gate::closed();
    let held = gate.clone();
    let mut gateway = Setup::default().server("drain = \"1s\"").before_script(move |_| Reply::ok().behind(&held));
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b""));
    wait_until("the request is under way", || gateway.upstream.count() == 1);
    let sent = Instant::now();
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert!(
        sent.elapsed() >= Duration::from_millis(900) && sent.elapsed() < Duration::from_secs(8),
        "{:?}",
        sent.elapsed()
    );
}

#[test]
fn a_port_in_use_is_a_failure_that_names_it() {
    let first = Setup::default().start();
    let ended = program::run(first.files.directory(), &["run", "-c", "sluicegate.toml"]);
    assert_eq!(ended.code, Some(1), "{}", ended.output());
    assert!(
        ended.output().contains(&first.files.data.port().to_string())
            || ended.output().contains(&first.files.admin.port().to_string())
    );
    assert_eq!(first.get("/").status, 200);
}

#[test]
fn the_program_serves_without_the_word_run() {
    let setup = Setup::default();
    let (files, upstream) = (setup.files(), Upstream::ok());
    let running = program::Running::start(files.directory(), &["-c", "sluicegate.toml"]);
    let mut gateway = Gateway { setup, files, running, upstream };
    gateway.wait_ready();
}
