//! A master behind sentinels, and what happens when it changes.

use crate::support::redis::{MASTER, Sentinels};
use crate::support::*;
use std::time::{Duration, Instant};

/// From the agreement of the sentinels to the first decision at the new master.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

fn gateway(set: &Sentinels, limit: &str) -> Gateway {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"2s\"\n{}\n", set.toml());
    Setup::new(format!("{store}[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n")).start()
}

/// Waits until the sentinels agree on the second server, then until decisions are made there; gives what was admitted
/// meanwhile.
fn switched(set: &Sentinels, gateway: &Gateway) -> usize {
    let mut admitted = 0;
    let mut ask = || admitted += usize::from(gateway.get("/").status == 200);
    wait_until("the sentinels agree", || {
        ask();
        set.agree_on(set.data[1].port)
    });
    let agreed = Instant::now();
    wait_until("decisions are made at the new master", || {
        ask();
        gateway.metric("sluicegate_store_breaker_open", &[]) == 0.0 && !set.data[1].info("cmdstat_evalsha").is_empty()
    });
    assert!(agreed.elapsed() < FOLLOWED_WITHIN, "it took {:?}", agreed.elapsed());
    admitted
}

/// The counter at a server as an opaque text.
fn counter(server: &redis::RedisServer) -> redis::Answer {
    let key = server.keys().into_iter().find(|key| key.starts_with("sluicegate:{")).expect("a counter");
    server.connect().text(&["DUMP", &key])
}

#[test]
fn the_master_is_found_and_its_replica_sees_what_was_counted() {
    let set = Sentinels::start();
    let gateway = gateway(&set, "rate = \"3/h\"");
    assert_eq!(gateway.statuses(4, "/"), [200, 200, 200, 429]);
    assert_eq!(set.data[0].keys().len(), 1);
    wait_until("it is replicated", || set.data[1].keys().len() == 1);
}

#[test]
fn sentinels_and_their_master_each_get_their_own_credentials() {
    let set = Sentinels::start();
    let user = |server: &redis::RedisServer, name: &str, password: &str| {
        let made = server.connect().text(&["ACL", "SETUSER", name, "on", &format!(">{password}"), "~*", "&*", "+@all"]);
        assert_eq!(made, redis::Answer::Bytes(b"OK".to_vec()));
    };
    set.sentinels.iter().for_each(|sentinel| user(sentinel, "asker", "sentinel-password"));
    set.data.iter().for_each(|server| user(server, "counter", "data-password"));
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let file = directory.path().join("password");
    std::fs::write(&file, "data-password\n").expect("the directory is ours");
    let urls = set.toml().replace("redis://", "redis://asker:sentinel-password@");
    let more = format!("username = \"counter\"\npassword_file = \"{}\"\n", file.display());
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"2s\"\n{urls}{more}");
    let gateway = Setup::new(format!("{store}[[routes]]\nmatch = \"*\"\nlimits = [{{ rate = \"3/h\" }}]\n")).start();
    assert_eq!(gateway.statuses(4, "/"), [200, 200, 200, 429]);
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0);
    let clients = set.data[0].connect().text(&["CLIENT", "LIST"]);
    assert!(String::from_utf8_lossy(clients.bytes()).contains("user=counter"), "{clients:?}");
    for server in set.data.iter().chain(&set.sentinels) {
        assert_eq!(server.connect().text(&["ACL", "LOG"]), redis::Answer::List(Vec::new()));
    }
    assert!(!gateway.log().contains("-password"), "{}", gateway.log());
}

#[test]
fn b05_a_killed_master_is_followed_and_meanwhile_the_local_limiter_holds() {
    let mut set = Sentinels::start();
    let gateway = gateway(&set, "rate = \"20/h\", algorithm = \"fixed_window\"");
    assert_eq!(gateway.get("/").remaining(), 19);
    wait_until("it is replicated", || set.data[1].keys().len() == 1);
    set.data[0].kill();
    let admitted = switched(&set, &gateway);
    assert!(admitted <= 39, "{admitted}: one share of the quota beside what the new master admits");
    wait_until("the quota is used", || gateway.get("/").status == 429);
    let before = counter(&set.data[1]);
    assert!(gateway.statuses(5, "/").iter().all(|status| *status == 429));
    assert_eq!(counter(&set.data[1]), before);
}

#[test]
fn b05_a_planned_switch_is_followed() {
    let set = Sentinels::start();
    let gateway = gateway(&set, "rate = \"100000/h\"");
    assert_eq!(gateway.get("/").status, 200);
    set.sentinels[0].connect().text(&["SENTINEL", "FAILOVER", MASTER]);
    switched(&set, &gateway);
    let before = counter(&set.data[1]);
    wait_until("counting goes on", || gateway.get("/").status == 200 && counter(&set.data[1]) != before);
}

#[test]
fn b05_a_master_that_became_a_replica_is_left_though_its_connection_is_open() {
    let set = Sentinels::start();
    let gateway = gateway(&set, "rate = \"100000/h\"");
    assert_eq!(gateway.get("/").status, 200);
    for sentinel in &set.sentinels {
        sentinel.connect().text(&["SENTINEL", "REMOVE", MASTER]);
    }
    let [old, new] = &set.data;
    new.connect().text(&["REPLICAOF", "NO", "ONE"]);
    old.connect().text(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]);
    wait_until("the old master follows the new one", || old.info("master_link_status") == "up");
    wait_until("it refuses to write", || {
        assert_eq!(gateway.get("/").status, 200);
        gateway.metric("rate_limiter_errors_total", &[]) > 0.0
    });
    for sentinel in &set.sentinels {
        sentinel.connect().text(&["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &new.port.to_string(), "2"]);
    }
    switched(&set, &gateway);
    let before = counter(new);
    wait_until("counting goes on", || gateway.get("/").status == 200 && counter(new) != before);
}
