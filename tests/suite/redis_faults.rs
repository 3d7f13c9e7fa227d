//! What a Redis that fails in any way costs a request: nothing but its limit.

use crate::support::redis::{Answer, RedisServer};
use crate::support::stub_redis::{Reaction, Relay, StubRedis};
use crate::support::*;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A gateway whose limit passes while the store fails.
fn open(url: &str) -> Gateway {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{url}\"]\ntimeout = \"200ms\"\n");
    let limit = "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"1/h\", on_store_error = \"open\" }]\n";
    Setup::new(format!("{store}{limit}")).start()
}

fn limited(url: &str, limit: &str) -> Gateway {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{url}\"]\ntimeout = \"200ms\"\n");
    Setup::new(format!("{store}[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n")).start()
}

/// As [`limited`], but no answer is too late, however busy the machine is.
fn patient(url: &str, limit: &str) -> Gateway {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{url}\"]\ntimeout = \"10s\"\n");
    Setup::new(format!("{store}[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n")).start()
}

fn is_open(gateway: &Gateway) -> bool {
    gateway.metric("sluicegate_store_breaker_open", &[]) == 1.0
}

/// That every request passes, reaches the upstream and is not shown a limit, and that the failures are counted.
#[track_caller]
fn passes_all(fault: &str, mut gateway: Gateway) {
    // More than a breaker needs to open.
    for number in 0..8 {
        let answer = gateway.get("/");
        assert_eq!(answer.status, 200, "{fault}: {}", gateway.log());
        assert!(!answer.has("ratelimit-remaining"), "{fault}");
        assert_eq!(gateway.upstream.count(), number + 1, "{fault}");
    }
    assert!(gateway.metric("rate_limiter_errors_total", &[]) >= 1.0, "{fault}: {}", gateway.log());
    assert!(!gateway.log().contains("panicked"), "{fault}: {}", gateway.log());
    assert!(gateway.running.is_running(), "{fault}");
}

/// A listener whose queue is full, so that nothing is answered to who connects; and the connections that fill it.
fn full_queue() -> (TcpListener, Vec<socket2::Socket>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("there are sockets");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    socket.bind(&address.into()).expect("the port is free");
    socket.listen(0).expect("it is bound");
    let waiting = (0..4).map(|_| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("there are more");
        socket.set_nonblocking(true).expect("a socket can be set up");
        let _in_progress = socket.connect(&address.into());
        socket
    });
    let waiting = waiting.collect();
    (socket.into(), waiting)
}

#[test]
fn b36_a_server_that_cannot_be_reached_lets_every_request_pass() {
    let closed = format!("redis://127.0.0.1:{}", free_port());
    let (listener, _waiting) = full_queue();
    let unanswered = format!("redis://{}", listener.local_addr().expect("it is bound"));
    let faults = [
        ("the port is closed", closed.as_str()),
        ("the name is unknown", "redis://redis.invalid:6379"),
        ("connecting is not answered", &unanswered),
    ];
    burst(faults.len(), faults.len(), |index| passes_all(faults[index].0, open(faults[index].1)));
}

#[test]
fn b36_a_server_that_refuses_lets_every_request_pass() {
    let closed = RedisServer::start_with(&["--requirepass", "a-password"]);
    let limited = RedisServer::start();
    limited.connect().text(&["ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all", "-evalsha", "-eval", "-set"]);
    let full = RedisServer::start();
    full.connect().text(&["CONFIG", "SET", "maxmemory", "1"]);
    let busy = RedisServer::start_with(&["--lua-time-limit", "1"]);
    let busy_gateway = open(&busy.url());
    let mut busy_connection = busy.connect();
    busy_connection.send(&[b"EVAL", b"while true do end", b"0"]);
    wait_until("the script is slow", || matches!(busy.connect().text(&["GET", "a"]), Answer::Error(_)));
    let stuck = RedisServer::start_with(&["--save", "3600", "1"]);
    std::fs::remove_dir_all(stuck.directory()).expect("the directory is ours");
    stuck.connect().text(&["BGSAVE"]);
    wait_until("the snapshot has failed", || stuck.info("rdb_last_bgsave_status") == "err");
    let faults = [
        ("NOAUTH", Some(open(&closed.url()))),
        ("NOPERM", Some(open(&limited.url()))),
        ("OOM", Some(open(&full.url()))),
        ("BUSY", Some(busy_gateway)),
        ("MISCONF", Some(open(&stuck.url()))),
    ];
    for (fault, gateway) in faults {
        let gateway = gateway.expect("it was started");
        passes_all(fault, gateway);
    }
    busy.connect().text(&["SCRIPT", "KILL"]);
    assert!(matches!(busy_connection.receive(), Answer::Error(_)));
}

#[test]
fn a_user_that_may_not_read_is_a_failure_and_no_fresh_counter() {
    let redis = RedisServer::start();
    redis.connect().text(&["ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all", "-get", "-zrange"]);
    let limit = |name: &str, algorithm: &str| {
        format!("{{ name = \"{name}\", rate = \"2/h\", algorithm = \"{algorithm}\", on_store_error = \"closed\" }}")
    };
    let store =
        format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"10s\"\n", redis.url());
    let route = |path: &str, limits: [&str; 2]| {
        let limits: Vec<String> =
            limits.iter().map(|algorithm| limit(&format!("{}-{algorithm}", &path[1..]), algorithm)).collect();
        format!("[[routes]]\nmatch = \"{path}\"\nlimits = [{}]\n", limits.join(", "))
    };
    let strings = route("/strings", ["fixed_window", "token_bucket"]);
    let log = format!("[[routes]]\nmatch = \"/log\"\nlimits = [{}]\n", limit("log", "sliding_window_log"));
    let both = route("/both", ["sliding_window_counter", "sliding_window_log"]);
    let gateway = Setup::new([store, strings, log, both].concat()).start();
    for path in ["/strings", "/log", "/both"] {
        assert_eq!(gateway.statuses(4, path), [503; 4], "{path}");
    }
    assert_eq!(redis.keys(), Vec::<String>::new(), "nothing was written");
    assert!(!gateway.log().contains("another type"), "{}", gateway.log());
}

#[test]
fn b36_a_server_that_still_loads_lets_every_request_pass_and_is_used_once_it_has() {
    // Slow only where there is something to load, and between any two keys somebody may ask.
    let slow = ["--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024"];
    let mut redis = RedisServer::start_with(&slow);
    let mut connection = redis.connect();
    for key in 0..600 {
        connection.text(&["SET", &format!("key-{key}"), &"random enough".repeat(key)]);
    }
    assert_eq!(connection.text(&["SAVE"]), Answer::Bytes(b"OK".to_vec()));
    let gateway = open(&redis.url());
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
    redis.kill();
    redis.restart();
    wait_until(
        "it loads",
        || matches!(redis.connect().text(&["GET", "a"]), Answer::Error(text) if text.starts_with("LOADING")),
    );
    wait_until("the failure is seen", || {
        assert!([200, 429].contains(&gateway.get("/").status), "an earlier refusal is repeated for a second");
        is_open(&gateway)
    });
    assert_eq!(gateway.get("/").status, 200);
    wait_until("it has loaded", || !matches!(redis.connect().text(&["GET", "a"]), Answer::Error(_)));
    wait_until("it decides again", || !is_open(&gateway) && gateway.get("/").status == 429);
}

#[test]
fn b36_an_answer_of_any_other_form_lets_every_request_pass() {
    let long = format!("${}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let deep = "*1\r\n".repeat(100_000);
    let answers: [(&str, &[u8]); 19] = [
        ("nil", b"$-1\r\n"),
        ("a nil list", b"*-1\r\n"),
        ("a list of one", b"*1\r\n$1\r\n1\r\n"),
        ("an empty list", b"*0\r\n"),
        ("a status", b"+OK\r\n"),
        ("no bytes", b"$0\r\n\r\n"),
        ("text", b"$5\r\nhello\r\n"),
        ("long text", long.as_bytes()),
        ("a number", b":1\r\n"),
        ("a huge number", b":9223372036854775807\r\n"),
        ("a number beyond 64 bits", b":99999999999999999999\r\n"),
        ("a map", b"%1\r\n+a\r\n:1\r\n"),
        ("an error without a code", b"-\r\n"),
        ("an unknown error", b"-WHAT is this\r\n"),
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("a length beyond reason", b"$9223372036854775807\r\nabc"),
        ("a list beyond reason", b"*2000000000\r\n$1\r\n1\r\n"),
        ("lists in lists", deep.as_bytes()),
        ("bytes of no protocol", b"\0\xff\r\n\r\n"),
    ];
    burst(answers.len(), 4, |index| {
        let (fault, bytes) = answers[index];
        let bytes = bytes.to_vec();
        let stub = StubRedis::start(move |_| Reaction::Answer(bytes.clone()));
        passes_all(fault, open(&stub.url()));
    });
}

#[test]
fn b36_an_answer_that_breaks_off_lets_every_request_pass() {
    let pieces: [(&str, &[u8]); 5] = [
        ("none", b""),
        ("a part of a length", b"$10"),
        ("a part", b"$100\r\nabc"),
        ("no end", b"$2\r\nab"),
        ("a list", b"*3\r\n"),
    ];
    burst(pieces.len() * 2, 5, |index| {
        let ((fault, bytes), closes) = (pieces[index / 2], index % 2 == 0);
        let bytes = bytes.to_vec();
        let stub = StubRedis::start(move |_| match closes {
            true => Reaction::AnswerAndClose(bytes.clone()),
            false => Reaction::AnswerAndSilence(bytes.clone()),
        });
        passes_all(fault, open(&stub.url()));
    });
}

#[test]
fn a_server_whose_host_went_away_without_a_word_is_connected_anew() {
    let redis = RedisServer::start();
    let relay = Relay::to(redis.port);
    let gateway = limited(&relay.url(), "rate = \"1000/h\"");
    assert_eq!(gateway.get("/").status, 200);
    relay.silence_what_is_connected();
    wait_until("the breaker opens", || {
        assert_eq!(gateway.get("/").status, 200);
        is_open(&gateway)
    });
    wait_until("the connection was given up for a new one", || !is_open(&gateway));
    let before = redis.info("cmdstat_evalsha");
    wait_until("Redis decides again", || gateway.get("/").status == 200 && redis.info("cmdstat_evalsha") != before);
}

#[test]
fn an_answer_that_comes_too_late_changes_nothing_and_is_charged_once() {
    let redis = RedisServer::start();
    let relay = Relay::to(redis.port);
    let gateway = limited(&relay.url(), "rate = \"100/h\", algorithm = \"fixed_window\", on_store_error = \"open\"");
    assert_eq!(gateway.get("/").remaining(), 99);
    relay.delay(Duration::from_millis(400));
    let asked = [(); 3].map(|()| {
        let start = Instant::now();
        let answer = gateway.get("/");
        assert!(answer.status == 200 && !answer.has("ratelimit-remaining"));
        start.elapsed()
    });
    // The quickest: the machine may be busy, but it is not always.
    let quickest = asked.iter().min().expect("there are three");
    assert!((Duration::from_millis(200)..Duration::from_millis(390)).contains(quickest), "{asked:?}");
    relay.delay(Duration::ZERO);
    let mut asked = 3;
    wait_until("answers come in time", || {
        asked += 1;
        gateway.get("/").has("ratelimit-remaining")
    });
    assert!(asked < 40, "the breaker stayed closed");
    assert_eq!(gateway.get("/").remaining(), 99 - asked - 1, "each of them was charged, once");
}

#[test]
fn b91_what_an_outage_let_pass_is_not_charged_later() {
    let redis = RedisServer::start();
    let relay = Relay::to(redis.port);
    let window = Duration::from_secs(2);
    let gateway = limited(&relay.url(), "rate = \"10/2s\", algorithm = \"fixed_window\"");
    assert_eq!(gateway.get("/").status, 200);
    relay.cut();
    sleep_until_window_is(window, Duration::ZERO);
    let passed = gateway.statuses(10, "/");
    assert!(count(&passed, 200) >= 9, "{passed:?}");
    relay.restore();
    wait_until("the breaker closes", || !is_open(&gateway));
    let failed = gateway.metric("rate_limiter_errors_total", &[]);
    sleep_until_window_is(window, Duration::ZERO);
    assert_eq!(gateway.statuses(11, "/"), [[200; 10].as_slice(), &[429]].concat());
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), failed);
}

#[test]
fn b71_a_server_that_closes_every_connection_meets_few_attempts_at_growing_distances() {
    let stub = StubRedis::closing();
    let gateway = limited(&stub.url(), "rate = \"1000000/h\"");
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
        asked += 20;
        thread::sleep(Duration::from_millis(50));
    }
    let accepted = stub.accepted.lock().expect("no holder panics").clone();
    let gaps: Vec<Duration> = accepted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(asked > 50 && (4..=25).contains(&accepted.len()), "{asked} requests, attempts at {gaps:?}");
    for (index, first) in accepted.iter().enumerate() {
        let within = accepted[index..].iter().take_while(|next| **next - *first < Duration::from_secs(1)).count();
        assert!(within <= 10, "{within} attempts in a second: {gaps:?}");
    }
    assert!(gaps[gaps.len() - 1] > gaps[0] * 4, "{gaps:?}");
}

#[test]
fn b71_so_does_one_that_closes_each_once_it_was_greeted() {
    let stub = StubRedis::start(|_| Reaction::AnswerAndClose(Vec::new()));
    let gateway = limited(&stub.url(), "rate = \"1000000/h\"");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
        thread::sleep(Duration::from_millis(50));
    }
    let accepted = stub.accepted.lock().expect("no holder panics").len();
    assert!((2..=20).contains(&accepted), "{accepted} connections in three seconds");
}

#[test]
fn b112_connections_killed_under_requests_cost_only_the_calls_in_flight() {
    const WORKERS: usize = 4;
    const KILLS: u32 = 2;
    let redis = RedisServer::start();
    let gateway = patient(&redis.url(), "rate = \"1000000/h\", algorithm = \"fixed_window\"");
    let (over, start) = (AtomicBool::new(false), Instant::now());
    let asked: usize = thread::scope(|scope| {
        let ask = || {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(gateway.statuses(10, "/"), [200; 10]);
                asked += 10;
            }
            asked
        };
        let workers = [(); WORKERS].map(|()| scope.spawn(ask));
        for kill in 1..=KILLS {
            // One that breaks sooner is followed by a pause.
            sleep_until(start, Duration::from_secs(2) * kill);
            redis.connect().text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            let enough = redis.calls("evalsha") + 100;
            wait_until("decisions reach Redis again", || redis.calls("evalsha") > enough);
        }
        over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("every request passed")).sum()
    });
    let failed = gateway.metric("rate_limiter_errors_total", &[]) as i64;
    let used = 1_000_000 - gateway.get("/").remaining() - 1;
    let asked = i64::try_from(asked).expect("there are few");
    assert!(failed <= i64::from(KILLS) * WORKERS as i64, "{failed} failed");
    assert!((asked - failed..=asked).contains(&used), "{asked} asked, {failed} failed, {used} are counted");
}

#[test]
fn b112_a_connection_that_redis_closes_for_idleness_is_replaced_before_anybody_asks() {
    let redis = RedisServer::start_with(&["--timeout", "1"]);
    let gateway = patient(&redis.url(), "rate = \"100/h\", algorithm = \"fixed_window\", on_store_error = \"closed\"");
    let mut connection = redis.connect();
    // A connection that is new has asked for the time and nothing else.
    let mut last = |command: &str| {
        let clients = connection.text(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
        String::from_utf8_lossy(clients.bytes()).contains(&format!("cmd={command} "))
    };
    for round in 0..2 {
        assert_eq!(gateway.get("/").remaining(), 99 - round);
        assert!(last(if round == 0 { "eval" } else { "evalsha" }), "Redis learns the script in the first round");
        wait_until("another was made", || last("time"));
    }
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}

#[test]
fn scripts_that_are_forgotten_under_requests_are_seen_by_nobody() {
    let redis = RedisServer::start();
    let gateway = patient(&redis.url(), "rate = \"1000000/h\", algorithm = \"fixed_window\"");
    let over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let flush = scope.spawn(|| {
            let (mut connection, mut flushed) = (redis.connect(), 0);
            while !over.load(Ordering::Relaxed) {
                connection.text(&["SCRIPT", "FLUSH"]);
                flushed += 1;
                thread::sleep(Duration::from_millis(20));
            }
            flushed
        });
        let statuses: usize = burst(40, 4, |_| count(&gateway.statuses(25, "/"), 200)).iter().sum();
        over.store(true, Ordering::Relaxed);
        assert!(flush.join().expect("it only flushes") > 5);
        statuses
    });
    assert_eq!(asked, 1000);
    assert_eq!(gateway.get("/").remaining(), 1_000_000 - 1001);
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}

#[test]
fn a_flushed_redis_begins_anew_and_is_no_failure() {
    let redis = RedisServer::start();
    let gateway = patient(&redis.url(), "rate = \"2/h\"");
    assert_eq!(gateway.statuses(2, "/"), [200, 200]);
    redis.connect().text(&["FLUSHALL"]);
    assert_eq!(gateway.statuses(3, "/"), [200, 200, 429], "what it lost is granted again");
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}

#[test]
fn b90_a_redis_that_evicts_is_no_failure_and_grants_again_what_it_lost() {
    let redis = RedisServer::start_with(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]);
    let gateway = patient(&redis.url(), "rate = \"100000/h\"");
    let mut connection = redis.connect();
    let filling = "x".repeat(10_000);
    for key in 0..600 {
        assert_eq!(connection.text(&["SET", &format!("key-{key}"), &filling]), Answer::Bytes(b"OK".to_vec()));
        if key % 20 == 0 {
            assert_eq!(gateway.get("/").status, 200);
        }
    }
    assert_ne!(redis.info("evicted_keys"), "0");
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}
