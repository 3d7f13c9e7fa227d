//! Counters in Redis: shared, healed, and what happens when it fails.

use crate::support::client::render;
use crate::support::redis::{Answer, RedisServer};
use crate::support::*;
use crate::tidy::{files, read, root};
use std::time::{Duration, Instant};

/// The algorithms that refuse at once what they do not admit.
const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

fn store(redis: &RedisServer, more: &str) -> String {
    format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{}\"]\ntimeout = \"200ms\"\n{more}\n", redis.url())
}

fn limited(redis: &RedisServer, limit: &str, more: &str) -> Setup {
    Setup::new(format!("{}[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n", store(redis, more)))
}

fn is_open(gateway: &Gateway) -> bool {
    gateway.metric("sluicegate_store_breaker_open", &[]) == 1.0
}

#[test]
fn b143_and_b93_the_first_hit_counts_once_and_remaining_never_falls_below_zero() {
    for algorithm in AT_ONCE {
        let redis = RedisServer::start();
        let gateway = limited(&redis, &format!("rate = \"2/h\", algorithm = \"{algorithm}\""), "").start();
        let asked = [(); 4].map(|()| gateway.get("/")).map(|answer| (answer.status, answer.remaining()));
        assert_eq!(asked, [(200, 1), (200, 0), (429, 0), (429, 0)], "{algorithm}");
    }
}

#[test]
fn b11_and_b138_every_key_ends_with_its_counter_and_a_lost_expiry_heals() {
    burst(AT_ONCE.len(), AT_ONCE.len(), |index| {
        let algorithm = AT_ONCE[index];
        let redis = RedisServer::start();
        let gateway = limited(&redis, &format!("rate = \"3/2s\", algorithm = \"{algorithm}\""), "").start();
        gateway.statuses(3, "/");
        let mut connection = redis.connect();
        for key in redis.keys() {
            let ttl = connection.text(&["PTTL", &key]).number();
            assert!((1..=4001).contains(&ttl), "{algorithm}: {key} lives {ttl} ms");
            assert_eq!(connection.text(&["PERSIST", &key]).number(), 1);
        }
        wait_until("the window is over", || gateway.get("/").status == 200);
        wait_until("nothing is left", || redis.keys().is_empty());
    });
}

#[test]
fn b22_a_refusal_writes_nothing() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"1/h\"", "").start();
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
    let key = redis.keys().pop().expect("a counter");
    let dump = redis.connect().text(&["DUMP", &key]);
    gateway.statuses(5, "/");
    assert_eq!(redis.connect().text(&["DUMP", &key]), dump);
}

#[test]
fn b66_no_key_of_a_caller_reaches_redis() {
    let redis = RedisServer::start();
    let gateway = Setup::new(format!("{}[tiers.pro]\nlimits = [{{ rate = \"9/h\" }}]\n", store(&redis, "")))
        .keys(&consumer("acme", "pro"))
        .start();
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 200);
    let keys = redis.keys();
    assert!(keys.iter().any(|key| key.starts_with("sluicegate:{consumer:acme}:")), "{keys:?}");
    assert!(keys.iter().all(|key| !key.contains(&key_of("acme")[..8])), "{keys:?}");
}

#[test]
fn a_script_that_redis_forgot_is_sent_again_in_the_same_request() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"9/h\"", "").start();
    assert_eq!(gateway.get("/").remaining(), 8);
    redis.connect().text(&["SCRIPT", "FLUSH"]);
    assert_eq!(gateway.get("/").remaining(), 7);
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}

#[test]
fn a_value_of_another_type_is_replaced_once_with_one_line() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"9/h\"", "").start();
    gateway.get("/");
    let key = redis.keys().pop().expect("a counter");
    let mut connection = redis.connect();
    connection.text(&["DEL", &key]);
    connection.text(&["LPUSH", &key, "not a counter"]);
    assert_eq!([gateway.get("/").remaining(), gateway.get("/").remaining()], [8, 7]);
    let lines = || gateway.log().matches("begun anew").count();
    wait_until("it is told", || lines() > 0);
    assert_eq!(lines(), 1);
}

#[test]
fn b52_and_b53_without_redis_each_limit_does_what_it_is_told() {
    let mut redis = RedisServer::start();
    redis.kill();
    let routes = "[[routes]]\nmatch = \"/closed\"\nlimits = [{ rate = \"9/h\", on_store_error = \"closed\" }]\n\
                  [[routes]]\nmatch = \"/open\"\nlimits = [{ rate = \"1/h\", on_store_error = \"open\" }]\n\
                  [[routes]]\nmatch = \"/local\"\nlimits = [{ rate = \"4/h\" }]\n";
    let gateway = Setup::new(format!("{}{routes}", store(&redis, "instances = 2"))).start();
    let closed = gateway.get("/closed");
    assert_eq!((closed.status, closed.error().as_str()), (503, "limiter_unavailable"));
    assert_eq!((closed.retry_after(), gateway.upstream.count()), (1, 0));
    let open = [gateway.get("/open"), gateway.get("/open")];
    assert!(open.iter().all(|answer| answer.status == 200 && !answer.has("ratelimit-remaining")), "{open:?}");
    assert_eq!(gateway.statuses(3, "/local"), [200, 200, 429], "half of the quota is this gateway's share");
    redis.restart();
    wait_until("Redis is used again", || {
        !is_open(&gateway) && !redis.keys().is_empty() || {
            gateway.get("/closed");
            false
        }
    });
    assert_eq!(gateway.get("/local").remaining(), 3, "what was admitted in the outage is not pushed later (B91)");
}

#[test]
fn b36_and_b122_an_outage_costs_no_request_more_than_the_timeout_and_few_log_lines() {
    let mut redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"1000/h\"", "").start();
    assert_eq!(gateway.get("/").status, 200);
    redis.kill();
    assert!(gateway.statuses(300, "/").iter().all(|status| *status == 200));
    assert!(is_open(&gateway));
    assert_eq!(gateway.admin("/readyz").text().trim(), "degraded");
    let warnings = gateway.log().lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count();
    assert!(warnings <= 5, "{}", gateway.log());
    redis.restart();
    wait_until("the breaker closes", || !is_open(&gateway));
    assert_eq!(gateway.admin("/readyz").text().trim(), "ready");
}

#[test]
fn b03_a_redis_that_hangs_costs_at_most_the_timeout_and_then_nothing() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"1000/h\"", "").start();
    assert_eq!(gateway.get("/").status, 200);
    redis.signal("STOP");
    wait_until("the breaker opens", || {
        assert_eq!(gateway.get("/").status, 200);
        is_open(&gateway)
    });
    let start = Instant::now();
    assert!(gateway.statuses(50, "/").iter().all(|status| *status == 200));
    assert!(start.elapsed() < Duration::from_secs(5), "an open breaker waits for nobody: {:?}", start.elapsed());
    redis.signal("CONT");
    wait_until("the breaker closes", || !is_open(&gateway));
}

#[test]
fn the_bound_of_an_outage_holds_however_often_the_store_flaps() {
    let mut redis = RedisServer::start();
    let gateway =
        limited(&redis, "name = \"a\", rate = \"10/h\", algorithm = \"fixed_window\"", "instances = 2").start();
    let mut admitted = 0;
    for _ in 0..2 {
        redis.kill();
        admitted += count(&gateway.statuses(20, "/"), 200);
        redis.restart();
        wait_until("the breaker closes", || !is_open(&gateway));
    }
    assert_eq!(admitted, 5, "one share of one window");
}

#[test]
fn b112_a_killed_connection_is_replaced() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"1000/h\"", "").start();
    for round in 0..3 {
        redis.connect().text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let before = redis.keys().len();
        wait_until("decisions reach Redis again", || {
            assert_eq!(gateway.get("/").status, 200, "round {round}");
            redis.keys().len() >= before.max(1) && !is_open(&gateway)
        });
    }
}

#[test]
fn b90_a_full_redis_is_an_outage_until_it_has_room() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"1000/h\"", "").start();
    redis.connect().text(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(gateway.statuses(20, "/").iter().all(|status| *status == 200));
    assert!(is_open(&gateway));
    redis.connect().text(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("the breaker closes", || !is_open(&gateway));
}

#[test]
fn b135_a_wrong_password_is_an_outage_and_is_told_nowhere() {
    let redis = RedisServer::start_with(&["--requirepass", "right-password"]);
    let url = format!("redis://:wrong-password@127.0.0.1:{}/0", redis.port);
    let toml = format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"{url}\"]\n");
    let gateway = Setup::new(format!("{toml}[[routes]]\nmatch = \"*\"\nlimits = [{{ rate = \"2/h\" }}]\n"))
        .log("level = \"trace\"")
        .start();
    assert_eq!(gateway.statuses(3, "/"), [200, 200, 429]);
    assert!(!gateway.log().contains("wrong-password"));
}

#[test]
fn b133_a_changed_quota_keeps_what_was_used() {
    let redis = RedisServer::start();
    let mut gateway = limited(&redis, "name = \"a\", rate = \"10/h\", algorithm = \"fixed_window\"", "").start();
    gateway.statuses(8, "/");
    let quota = |gateway: &mut Gateway, quota: &str| {
        let text = gateway.setup.toml.clone();
        let start = text.find("rate = \"").expect("a rate") + 8;
        let end = start + text[start..].find('/').expect("a window");
        let changed = format!("{}{quota}{}", &text[..start], &text[end..]);
        assert_eq!(gateway.reload(|setup| setup.toml = changed), Reload::Success);
    };
    quota(&mut gateway, "12");
    assert_eq!(gateway.get("/").remaining(), 3);
    quota(&mut gateway, "5");
    let refused = gateway.get("/");
    assert_eq!((refused.status, refused.remaining()), (429, 0));
}

#[test]
fn a_refusal_is_repeated_without_asking_redis_until_its_wait_is_over() {
    let redis = RedisServer::start();
    let gateway = limited(&redis, "rate = \"2/2s\", algorithm = \"sliding_window_log\"", "").start();
    assert_eq!(gateway.statuses(3, "/"), [200, 200, 429]);
    let calls = || String::from_utf8(redis.connect().text(&["INFO", "commandstats"]).bytes().to_vec()).unwrap();
    let decisions = |stats: String| {
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default().to_string();
        line.split(['=', ',']).nth(1).unwrap_or_default().to_string()
    };
    let before = decisions(calls());
    assert_eq!(gateway.statuses(10, "/"), [429; 10]);
    assert_eq!(decisions(calls()), before);
    assert!(gateway.metric("sluicegate_store_deny_cache_hits_total", &[]) >= 10.0);
    wait_until("the first has left", || gateway.get("/").status == 200);
}

/// The rules that `docs/redis.md` gives for a user, one word each.
fn documented_rules() -> Vec<String> {
    let page = read(&root().join("docs/redis.md"));
    let (_, rules) = page.split_once("ACL SETUSER sluicegate").expect("the page has the command");
    let rules = rules.split("```").next().expect("a split has a first part").replace("\\\n", " ");
    rules.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// What a user was denied, but for the client's name, which Redis knows from 7.2 on; 6.2 names no subcommand.
fn denied(log: &Answer) -> Vec<String> {
    let object = |entry: &Answer| {
        let place = entry.list().iter().position(|field| *field == Answer::Bytes(b"object".to_vec()));
        String::from_utf8_lossy(entry.list()[place.expect("an entry names its object") + 1].bytes()).into_owned()
    };
    log.list().iter().map(object).filter(|object| !["client|setinfo", "client"].contains(&object.as_str())).collect()
}

/// A store of that user, and a limit of each algorithm on one route.
fn limited_by_all(redis: &RedisServer, count: u32) -> Setup {
    let limits: Vec<String> = AT_ONCE
        .iter()
        .map(|algorithm| format!("{{ name = \"{algorithm}\", rate = \"{count}/h\", algorithm = \"{algorithm}\" }}"))
        .collect();
    // In a debug build the first call of a set of algorithms takes long to join.
    let store = store(redis, "").replace("200ms", "5s").replace("redis://", "redis://sluicegate:a-long-password@");
    let all = format!("{}, {{ name = \"leaky\", rate = \"1000/s\", algorithm = \"leaky_bucket\" }}", limits.join(", "));
    let held = "{ rate = \"2/h\", algorithm = \"leaky_bucket\" }, { name = \"held-log\", rate = \"9/h\", algorithm = \"sliding_window_log\" }";
    let log = "{ name = \"log\", rate = \"1000/100ms\", algorithm = \"sliding_window_log\" }";
    let route = |path: &str, limits: &str| format!("[[routes]]\nmatch = \"{path}\"\nlimits = [{limits}]\n");
    Setup::new([store, route("/held", held), route("/log", log), route("*", &all)].concat())
        .client_ip("limits = [{ rate = \"100000/h\" }]")
}

#[test]
fn an_acl_user_with_the_documented_rules_is_enough() {
    let redis = RedisServer::start();
    let mut connection = redis.connect();
    let rules = documented_rules();
    let words: Vec<&str> =
        ["ACL", "SETUSER", "sluicegate"].into_iter().chain(rules.iter().map(String::as_str)).collect();
    assert_eq!(connection.text(&words), Answer::Bytes(b"OK".to_vec()));
    let gateway = limited_by_all(&redis, 19).start();
    let statuses = gateway.statuses(20, "/");
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (19, 1));

    // A log that holds something else is begun anew.
    assert_eq!(gateway.get("/log").status, 200);
    let log = redis.keys().into_iter().find(|key| key.contains("}:log:")).expect("the log's key");
    connection.text(&["SET", &log, "no log"]);
    assert_eq!(gateway.get("/log").status, 200);
    // A client that leaves while it is held: what it was charged is given back.
    assert_eq!(gateway.get("/held").status, 200);
    gateway.wait_idle();
    let mut held = gateway.connect();
    held.send(render("GET", "/held", &[], b""));
    wait_until("it is held", || gateway.metric("sluicegate_requests_in_flight", &[]) == 1.0);
    held.reset();
    gateway.wait_idle();
    assert!(!gateway.log().contains("not given back"), "{}", gateway.log());
    // Two requests of one millisecond are one entry of a log.
    wait_until("every command was sent", || {
        burst(8, 8, |_| gateway.get("/log").status);
        let stats = connection.text(&["INFO", "commandstats"]);
        let stats = String::from_utf8_lossy(stats.bytes()).into_owned();
        let mut commands = rules.iter().filter_map(|rule| rule.strip_prefix('+'));
        commands.all(|command| stats.contains(&format!("cmdstat_{command}:")))
    });

    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
    assert_eq!(denied(&connection.text(&["ACL", "LOG"])), Vec::<String>::new());
    // The probe after an outage.
    connection.text(&["CONFIG", "SET", "maxmemory", "1"]);
    wait_until("the breaker opens", || {
        gateway.get("/log");
        is_open(&gateway)
    });
    connection.text(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("the breaker closes", || !is_open(&gateway));
}

#[test]
fn the_documented_rules_are_the_commands_of_the_scripts_and_the_gateway() {
    let mut sent: Vec<String> = ["evalsha", "eval", "set"].map(|command| format!("+{command}")).into();
    for file in files("lua", &["lua"]) {
        let text = read(&file);
        for call in text.split("call('").skip(1).filter_map(|rest| rest.split_once('\'')) {
            sent.push(format!("+{}", call.0.to_lowercase()));
        }
    }
    sent.sort();
    sent.dedup();
    let mut given: Vec<String> = documented_rules().into_iter().filter(|word| word.starts_with('+')).collect();
    given.sort();
    assert_eq!(given, sent);
}
