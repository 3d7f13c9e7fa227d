//! One process takes the place of another: no request is refused or broken, and no quota is granted twice.

use crate::support::authority::Authority;
use crate::support::client::{UPGRADE, render};
use crate::support::http2::Http2;
use crate::support::redis::RedisServer;
use crate::support::*;
use program::Running;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A limit that no edge of a window renews within a test, with a counter for each value of a header.
fn limited(count: usize) -> Setup {
    Setup::new(format!(
        "[[limits]]\nname = \"runs\"\nper = \"header:x-run\"\nrate = \"{count}/h\"\nalgorithm = \"sliding_window_log\"\n"
    ))
}

/// Starts the next process beside the one that runs.
fn start_next(gateway: &Gateway) -> Running {
    Running::start(gateway.files.directory(), &["run", "--upgrade", "-c", "sluicegate.toml"])
}

/// Waits until the next process serves, and puts it in the place of the one before, which is returned.
fn take_over(gateway: &mut Gateway) -> Running {
    let mut next = start_next(gateway);
    wait_until_ready(&mut next);
    std::mem::replace(&mut gateway.running, next)
}

#[track_caller]
fn wait_until_ready(next: &mut Running) {
    let ready = becomes_true(PATIENCE, || {
        assert!(next.is_running(), "it ended:\n{}", next.output());
        next.output().contains("\"ready\"")
    });
    assert!(ready, "{}", next.output());
}

fn pid_file(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.files.path("sluicegate.pid")).unwrap_or_default().trim().to_string()
}

/// What a client under load saw.
#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    refused: AtomicUsize,
    broken: AtomicUsize,
}

/// Whether the peer has closed a connection on which nothing is under way: a client sees that before it sends.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("it is open");
    let closed = stream.peek(&mut [0]).is_ok();
    stream.set_nonblocking(false).expect("it is open");
    closed
}

/// Asks until told to stop, on kept connections or on a new one for each request.
fn load(gateway: &Gateway, keep: bool, run: &str, until: &AtomicBool, seen: &Seen) {
    let address = gateway.files.data;
    let connection = if keep { "keep-alive" } else { "close" };
    let request = render("GET", "/", &[("x-run", run), ("connection", connection)], b"");
    let mut kept: Option<TcpStream> = None;
    while !until.load(SeqCst) {
        let stream = kept.take().filter(|stream| !is_closed(stream)).map_or_else(|| TcpStream::connect(address), Ok);
        let answered = stream.and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&request)?;
            Ok((answer(&mut stream)?, stream))
        });
        match answered {
            Ok(((200, stays), stream)) => {
                seen.accepted.fetch_add(1, SeqCst);
                kept = (keep && stays).then_some(stream);
            }
            Ok(((429, stays), stream)) => {
                seen.refused.fetch_add(1, SeqCst);
                kept = (keep && stays).then_some(stream);
            }
            other => {
                eprintln!("{run}, {connection}: {other:?}");
                seen.broken.fetch_add(1, SeqCst);
            }
        }
    }
}

/// Status, and whether the connection stays open.
fn answer(stream: &mut TcpStream) -> std::io::Result<(u16, bool)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(std::io::Error::other(format!("cut off after {:?}", String::from_utf8_lossy(&bytes))));
        }
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length: usize = field("content-length:").and_then(|text| text.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
            return Ok((status, field("connection:") != Some("close")));
        }
    }
}

#[test]
fn b142_upgrades_in_a_row_under_load_break_no_request_and_grant_nothing_twice() {
    const QUOTA: usize = 1500;
    const UPGRADES: usize = 4;
    let mut gateway = limited(QUOTA).start();
    let (until, seen) = (AtomicBool::new(false), [Seen::default(), Seen::default()]);
    let running = Running::start(gateway.files.directory(), &["--version"]);
    let mut before = vec![std::mem::replace(&mut gateway.running, running)];
    let started = Instant::now();
    thread::scope(|scope| {
        for client in 0..8 {
            let (gateway, until, seen) = (&gateway, &until, &seen);
            let run = client % 2;
            scope.spawn(move || load(gateway, client < 4, &run.to_string(), until, &seen[run]));
        }
        for _ in 0..UPGRADES {
            let count = seen[0].accepted.load(SeqCst) + seen[0].refused.load(SeqCst);
            wait_until("the load goes on", || {
                seen[0].accepted.load(SeqCst) + seen[0].refused.load(SeqCst) > count + 50
            });
            let mut next = start_next(&gateway);
            wait_until_ready(&mut next);
            before.push(next);
        }
        let enough = |seen: &Seen| seen.refused.load(SeqCst) > 0;
        let spent = becomes_true(PATIENCE * 3, || seen.iter().all(enough));
        until.store(true, SeqCst);
        assert!(spent, "the quota was not spent in {:?}", started.elapsed());
    });
    gateway.running = before.pop().expect("the last one");
    for (run, seen) in seen.iter().enumerate() {
        assert_eq!(seen.broken.load(SeqCst), 0, "broken requests of run {run}");
        assert_eq!(seen.accepted.load(SeqCst), QUOTA, "of run {run}");
    }
    for (index, old) in before.iter_mut().enumerate() {
        let status = old.wait(PATIENCE).unwrap_or_else(|| panic!("process {index} still runs:\n{}", old.output()));
        assert_eq!(status.code(), Some(0), "{}", old.output());
        assert!(!old.output().contains("\"WARN\"") && !old.output().contains("\"ERROR\""), "{}", old.output());
    }
    assert_eq!(gateway.get_with("/", &[("x-run", "0")]).status, 429);
    assert_eq!(pid_file(&gateway), gateway.running.id().to_string());
}

#[test]
fn b142_counters_go_on_exactly_and_a_kept_connection_gets_its_next_answer() {
    let mut gateway = limited(100).start();
    let mut kept = gateway.connect();
    let ask = |client: &mut Client| client.request("GET", "/", &[("x-run", "a")], b"");
    for left in [99, 98, 97] {
        assert_eq!(ask(&mut kept).remaining(), left);
    }
    let mut old = take_over(&mut gateway);
    assert_eq!(gateway.get_with("/", &[("x-run", "a")]).remaining(), 96, "the new process has the counters");
    let last = ask(&mut kept);
    assert_eq!((last.remaining(), last.one("connection")), (95, "close"), "the old one asks the new one");
    assert_eq!(gateway.get_with("/", &[("x-run", "a")]).remaining(), 94);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "{}", old.output());
}

#[test]
fn a_request_under_way_is_finished_by_the_old_process() {
    let gate = Gate::closed();
    let held = gate.clone();
    let mut gateway = limited(100).before_script(move |_| Reply::ok().behind(&held));
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b""));
    wait_until("the request is under way", || gateway.upstream.connections() == 1);
    let mut next = start_next(&gateway);
    wait_until_ready(&mut next);
    assert!(gateway.running.is_running());
    assert_eq!(gateway.admin("/readyz").status, 200, "only the new one answers probes");
    gate.open();
    assert_eq!(client.read("GET").status, 200);
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    gateway.running = next;
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn a_tunnel_goes_on_in_the_old_process() {
    let mut gateway = limited(100).before_script(|_| Reply::upgrade());
    let mut tunnel = gateway.connect();
    assert_eq!(tunnel.request("GET", "/", &UPGRADE, b"").status, 101);
    let mut old = take_over(&mut gateway);
    wait_until("the old one drains", || old.output().contains("draining"));
    tunnel.send(b"still here");
    assert_eq!(tunnel.read_exactly(10), b"still here");
    assert!(old.is_running());
    drop(tunnel);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "{}", old.output());
}

#[test]
fn a_bad_configuration_ends_with_78_and_leaves_the_old_process_alone() {
    let mut gateway = limited(10).start();
    let good = fs::read_to_string(gateway.files.path("sluicegate.toml")).expect("it was written");
    fs::write(gateway.files.path("sluicegate.toml"), format!("{good}\nnonsense = 1\n")).expect("the directory is ours");
    let ended = program::run(gateway.files.directory(), &["run", "--upgrade", "-c", "sluicegate.toml"]);
    assert_eq!(ended.code, Some(78), "{}", ended.output());
    assert_eq!(gateway.get("/").remaining(), 9);
    // One that fails later, at a port that somebody else has, changes nothing either.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound");
    let moved = good.replace(&gateway.files.admin.to_string(), &address.to_string());
    fs::write(gateway.files.path("sluicegate.toml"), moved).expect("the directory is ours");
    let ended = program::run(gateway.files.directory(), &["run", "--upgrade", "-c", "sluicegate.toml"]);
    assert_eq!(ended.code, Some(1), "{}", ended.output());
    assert_eq!(gateway.get("/").remaining(), 8);
    assert!(gateway.running.is_running());
    assert_eq!(pid_file(&gateway), gateway.running.id().to_string());
}

#[test]
fn a_process_that_dies_half_way_through_gives_everything_back() {
    let gateway = limited(10).start();
    let socket = gateway.files.path("upgrade.sock");
    for words in [&b""[..], b"sluicegate upgrade 1", b"sluicegate upgrade 1C", b"sluicegate upgrade 1CX", b"nonsense"] {
        let mut stream = UnixStream::connect(&socket).expect("it is there");
        stream.write_all(words).expect("it listens");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        // Read to the end, so that it is known to be over.
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        let _it_may_be_reset = stream.read_to_end(&mut Vec::new());
    }
    for left in (0..10).rev() {
        assert_eq!(gateway.get("/").remaining(), left);
    }
    assert_eq!(gateway.get("/").status, 429);
}

#[test]
fn without_a_running_gateway_an_upgrade_is_a_start() {
    let setup = limited(10);
    let (files, upstream) = (setup.files(), Upstream::ok());
    let running = Running::start(files.directory(), &["run", "--upgrade", "-c", "sluicegate.toml"]);
    let mut gateway = Gateway { setup, files, running, upstream };
    gateway.wait_ready();
    assert!(gateway.log().contains("no gateway runs here"), "{}", gateway.log());
}

#[test]
fn the_files_of_a_process_come_and_go_with_it_and_stale_ones_are_replaced() {
    let mut gateway = limited(10).start();
    wait_until("the pid file is there", || !pid_file(&gateway).is_empty());
    assert_eq!(pid_file(&gateway), gateway.running.id().to_string());
    let mode = |name: &str| fs::metadata(gateway.files.path(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("sluicegate.pid"), mode("upgrade.sock")), (0o644, 0o600));
    gateway.signal("KILL");
    gateway.wait_exit(PATIENCE);
    assert!(gateway.files.path("upgrade.sock").exists(), "a killed process leaves its files");
    gateway.running = Running::start(gateway.files.directory(), &["run", "-c", "sluicegate.toml"]);
    gateway.wait_ready();
    let own = gateway.running.id().to_string();
    wait_until("the stale pid file is replaced", || pid_file(&gateway) == own);
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    for name in ["sluicegate.pid", "upgrade.sock"] {
        assert!(!gateway.files.path(name).exists(), "{name} is left behind");
    }
}

#[test]
fn a_directory_that_cannot_be_used_costs_the_upgrade_alone() {
    let setup = limited(10);
    let (files, upstream) = (setup.files(), Upstream::ok());
    let text = files.render(&setup);
    let own = files.directory().display().to_string();
    fs::write(files.path("occupied"), "a file").expect("the directory is ours");
    let text = text.replace(&format!("runtime_dir = \"{own}\""), "runtime_dir = \"occupied/run\"");
    fs::write(files.path("sluicegate.toml"), text).expect("the directory is ours");
    let running = Running::start(files.directory(), &["run", "-c", "sluicegate.toml"]);
    let mut gateway = Gateway { setup, files, running, upstream };
    gateway.wait_ready();
    wait_until("it says so", || gateway.log().contains("cannot use runtime_dir"));
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
}

#[test]
fn a_second_gateway_leaves_the_files_of_the_first_alone() {
    let gateway = limited(10).start();
    wait_until("the pid file is there", || !pid_file(&gateway).is_empty());
    let setup = limited(10);
    let (files, upstream) = (setup.files(), Upstream::ok());
    let (mine, theirs) = (files.directory().display().to_string(), gateway.files.directory().display().to_string());
    let text = files.render(&setup).replace(&mine, &theirs);
    fs::write(files.path("sluicegate.toml"), text).expect("the directory is ours");
    let running = Running::start(files.directory(), &["run", "-c", "sluicegate.toml"]);
    let mut second = Gateway { setup, files, running, upstream };
    second.wait_ready();
    wait_until("it says so", || second.log().contains("another gateway has this runtime_dir"));
    second.signal("TERM");
    assert_eq!(second.wait_exit(PATIENCE), Some(0));
    assert_eq!(pid_file(&gateway), gateway.running.id().to_string());
    assert!(!gateway.log().contains("\"WARN\""), "{}", gateway.log());
}

#[test]
fn the_snapshot_file_goes_to_the_new_process_with_the_counters() {
    let mut gateway = limited(100).toml("[store.memory]\nsnapshot = \"counters.bin\"\n").start();
    assert_eq!(gateway.statuses(5, "/"), [200; 5]);
    let mut old = take_over(&mut gateway);
    assert_eq!(gateway.get("/").remaining(), 94);
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    // Had the old one written the file too, the last request would be forgotten.
    let ended = old.wait(Duration::from_secs(60));
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "{}", old.output());
    gateway.running = Running::start(gateway.files.directory(), &["run", "-c", "sluicegate.toml"]);
    gateway.wait_ready();
    assert_eq!(gateway.get("/").remaining(), 93);
}

#[test]
fn http2_connections_are_told_to_go_and_lose_no_stream() {
    let mut gateway = limited(50_000).start();
    let (until, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = gateway.files.data;
    let mut old = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = Http2::connect(address);
                while !until.load(SeqCst) {
                    match connection.try_request("GET", "/", &[]) {
                        Some(answer) => {
                            assert_eq!(answer.status, 200);
                            answered.fetch_add(1, SeqCst);
                        }
                        None => connection = Http2::connect(address),
                    }
                }
            });
        }
        wait_until("streams are answered", || answered.load(SeqCst) > 50);
        let old = take_over(&mut gateway);
        let count = answered.load(SeqCst);
        let went_on = becomes_true(PATIENCE, || answered.load(SeqCst) > count + 50);
        until.store(true, SeqCst);
        assert!(went_on);
        old
    });
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "{}", old.output());
    let used = 50_000 - gateway.get("/").remaining() - 1;
    assert_eq!(usize::try_from(used).ok(), Some(answered.load(SeqCst)), "each was charged once");
}

/// The status of a request over TLS.
fn over_tls(authority: &Authority, port: u16) -> u16 {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).expect("it is PEM")).expect("it is an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "gateway.test".try_into().expect("it is a name");
    let session = rustls::ClientConnection::new(Arc::new(config), name).expect("the configuration is whole");
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut stream = rustls::StreamOwned::new(session, socket);
    stream.write_all(&render("GET", "/", &[("connection", "close")], b"")).expect("it reads");
    let mut bytes = Vec::new();
    // Some peers end without saying so.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no status: {text}"))
}

#[test]
fn tls_listeners_are_taken_over_too() {
    let (authority, port) = (Authority::new(), free_port());
    let signed = authority.sign("gateway", &["gateway.test"]);
    let listener = format!(
        "[[server.tls]]\nlisten = \"127.0.0.1:{port}\"\ncertificate = \"{}\"\nkey = \"{}\"\n",
        signed.certificate, signed.key
    );
    let mut gateway = limited(100).toml(&listener).start();
    assert_eq!(over_tls(&authority, port), 200);
    let (until, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut old = thread::scope(|scope| {
        scope.spawn(|| {
            while !until.load(SeqCst) {
                // After 100 requests it is 429, over the same listener.
                assert!(matches!(over_tls(&authority, port), 200 | 429));
                answered.fetch_add(1, SeqCst);
            }
        });
        let mut old = take_over(&mut gateway);
        let ended = old.wait(PATIENCE);
        let count = answered.load(SeqCst);
        let went_on = becomes_true(PATIENCE, || answered.load(SeqCst) > count + 3);
        until.store(true, SeqCst);
        assert!(ended.is_some() && went_on, "{}", old.output());
        old
    });
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "{}", old.output());
}

#[test]
fn a_change_of_the_store_goes_through_an_upgrade_and_takes_the_sockets_alone() {
    let redis = RedisServer::start();
    let in_redis =
        format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"5s\"\n", redis.url());
    let mut gateway = limited(10).start();
    assert_eq!(gateway.get("/").remaining(), 9);
    let mut kept = gateway.connect();
    assert_eq!(kept.get("/").remaining(), 8);
    let in_memory = limited(10);
    let mut replace = |gateway: &mut Gateway, setup: &Setup| {
        gateway.files.write(setup);
        let mut old = take_over(gateway);
        // Counters that are not passed on stay where they were.
        let last = kept.get("/").remaining();
        kept = gateway.connect();
        assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "{}", old.output());
        (last, kept.get("/").remaining())
    };
    assert_eq!(replace(&mut gateway, &limited(10).toml(&in_redis)), (7, 9), "from memory to Redis");
    assert_eq!(replace(&mut gateway, &limited(10).toml(&in_redis)), (8, 7), "from Redis to Redis");
    assert_eq!(replace(&mut gateway, &in_memory), (6, 9), "from Redis to memory");
}
