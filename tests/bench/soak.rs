//! Real traffic of every kind for minutes, with faults: what is left behind afterwards?
//!
//! HTTP/1.1 kept and closed, uploads, slow readers, clients that leave, HTTP/2 with resets, tunnels; a reload every second; one of two
//! servers of the upstream going away and coming back. Once a second memory, descriptors and requests in flight are read. At the
//! end nothing may be in flight, no descriptor may be left over, memory may not have grown since it was warm, and every answer
//! must be one that the faults explain. It fails otherwise. Seconds are the argument; 120 without one.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is outside, where time really passes")]

#[allow(dead_code, unused_imports, reason = "the suite's harness has more than a soak needs")]
#[path = "../suite/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::client::{UPGRADE, render};
use support::http2::Http2;
use support::{Client, Gateway, Reload, Reply, Setup, becomes_true, free_port};

/// What memory may grow by after the first third: allocators keep some of what they once had.
const GROWTH_KIB: u64 = 24 * 1024;

/// How long the second server is there, and how long it is gone.
const UP: Duration = Duration::from_millis(1500);
const DOWN: Duration = Duration::from_millis(500);

/// Statuses that the traffic and its faults explain: the last two when a server goes away under a request.
const EXPLAINED: [u16; 5] = [200, 101, 429, 502, 504];

/// What came back, by kind of client and status; 0 where the connection ended first.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Tally {
    fn note(&self, kind: &'static str, status: u16) {
        *self.0.lock().expect("nobody panics while it holds the tally").entry((kind, status)).or_default() += 1;
    }
}

struct World {
    gateway: Gateway,
    tally: Tally,
    over: AtomicBool,
}

impl World {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Option<Client> {
        TcpStream::connect(self.gateway.files.data).ok().map(|_| self.gateway.connect())
    }
}

/// Requests on one connection until it is closed.
fn kept(world: &World, kind: &'static str, request: &[u8], pause: Duration) {
    while world.goes_on() {
        let Some(mut client) = world.connect() else { continue };
        for _ in 0..50 {
            if client.try_send(request).is_err() {
                break;
            }
            match client.try_read("GET") {
                Ok(Some(answer)) => {
                    world.tally.note(kind, answer.status);
                    if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                        break;
                    }
                }
                Ok(None) | Err(_) => {
                    world.tally.note(kind, 0);
                    break;
                }
            }
            thread::sleep(pause);
        }
    }
}

/// Clients that leave in the middle of something.
fn leavers(world: &World) {
    let starts: [Vec<u8>; 5] = [
        b"GET /never HTTP/1.1\r\nHos".to_vec(),
        render("POST", "/", &[("Content-Length", "100000")], b"the begin of it"),
        render("GET", "/slow", &[], b""),
        render("GET", "/large", &[], b""),
        render("GET", "/ws", &UPGRADE, b""),
    ];
    for turn in 0.. {
        if !world.goes_on() {
            return;
        }
        let Some(mut client) = world.connect() else { continue };
        let _it_may_be_refused = client.try_send(&starts[turn % starts.len()]);
        thread::sleep(Duration::from_millis((turn % 7) as u64));
        if turn % 2 == 0 { client.reset() } else { drop(client) }
    }
}

/// Takes a megabyte in small sips.
fn slow_readers(world: &World) {
    while world.goes_on() {
        let Ok(mut stream) = TcpStream::connect(world.gateway.files.data) else { continue };
        let _it_may_be_refused = stream.write_all(&render("GET", "/large", &[("Connection", "close")], b""));
        let (mut sip, mut total) = ([0; 16 * 1024], 0);
        while let Ok(length @ 1..) = stream.read(&mut sip) {
            total += length;
            thread::sleep(Duration::from_millis(2));
        }
        world.tally.note("slow reader", if total > 1_000_000 { 200 } else { 0 });
    }
}

fn tunnels(world: &World) {
    while world.goes_on() {
        let Some(mut client) = world.connect() else { continue };
        if client.try_send(render("GET", "/ws", &UPGRADE, b"")).is_err() {
            continue;
        }
        let status = client.try_read("GET").ok().flatten().map_or(0, |answer| answer.status);
        world.tally.note("tunnel", status);
        for frame in [&b"one"[..], &[b'x'; 5000]] {
            let is_back =
                status == 101 && client.try_send(frame).is_ok() && client.try_read_exactly(frame.len()).is_ok();
            if status == 101 {
                world.tally.note("frame", if is_back { 200 } else { 0 });
            }
        }
    }
}

fn streams(world: &World) {
    while world.goes_on() {
        let client = Http2::connect(world.gateway.files.data);
        for turn in 0..40 {
            if turn % 4 == 3 {
                client.open_and_reset("/slow");
            } else {
                world.tally.note("http/2", client.request("GET", "/", &[]).status);
            }
        }
    }
}

/// The server that comes and goes: answers, and sometimes breaks off.
fn flapping(world: &World, address: SocketAddr) {
    while world.goes_on() {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        listener.set_nonblocking(true).expect("a listener takes options");
        let up = Instant::now();
        let mut open = Vec::new();
        while up.elapsed() < UP && world.goes_on() {
            if let Ok((stream, _)) = listener.accept() {
                open.push(stream);
            }
            open.retain_mut(answer_if_asked);
            thread::sleep(Duration::from_millis(1));
        }
        drop((listener, open));
        thread::sleep(DOWN);
    }
}

/// Answers what has come; false when the peer has gone.
fn answer_if_asked(stream: &mut TcpStream) -> bool {
    let _a_fresh_socket_takes_options = stream.set_nonblocking(true);
    let mut asked = [0; 64 * 1024];
    match stream.read(&mut asked) {
        Ok(0) => false,
        Ok(_) => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother").is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// Resident memory in KiB, and open descriptors.
fn footprint(process: u32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    (kib, std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count))
}

fn start() -> (World, SocketAddr) {
    let other = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let large = "x".repeat(1 << 20);
    let toml = format!(
        "[upstreams.pair]\nservers = [\"STUB\", \"{other}\"]\nretries = 1\n\
         [[routes]]\nmatch = \"/pair\"\nupstream = \"pair\"\n\
         [[routes]]\nmatch = \"/limited\"\nupstream = \"stub\"\nlimits = [{{ rate = \"50/s\" }}]\n\
         [[routes]]\nmatch = \"*\"\nupstream = \"stub\"\n"
    );
    let script = move |request: &support::Recorded| match request.target.as_str() {
        "/ws" => Reply::upgrade(),
        "/large" => Reply::status(200, &[], &large),
        "/slow" => Reply::ok().after(Duration::from_millis(20)),
        _ => Reply::ok(),
    };
    let stub = support::Upstream::new(script);
    let setup = Setup::new(toml.replace("STUB", &stub.address().to_string())).log("access = \"off\"");
    (World { gateway: setup.before(stub), tally: Tally::default(), over: AtomicBool::new(false) }, other)
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(120_u64);
    let (mut world, other) = start();
    let process = world.gateway.running.id();
    let (_, descriptors_before) = footprint(process);
    let mut samples = Vec::new();
    let shared = &world;
    thread::scope(|scope| {
        let pause = Duration::from_millis(1);
        scope.spawn(move || kept(shared, "kept", &render("GET", "/", &[], b""), pause));
        scope.spawn(move || kept(shared, "limited", &render("GET", "/limited", &[], b""), pause));
        scope.spawn(move || kept(shared, "pair", &render("GET", "/pair", &[], b""), pause));
        scope.spawn(move || kept(shared, "closed", &render("GET", "/", &[("Connection", "close")], b""), pause));
        scope.spawn(move || kept(shared, "upload", &render("POST", "/", &[], &[b'u'; 20_000]), pause * 20));
        scope.spawn(move || leavers(shared));
        scope.spawn(move || slow_readers(shared));
        scope.spawn(move || tunnels(shared));
        scope.spawn(move || streams(shared));
        scope.spawn(move || flapping(shared, other));
        for second in 0..seconds {
            thread::sleep(Duration::from_secs(1));
            shared.gateway.signal("HUP");
            let (kib, descriptors) = footprint(process);
            samples.push(kib);
            if second % 10 == 9 {
                println!("{:4} s  {kib:7} KiB  {descriptors:4} descriptors", second + 1);
            }
        }
        shared.over.store(true, Ordering::Relaxed);
    });
    let reload = world.gateway.hang_up();
    report(&world, &samples, descriptors_before, reload);
}

/// Prints what was found and fails when it is not as it should be.
fn report(world: &World, samples: &[u64], descriptors_before: usize, reload: Reload) {
    let process = world.gateway.running.id();
    // Kept connections to the upstream stay for a while; they are its own and not a leak.
    let is_idle =
        becomes_true(Duration::from_secs(10), || world.gateway.metric("sluicegate_requests_in_flight", &[]) == 0.0);
    let (kib, descriptors) = footprint(process);
    let tally = world.tally.0.lock().expect("all clients have ended");
    println!("\nkind         status  count");
    for ((kind, status), count) in tally.iter() {
        println!("{kind:12} {status:6}  {count}");
    }
    let reloads = world.gateway.metric("sluicegate_config_reloads_total", &[("result", "success")]);
    let warm = samples.iter().take(samples.len() / 3).copied().max().unwrap_or(0);
    let peak = samples.iter().copied().max().unwrap_or(0);
    println!("\nmemory: warm {warm} KiB, peak {peak} KiB, at the end {kib} KiB");
    println!("descriptors: {descriptors_before} before, {descriptors} after; reloads: {reloads}");
    assert!(is_idle, "requests are still in flight");
    assert!(matches!(reload, Reload::Success), "reloads do not work any more");
    assert!(kib <= warm + GROWTH_KIB, "memory grew from {warm} to {kib} KiB");
    let unexplained: Vec<_> = tally.keys().filter(|(_, status)| !EXPLAINED.contains(status)).collect();
    assert!(unexplained.is_empty(), "not explained by any fault: {unexplained:?}");
    let log = world.gateway.log();
    assert!(!log.contains("panicked"), "{log}");
}
