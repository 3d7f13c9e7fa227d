//! What Redis is made to keep and to say stays exact: long logs, large numbers, a gateway whose clock is wrong.

use crate::support::redis::{Answer, RedisServer};
use crate::support::*;
use std::process::Command;
use std::time::{Duration, Instant};

/// The algorithms that refuse at once what they do not admit.
const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

fn setup(redis: &RedisServer, limit: &str) -> Setup {
    let store =
        format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"2s\"\n", redis.url());
    Setup::new(format!("{store}[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n"))
}

/// Seconds that the server has worked.
fn worked(redis: &RedisServer) -> f64 {
    let part = |field: &str| redis.info(field).parse::<f64>().expect("a number");
    part("used_cpu_user_main_thread") + part("used_cpu_sys_main_thread")
}

#[test]
fn b104_a_long_log_costs_little_memory_and_no_more_work_than_a_short_one() {
    const ENTRIES: usize = 4000;
    let redis = RedisServer::start();
    let gateway = setup(&redis, "rate = \"70000/day\", algorithm = \"sliding_window_log\"").start();
    // What a decision costs the server, in seconds of its processor and not of a clock: the machine may be busy.
    let ask = |requests: usize| {
        let before = worked(&redis);
        let passed: usize = burst(requests / 50, 4, |_| count(&gateway.statuses(50, "/"), 200)).iter().sum();
        assert_eq!(passed, requests);
        (worked(&redis) - before) / requests as f64
    };
    let (first, _, last) = (ask(500), ask(ENTRIES - 1000), ask(500));
    assert!(last <= first * 2.0 + 0.000_05 && last < 0.001, "{last} s after {first} s");
    let key = redis.keys().pop().expect("the log");
    let mut connection = redis.connect();
    let bytes = connection.text(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).number();
    let entries = connection.text(&["ZCARD", &key]).number();
    assert!(bytes <= 286 * i64::try_from(ENTRIES).expect("few"), "70 000 of {bytes}/{ENTRIES} bytes are above 20 MB");
    assert!((1..=i64::try_from(ENTRIES).expect("few")).contains(&entries), "{entries}");
}

/// Asks 200 times a second for a while under a limit of one in a tenth of a second; gives how many were admitted. No more than
/// the limit are, and one that is asked when the last admission has left must be; the counter alone estimates from above.
fn admitted_at_200_a_second(gateway: &Gateway, algorithm: &str) -> u32 {
    let mut client = gateway.connect();
    let start = Instant::now();
    let (mut accepted, mut asked, mut last) = (0, 0, None::<Instant>);
    while start.elapsed() < Duration::from_millis(2500) {
        let is_free = last.is_none_or(|last| last.elapsed() > Duration::from_millis(102));
        let status = client.request("GET", "/", &[], b"").status;
        if status == 200 {
            (accepted, last) = (accepted + 1, Some(Instant::now()));
        }
        assert!(status == 200 || !is_free || algorithm == "sliding_window_counter", "{algorithm}, request {asked}");
        asked += 1;
        sleep_until(start, Duration::from_millis(5) * asked);
    }
    let windows = u32::try_from(start.elapsed().as_millis() / 100).expect("few");
    assert!(accepted <= windows + 2, "{algorithm}: {accepted} in {windows} windows");
    accepted
}

#[test]
fn b107_no_number_loses_its_last_digits_in_redis() {
    burst(AT_ONCE.len(), AT_ONCE.len(), |index| {
        let algorithm = AT_ONCE[index];
        let redis = RedisServer::start();
        let gateway = setup(&redis, &format!("rate = \"1/100ms\", algorithm = \"{algorithm}\"")).start();
        let accepted = admitted_at_200_a_second(&gateway, algorithm);
        assert!(accepted >= 3, "{algorithm}: {accepted}");
        assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
        let mut connection = redis.connect();
        let mut seen = 0;
        wait_until("a counter is there", || {
            gateway.get("/");
            for key in redis.keys() {
                let held = match connection.text(&["TYPE", &key]).bytes() {
                    b"zset" => connection.text(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]),
                    b"string" => Answer::List(vec![connection.text(&["GET", &key])]),
                    _ => continue,
                };
                for value in held.list().iter().filter(|value| **value != Answer::Nil) {
                    let rounded = value.bytes().windows(3).any(|part| part[0].is_ascii_digit() && &part[1..] == b"e+");
                    assert!(!rounded, "{algorithm}: {key} holds {value:?}");
                    seen += 1;
                }
            }
            seen > 0
        });
    });
}

/// A library that moves the wall clock of a process by so many seconds, for the loader to put before the system's.
fn clock_ahead_by(seconds: i64) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let (source, library) = (directory.path().join("clock.c"), directory.path().join("clock.so"));
    let text = format!(
        "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *now) {{\n  long failed = syscall(SYS_clock_gettime, clock, now);\n  \
         if (!failed && clock == CLOCK_REALTIME) now->tv_sec += {seconds};\n  return (int)failed;\n}}\n"
    );
    std::fs::write(&source, text).expect("the directory is ours");
    // The compiler that Lua for these tests is built with.
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("there is a compiler").success());
    let library = library.display().to_string();
    (directory, library)
}

#[test]
fn b128_a_gateway_whose_clock_is_wrong_decides_and_tells_by_the_clock_of_redis() {
    let seconds = [45, -45, 45, -45];
    burst(AT_ONCE.len(), AT_ONCE.len(), |index| told_by_the_clock_of_redis(AT_ONCE[index], seconds[index]));
}

fn told_by_the_clock_of_redis(algorithm: &str, seconds: i64) {
    let redis = RedisServer::start();
    let limit = format!("rate = \"2/10s\", algorithm = \"{algorithm}\"");
    let (_directory, library) = clock_ahead_by(seconds);
    let right = setup(&redis, &limit).start();
    let wrong = setup(&redis, &limit).environment("LD_PRELOAD", &library).start();
    if epoch_ms() % 10_000 > 6000 {
        // A fixed window must not end between the requests.
        sleep_until_window_is(Duration::from_secs(10), Duration::ZERO);
    }
    let answers = [&wrong, &right, &wrong, &wrong, &right].map(|gateway| gateway.get("/"));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429, 429, 429], "{algorithm}");
    // The counter looks back on two windows.
    let longest = if algorithm == "sliding_window_counter" { 20 } else { 10 };
    for answer in &answers {
        // From the date of the same answer, which is the gateway's own.
        assert!((0..=longest).contains(&answer.reset_in()), "{algorithm}: {answer:?}");
        assert!(answer.status == 200 || (1..=longest).contains(&answer.retry_after()), "{algorithm}: {answer:?}");
    }
    let date = httpdate::parse_http_date(answers[2].one("date")).expect("Date is an HTTP date");
    let date = date.duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_secs();
    let off = i64::try_from(date).expect("few") - i64::try_from(epoch_ms() / 1000).expect("few");
    assert!((off - seconds).abs() <= 5, "the clock of the gateway is off by {off} s");
}
