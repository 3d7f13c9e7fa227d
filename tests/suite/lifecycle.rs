//! Start and end: signals, draining, exit codes.

use crate::support::client::render;
use crate::support::*;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
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

#[test]
fn readiness_ends_with_term_while_open_requests_go_on() {
    let (mut gateway, mut client, gate) = busy();
    assert_eq!(gateway.admin("/readyz").status, 200);
    gateway.signal("TERM");
    let mut refused_before_unready = false;
    wait_until("readiness has ended", || {
        // In this order: a door found closed says that readiness ended before.
        let refused = TcpStream::connect(gateway.files.data).is_err();
        let ready = gateway.admin("/readyz").status;
        refused_before_unready |= refused && ready == 200;
        ready == 503
    });
    assert!(!refused_before_unready);
    let mut late = Client::connect(gateway.files.admin);
    let unready = gateway.admin("/readyz");
    assert_eq!((unready.status, unready.text().as_str()), (503, "draining\n"));
    assert_eq!(gateway.admin("/livez").status, 200);
    assert_eq!(late.get("/livez").status, 200, "a probe that takes its time is answered too");
    wait_until("no new connection is taken", || TcpStream::connect(gateway.files.data).is_err());
    gate.open();
    assert_eq!(client.read("GET").status, 200);
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
}

/// A service manager that only listens.
struct Manager {
    _directory: tempfile::TempDir,
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let path = directory.path().join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("the directory is ours");
        socket.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        Self { _directory: directory, socket, path: path.display().to_string() }
    }

    fn setup(&self) -> Setup {
        Setup::default().environment("NOTIFY_SOCKET", &self.path)
    }

    /// The assignments of the next message.
    #[track_caller]
    fn next(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a message comes");
        String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_string).collect()
    }
}

/// Microseconds of the clock that systemd compares with.
fn monotonic_us(line: &str) -> u64 {
    line.strip_prefix("MONOTONIC_USEC=").and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn systemd_hears_of_readiness_reloads_and_the_end() {
    let manager = Manager::new();
    let mut gateway = manager.setup().start();
    assert_eq!(manager.next(), ["READY=1"]);
    let mut last = 0;
    for (change, outcome) in [("", Reload::Success), ("nonsense = 1", Reload::Failure)] {
        assert_eq!(gateway.reload(|setup| setup.toml.push_str(change)), outcome);
        let begun = manager.next();
        assert_eq!(begun[0], "RELOADING=1");
        let at = monotonic_us(&begun[1]);
        assert!(at > last, "{at} is not after {last}");
        last = at;
        let done = manager.next();
        assert_eq!(done[0], "READY=1", "also after a reload that was refused");
        assert_eq!(done[1].contains("refused"), outcome == Reload::Failure, "{done:?}");
    }
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert_eq!(manager.next(), ["STOPPING=1"]);
}

#[test]
fn systemd_hears_which_process_serves_after_an_upgrade() {
    let manager = Manager::new();
    let mut gateway = manager.setup().start();
    assert_eq!(manager.next(), ["READY=1"]);
    let environment = [("NOTIFY_SOCKET".to_string(), manager.path.clone())];
    let arguments = ["run", "--upgrade", "-c", "sluicegate.toml"];
    let next = program::Running::start_in(gateway.files.directory(), &arguments, &environment);
    let main = format!("MAINPID={}", next.id());
    let mut heard = [manager.next(), manager.next()];
    heard.sort();
    assert_eq!(heard, [vec![main.clone()], vec![main, "READY=1".to_string()]], "both processes say it");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{}", gateway.log());
    gateway.running = next;
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert_eq!(manager.next(), ["STOPPING=1"], "the old one did not say that the service stops");
}

#[test]
fn the_old_process_of_an_upgrade_still_heeds_a_term() {
    let (mut gateway, _client, gate) = busy();
    let arguments = ["run", "--upgrade", "-c", "sluicegate.toml"];
    let next = program::Running::start(gateway.files.directory(), &arguments);
    wait_until("the old one drains", || gateway.log().contains("draining"));
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(Duration::from_secs(8)), Some(0), "{}", gateway.log());
    gate.open();
    gateway.running = next;
    assert_eq!(gateway.get("/").status, 200);
}
