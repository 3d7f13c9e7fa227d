//! Servers that come and go: checks, servers that are passed over, retries, names.

use crate::support::reply::End;
use crate::support::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;

/// Checks that are over soon.
const QUICK: &str = "health = { path = \"/up\", interval = \"50ms\", timeout = \"5s\", fall = 2, rise = 2 }";

/// An upstream whose answer to `/up` can be changed; everything else gets 200.
struct Switched {
    upstream: Upstream,
    status: Arc<AtomicU16>,
}

impl Switched {
    fn new() -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let answered = Arc::clone(&status);
        let upstream = Upstream::new(move |request| match request.target.as_str() {
            "/up" => Reply::status(answered.load(Ordering::SeqCst), &[], "as told"),
            _ => Reply::ok(),
        });
        Self { upstream, status }
    }

    fn address(&self) -> SocketAddr {
        self.upstream.address()
    }

    fn says(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn count_of(&self, check: bool) -> usize {
        self.upstream.requests().iter().filter(|request| (request.target == "/up") == check).count()
    }
}

fn toml(servers: &[SocketAddr], lines: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|address| format!("\"{address}\"")).collect();
    let servers = servers.join(", ");
    format!("[upstreams.u]\nservers = [{servers}]\n{lines}\n[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n")
}

fn dead() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn healthy(gateway: &Gateway, server: SocketAddr) -> f64 {
    let server = server.to_string();
    gateway.metric("sluicegate_upstream_healthy", &[("upstream", "u"), ("server", &server)])
}

/// How often the log has a line with all of these.
fn logged(gateway: &Gateway, parts: &[&str]) -> usize {
    gateway.log().lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let (one, other) = (Switched::new(), Switched::new());
    let gateway = Setup::new(toml(&[one.address(), other.address()], QUICK)).start();
    assert_eq!((healthy(&gateway, one.address()), healthy(&gateway, other.address())), (1.0, 1.0));
    one.says(503);
    wait_until("it is found unhealthy", || healthy(&gateway, one.address()) == 0.0);
    let before = one.count_of(false);
    assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
    assert_eq!((one.count_of(false), other.count_of(false)), (before, 20));
    one.says(302);
    wait_until("it is found healthy", || healthy(&gateway, one.address()) == 1.0);
    assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
    assert_eq!((one.count_of(false), other.count_of(false)), (before + 10, 30));
    let name = one.address().to_string();
    assert_eq!(logged(&gateway, &["server is unhealthy", &name, "status 503"]), 1, "{}", gateway.log());
    assert_eq!(logged(&gateway, &["server is healthy again", &name]), 1, "{}", gateway.log());
}

#[test]
fn a_check_is_a_get_with_the_servers_own_name() {
    let server = Switched::new();
    let _gateway = Setup::new(toml(&[server.address()], QUICK)).start();
    wait_until("it is checked twice", || server.count_of(true) >= 2);
    let check = server.upstream.requests().remove(0);
    assert_eq!((check.method.as_str(), check.target.as_str()), ("GET", "/up"));
    assert_eq!(check.header("host"), Some(server.address().to_string().as_str()));
    assert_eq!(check.header("user-agent"), Some("sluicegate-health-check"));
    assert!(server.upstream.connections() >= 2, "each on a connection of its own");
}

#[test]
fn without_a_healthy_server_the_answer_is_503() {
    let server = Switched::new();
    let gateway = Setup::new(toml(&[server.address(), dead()], QUICK)).start();
    server.says(404);
    wait_until("no server is healthy", || gateway.get("/").status == 503);
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.error().as_str()), (503, "upstream_unavailable"));
    let grpc = gateway.request("POST", "/", &[("content-type", "application/grpc")], b"");
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("14")));
    server.says(200);
    wait_until("one is healthy", || gateway.get("/").status == 200);
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_found_out_by_the_timeout() {
    let hung = Upstream::new(|_| Reply::only(End::Hang));
    let lines = "health = { path = \"/up\", interval = \"50ms\", timeout = \"100ms\", fall = 1 }";
    let gateway = Setup::new(toml(&[hung.address()], lines)).start();
    wait_until("it is found unhealthy", || healthy(&gateway, hung.address()) == 0.0);
    assert_eq!(gateway.get("/").status, 503);
    let name = hung.address().to_string();
    assert_eq!(logged(&gateway, &["server is unhealthy", &name, "no answer within 100 ms"]), 1, "{}", gateway.log());
}

#[test]
fn a_reload_keeps_what_is_known_and_ends_the_checks_of_servers_that_are_gone() {
    let (bad, gone, good) = (Switched::new(), Switched::new(), Switched::new());
    let all = [bad.address(), gone.address(), good.address()];
    let mut gateway = Setup::new(toml(&all, QUICK)).start();
    bad.says(500);
    wait_until("it is found unhealthy", || healthy(&gateway, bad.address()) == 0.0);
    // From now on one more bad check would not be enough to take it down.
    let patient = QUICK.replace("fall = 2", "fall = 1000");
    let before = bad.count_of(false);
    assert_eq!(gateway.reload(|setup| setup.toml = toml(&[all[0], all[2]], &patient)), Reload::Success);
    assert_eq!(count(&gateway.statuses(10, "/"), 200), 10);
    assert_eq!((healthy(&gateway, bad.address()), bad.count_of(false)), (0.0, before));
    let series = |gateway: &Gateway| gateway.metrics().text.matches("_upstream_healthy{").count();
    assert_eq!(series(&gateway), 3, "two and the stub: a server that is gone has no series");
    let (checks, own) = (gone.count_of(true), good.count_of(true));
    wait_until("others are checked on", || good.count_of(true) > own + 10);
    assert!(gone.count_of(true) <= checks + 1, "one may have been on its way");
    assert_eq!(gateway.reload(|setup| setup.toml = toml(&[all[0], all[2]], "")), Reload::Success);
    assert_eq!(count(&gateway.statuses(10, "/"), 200), 10);
    assert_eq!(bad.count_of(false), before + 5, "without checks their verdict is nothing");
}

#[test]
fn a_reload_that_is_refused_leaves_the_checks_alone() {
    let server = Switched::new();
    let mut gateway = Setup::new(toml(&[server.address()], QUICK)).start();
    assert_eq!(gateway.reload_text("nonsense"), Reload::Failure);
    let checks = server.count_of(true);
    wait_until("it is checked on", || server.count_of(true) > checks + 3);
    server.says(500);
    wait_until("it is found unhealthy", || gateway.get("/").status == 503);
}

#[test]
fn b88_with_one_server_down_no_client_sees_an_error_and_none_is_charged_twice() {
    let (alive, dead) = (Upstream::ok(), dead());
    let limit = "limits = [{ rate = \"1000/h\" }]\n";
    let gateway = Setup::new(format!("{}{limit}", toml(&[dead, alive.address()], "retries = 1"))).start();
    for index in 1..=40 {
        let method = if index % 2 == 0 { "GET" } else { "POST" };
        let answer = gateway.request(method, "/", &[], b"body");
        assert_eq!((answer.status, answer.remaining()), (200, 1000 - index));
    }
    assert_eq!(alive.count(), 40);
    wait_until("the dead one is left out", || healthy(&gateway, dead) == 0.0);
    assert_eq!(logged(&gateway, &["passed over", &dead.to_string()]), 1, "{}", gateway.log());
}

#[test]
fn a_server_that_cannot_be_reached_is_not_called_unavailable() {
    // Of the documentation's own network (RFC 3849): without a route to it, or without anybody there.
    let far: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
    let gateway = Setup::new(toml(&[far], "timeouts = { connect = \"200ms\" }")).start();
    let answer = gateway.get("/");
    assert!(matches!(answer.status, 502 | 504), "{} {}", answer.status, answer.text());
}

#[test]
fn a_server_that_breaks_three_times_in_a_row_gets_no_more_requests() {
    let (broken, alive) = (Upstream::new(|_| Reply::only(End::Reset)), Upstream::ok());
    let gateway = Setup::new(toml(&[broken.address(), alive.address()], "retries = 1")).start();
    let started = Instant::now();
    for _ in 0..30 {
        assert_eq!(gateway.get("/").status, 200);
    }
    // On a machine that takes so long, one more tries it every 10 s.
    let tries = 3 + usize::try_from(started.elapsed().as_secs() / 10).unwrap();
    assert!((3..=tries).contains(&broken.count()), "{}", broken.count());
    assert_eq!(alive.count(), 30);
    wait_until("the metric says so", || healthy(&gateway, broken.address()) == 0.0);
    assert_eq!(healthy(&gateway, alive.address()), 1.0);
}

#[test]
fn b88_a_server_that_dies_under_load_costs_nobody_an_error_and_is_used_again_once_it_answers() {
    let dies = Arc::new(AtomicBool::new(false));
    let dead = Arc::clone(&dies);
    let mortal =
        Upstream::new(move |_| if dead.load(Ordering::SeqCst) { Reply::only(End::Reset) } else { Reply::ok() });
    let other = Upstream::ok();
    let gateway = Setup::new(toml(&[mortal.address(), other.address()], "retries = 1")).start();
    let statuses = burst(400, 16, |index| {
        dies.store(index >= 100, Ordering::SeqCst);
        gateway.get("/").status
    });
    assert_eq!(count(&statuses, 200), 400);
    assert!(other.count() > 200, "{}", other.count());
    dies.store(false, Ordering::SeqCst);
    let before = mortal.count();
    wait_until("one request tries it and the rest follow", || {
        assert_eq!(gateway.get("/").status, 200);
        mortal.count() > before + 5
    });
    assert!(logged(&gateway, &["server answers again", &mortal.address().to_string()]) > 0, "{}", gateway.log());
}

#[test]
fn answers_in_between_keep_a_server_in_whatever_they_say() {
    let turns = AtomicU16::new(0);
    let shaky = Upstream::new(move |_| match turns.fetch_add(1, Ordering::SeqCst) % 3 {
        2 => Reply::status(500, &[], "an answer all the same"),
        _ => Reply::only(End::Reset),
    });
    let alive = Upstream::ok();
    let gateway = Setup::new(toml(&[shaky.address(), alive.address()], "retries = 1")).start();
    let statuses: Vec<u16> = (0..30).map(|_| gateway.get("/").status).collect();
    assert_eq!((count(&statuses, 500), count(&statuses, 200)), (shaky.count() / 3, 30 - shaky.count() / 3));
    assert!(shaky.count() >= 9, "{}", shaky.count());
    assert_eq!(healthy(&gateway, shaky.address()), 1.0);
}

#[test]
fn the_only_server_is_never_passed_over() {
    let broken = Upstream::new(|_| Reply::only(End::Close));
    let gateway = Setup::new(toml(&[broken.address()], "retries = 0")).start();
    for _ in 0..8 {
        assert_eq!(gateway.get("/").status, 502);
    }
    assert_eq!((broken.count(), healthy(&gateway, broken.address())), (8, 1.0));
}

#[test]
fn kept_connections_that_turn_out_to_be_closed_say_nothing_of_the_server() {
    let (closing, alive) = (Upstream::new(|_| Reply::ok().ending(End::Close)), Upstream::ok());
    let gateway = Setup::new(toml(&[closing.address(), alive.address()], "retries = 1")).start();
    assert_eq!(count(&gateway.statuses(40, "/"), 200), 40);
    assert_eq!(logged(&gateway, &["passed over"]), 0, "{}", gateway.log());
}

#[test]
fn a_good_check_ends_what_failures_said() {
    let (flaky, alive) = (
        Upstream::new(|request| if request.target == "/up" { Reply::ok() } else { Reply::only(End::Reset) }),
        Switched::new(),
    );
    let gateway = Setup::new(toml(&[flaky.address(), alive.address()], QUICK)).start();
    wait_until("it fails more often than a server without checks may", || {
        assert_eq!(gateway.get("/").status, 200, "the other one takes the retry");
        flaky.requests().iter().filter(|request| request.target == "/").count() > 6
    });
}

#[test]
fn all_addresses_of_a_name_are_servers() {
    let upstream = Upstream::ok();
    let port = upstream.address().port();
    let routes = "[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n";
    let gateway = Setup::new(format!("[upstreams.u]\nservers = [\"localhost:{port}\"]\n{routes}")).start();
    // Where it stands for ::1 too, nobody listens there: such tries go on to 127.0.0.1.
    assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
    let server = format!("localhost:{port}");
    assert_eq!(gateway.metric("sluicegate_upstream_healthy", &[("server", &server)]), 1.0);
    assert_eq!(gateway.access_line("/")["upstream"], server, "the log has the name as configured");
}

#[test]
fn a_name_without_address_keeps_the_gateway_from_starting_and_a_reload_from_taking_effect_but_not_check() {
    let unknown =
        |name: &str| format!("[upstreams.u]\nservers = [\"{name}:80\"]\n[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n");
    let mut failing = Setup::new(unknown("does-not-exist.invalid")).launch(Upstream::ok());
    assert_eq!(failing.wait_exit(PATIENCE), Some(78));
    assert!(failing.log().contains("\"does-not-exist.invalid:80\" cannot be resolved"), "{}", failing.log());
    let checked = program::run(failing.files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(0), "{}", checked.output());
    let mut gateway = Setup::default().start();
    assert_eq!(gateway.reload(|setup| setup.toml = unknown("does-not-exist.invalid")), Reload::Failure);
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn as_many_connections_are_kept_as_requests_were_in_flight() {
    const AT_ONCE: usize = 150;
    let gates = [Gate::closed(), Gate::closed()];
    let doors = gates.clone();
    let gateway = Setup::default().before_script(move |request| match request.target.as_str() {
        "/first" => Reply::ok().behind(&doors[0]),
        _ => Reply::ok().behind(&doors[1]),
    });
    let mut clients: Vec<Client> = (0..AT_ONCE).map(|_| gateway.connect()).collect();
    for (round, (target, gate)) in (1..).zip(["/first", "/second"].into_iter().zip(&gates)) {
        clients.iter_mut().for_each(|client| client.send(client::render("GET", target, &[], b"")));
        wait_until("all are upstream", || gateway.upstream.count() == round * AT_ONCE);
        gate.open();
        assert!(clients.iter_mut().all(|client| client.read("GET").status == 200));
        gateway.wait_idle();
    }
    assert_eq!(gateway.upstream.connections(), AT_ONCE);
}
