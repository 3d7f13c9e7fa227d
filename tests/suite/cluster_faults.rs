//! A Redis Cluster of which a part is silent, dies, or sends the gateway elsewhere: the rest is not touched.

use crate::support::redis::{Answer, RedisCluster, RedisServer};
use crate::support::*;
use crate::tidy::{read, root};
use std::time::{Duration, Instant};

fn gateway(cluster: &RedisCluster, timeout: &str, limit: &str) -> Setup {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"{timeout}\"\n{}\n", cluster.toml());
    let limit = format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n");
    Setup::new(format!("{store}{limit}")).trusted()
}

/// Addresses of callers by the master that has their counters; masters have equal shares of the slots, in order.
fn callers(cluster: &RedisCluster, masters: usize) -> Vec<Vec<String>> {
    let mut callers = vec![Vec::new(); masters];
    for number in 0..250 {
        let caller = format!("198.51.100.{number}");
        let slot = cluster.slot(&format!("sluicegate:{{ip:{caller}}}:"));
        callers[usize::from(slot) / 16_384usize.div_ceil(masters)].push(caller);
    }
    callers
}

/// The same request of each caller, and how long each took.
fn timed(gateway: &Gateway, callers: &[String]) -> Vec<(Response, Duration)> {
    let mut client = gateway.connect();
    let ask = |caller: &String| {
        let start = Instant::now();
        let answer = client.request("GET", "/", &[("x-forwarded-for", caller)], b"");
        (answer, start.elapsed())
    };
    callers.iter().map(ask).collect()
}

fn median(answers: &[(Response, Duration)]) -> Duration {
    let mut took: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
    took.sort();
    took[took.len() / 2]
}

fn evalsha(cluster: &RedisCluster) -> u64 {
    cluster.masters.iter().map(|master| master.calls("evalsha")).sum()
}

#[test]
fn b15_a_master_that_is_silent_costs_its_own_slots_the_timeout_and_the_others_nothing() {
    let cluster = RedisCluster::start(3, 0);
    let callers = callers(&cluster, 3);
    let gateway = gateway(&cluster, "100ms", "rate = \"50/h\", algorithm = \"fixed_window\"").start();
    for caller in callers.iter().flatten().take(60) {
        gateway.get_from(caller, "/");
    }
    let failed_before = gateway.metric("rate_limiter_errors_total", &[]);
    cluster.masters[0].signal("STOP");
    let dead = timed(&gateway, &callers[0][..5]);
    assert!(dead.iter().all(|(answer, _)| answer.status == 200), "the limiter in the gateway takes over");
    assert!(median(&dead) <= Duration::from_millis(250), "{:?}", median(&dead));
    assert!(gateway.metric("rate_limiter_errors_total", &[]) > failed_before);
    let failed = gateway.metric("rate_limiter_errors_total", &[]);
    let counted = cluster.masters[1].calls("evalsha") + cluster.masters[2].calls("evalsha");
    let live = [timed(&gateway, &callers[1][..50]), timed(&gateway, &callers[2][..50])].concat();
    assert!(live.iter().all(|(answer, _)| answer.status == 200));
    assert!(median(&live) < Duration::from_millis(50), "{:?}", median(&live));
    let decided = cluster.masters[1].calls("evalsha") + cluster.masters[2].calls("evalsha") - counted;
    let failed = (gateway.metric("rate_limiter_errors_total", &[]) - failed) as u64;
    // None, but for calls that a busy machine held for longer than the timeout.
    assert!(failed <= 5 && decided >= 95, "{decided} were decided by the live masters, {failed} failed");
    cluster.masters[0].signal("CONT");
    wait_until("the breaker closes", || gateway.metric("sluicegate_store_breaker_open", &[]) == 0.0);
}

#[test]
fn b15_a_gateway_starts_although_a_master_is_silent() {
    let cluster = RedisCluster::start(3, 0);
    let callers = callers(&cluster, 3);
    cluster.masters[0].signal("STOP");
    let start = Instant::now();
    let gateway = gateway(&cluster, "100ms", "rate = \"50/h\", algorithm = \"fixed_window\"").start();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let live = [timed(&gateway, &callers[1][..20]), timed(&gateway, &callers[2][..20])].concat();
    assert!(live.iter().all(|(answer, _)| answer.status == 200));
    assert!(cluster.masters[1].calls("evalsha") + cluster.masters[2].calls("evalsha") >= 38, "{}", gateway.log());
    cluster.masters[0].signal("CONT");
}

#[test]
fn a_replica_that_takes_over_is_followed_and_other_slots_see_nothing() {
    let mut cluster = RedisCluster::start(3, 0);
    let replica = cluster.add_replica(0);
    let callers = callers(&cluster, 3);
    let gateway = gateway(&cluster, "2s", "rate = \"100000/h\", algorithm = \"fixed_window\"").start();
    let (lost, kept) = (&callers[0][0], &callers[1][0]);
    assert_eq!([lost, kept].map(|caller| gateway.get_from(caller, "/").remaining()), [99_999; 2]);
    wait_until("it is replicated", || replica.keys().len() == 1);
    cluster.masters[0].kill();
    let mut asked = 1;
    wait_until("the replica decides", || {
        assert_eq!(gateway.get_from(lost, "/").status, 200);
        asked += 1;
        assert_eq!(gateway.get_from(kept, "/").remaining(), 100_000 - asked, "its master is alive");
        replica.calls("evalsha") > 0 && gateway.metric("sluicegate_store_breaker_open", &[]) == 0.0
    });
    let left = gateway.get_from(lost, "/").remaining();
    assert!(left < 99_999, "it knows what its master knew");
    assert_eq!(gateway.get_from(lost, "/").remaining(), left - 1);
}

#[test]
fn a_redirection_costs_one_more_call_and_no_more() {
    let cluster = RedisCluster::start(2, 0);
    let callers = callers(&cluster, 2);
    let gateway = gateway(&cluster, "10s", "rate = \"100/h\", algorithm = \"fixed_window\"").start();
    // Both masters know the script.
    for caller in [&callers[0][0], &callers[1][0], &callers[1][1]] {
        assert_eq!(gateway.get_from(caller, "/").remaining(), 99);
    }
    let (caller, key) = (&callers[0][0], only_key(&cluster.masters[0]));
    let cost = |left: i64| {
        let before = evalsha(&cluster);
        assert_eq!(gateway.get_from(caller, "/").remaining(), left);
        evalsha(&cluster) - before
    };
    assert_eq!(cost(98), 1);
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, 1);
    assert_eq!(cost(97), 1, "the key is where it was");
    cluster.move_key(&key, 0, 1);
    assert_eq!([cost(96), cost(95)], [2, 2], "ASK: every time, while the slot moves");
    cluster.end_move(slot, 0, 1);
    assert!((1..=2).contains(&cost(94)), "MOVED: at most once");
    let mut left = 94;
    wait_until("the map is the new one", || {
        left -= 1;
        cost(left) == 1
    });
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
}

/// The user that `docs/redis.md` gives, with what it adds for a Cluster if that is wanted, on every master.
fn make_user(cluster: &RedisCluster, for_a_cluster: bool) {
    let page = read(&root().join("docs/redis.md"));
    let (_, rules) = page.split_once("ACL SETUSER sluicegate").expect("the page has the command");
    let rules = rules.split("```").next().expect("a split has a first part").replace("\\\n", " ");
    let (_, added) = page.split_once("On a Cluster it needs `").expect("the page says what a Cluster needs");
    let added = added.split('`').next().filter(|_| for_a_cluster).unwrap_or_default();
    let rules = format!("ACL SETUSER sluicegate {rules} {added}").replace('\'', "");
    let words: Vec<&str> = rules.split_whitespace().collect();
    for master in &cluster.masters {
        assert_eq!(master.connect().text(&words), Answer::Bytes(b"OK".to_vec()));
    }
}

fn as_that_user(cluster: &RedisCluster) -> Setup {
    let limit = "rate = \"100/h\", algorithm = \"fixed_window\", on_store_error = \"closed\"";
    let mut setup = gateway(cluster, "10s", limit);
    setup.toml = setup.toml.replace("redis://", "redis://sluicegate:a-long-password@");
    setup
}

#[test]
fn an_acl_user_with_the_rules_documented_for_a_cluster_is_enough_while_a_slot_moves_too() {
    let cluster = RedisCluster::start(2, 0);
    make_user(&cluster, true);
    let caller = &callers(&cluster, 2)[0][0];
    let gateway = as_that_user(&cluster).start();
    assert_eq!(gateway.get_from(caller, "/").remaining(), 99);
    let key = only_key(&cluster.masters[0]);
    cluster.begin_move(cluster.slot(&key), 0, 1);
    cluster.move_key(&key, 0, 1);
    assert_eq!(gateway.get_from(caller, "/").remaining(), 98, "it is asked for where it went");
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0, "{}", gateway.log());
}

#[test]
fn a_cluster_that_does_not_tell_its_slots_is_an_outage_and_the_log_says_why_once() {
    let cluster = RedisCluster::start(1, 0);
    make_user(&cluster, false);
    let gateway = as_that_user(&cluster).start();
    assert_eq!(gateway.statuses(6, "/"), [503; 6]);
    let asked = || cluster.masters[0].connect().text(&["ACL", "LOG"]).list().len();
    wait_until("it was asked", || asked() > 0);
    // A breaker that is open has the map asked for anew each second.
    let denied = || cluster.masters[0].info("errorstat_NOPERM");
    let before = denied();
    wait_until("it was asked again", || denied() != before);
    let told = |log: &str| log.lines().filter(|line| line.contains("which slot") && line.contains("NOPERM")).count();
    assert_eq!(told(&gateway.log()), 1, "{}", gateway.log());
}

fn only_key(master: &RedisServer) -> String {
    let keys = master.keys();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys[0].clone()
}
