//! Counters in a Redis Cluster: one caller's limits lie in several slots, slots move, and masters die apart.

use crate::support::fields::left_of;
use crate::support::redis::RedisCluster;
use crate::support::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The algorithms that refuse at once what they do not admit.
const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

fn setup(cluster: &RedisCluster, toml: &str) -> Setup {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\ntimeout = \"10s\"\n{}\n", cluster.toml());
    Setup::new(format!("{store}{toml}")).trusted()
}

/// A limit of the whole gateway's callers and one of each, in different slots.
fn limited(cluster: &RedisCluster, limit: &str) -> Gateway {
    setup(cluster, &format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n")).start()
}

fn address(number: usize) -> String {
    format!("198.51.100.{number}")
}

#[track_caller]
fn no_store_errors(gateway: &Gateway) {
    let page = gateway.metrics();
    let failed: Vec<_> = page.samples.iter().filter(|sample| sample.name.contains("store_errors")).collect();
    assert_eq!(page.sum("rate_limiter_errors_total", &[]), 0.0, "{failed:?}");
    assert!(!gateway.log().contains("CROSSSLOT"), "{}", gateway.log());
}

#[test]
fn b12_limits_of_every_layer_are_counted_exactly_across_slots() {
    const CLIENTS: usize = 100;
    let cluster = RedisCluster::start(3, 0);
    for algorithm in AT_ONCE {
        let limit = |name: &str, count: usize| {
            format!("{{ name = \"{name}\", rate = \"{count}/h\", algorithm = \"{algorithm}\" }}")
        };
        let toml = format!(
            "prefix = \"{algorithm}\"\n[tiers.pro]\nlimits = [{key}]\n\
             [[routes]]\nmatch = \"/a\"\nlimits = [{route}]\n[[routes]]\nmatch = \"/b\"\nauth = \"none\"\n\
             [[limits]]\nname = \"all\", per = \"global\"",
            key = limit("key", 100_000),
            route = limit("route", 50_000),
        );
        let custom = format!("per = \"header:x-tenant\"\nrate = \"3/h\"\nalgorithm = \"{algorithm}\"\n");
        let toml = toml.replace("name = \"all\", per = \"global\"", &format!("name = \"custom\"\n{custom}"));
        let gateway = setup(&cluster, &toml)
            .client_ip(&format!("limits = [{}]", limit("ip", 5)))
            .keys(&consumer("acme", "pro"))
            .start();
        let bearer = format!("Bearer {}", key_of("acme"));
        // Every client asks six times; half of the clients share a tenant with another one: three of each tenant pass.
        let statuses = burst(CLIENTS * 6, 8, |index| {
            let client = index % CLIENTS;
            let (address, tenant) = (address(client), (client / 2).to_string());
            let headers =
                [("x-forwarded-for", address.as_str()), ("authorization", &bearer), ("x-tenant", tenant.as_str())];
            gateway.get_with("/a", &headers).status
        });
        assert_eq!(count(&statuses, 200) + count(&statuses, 429), statuses.len(), "{algorithm}");
        let passed = |client: usize| (0..6).filter(|round| statuses[round * CLIENTS + client] == 200).count();
        for tenant in 0..CLIENTS / 2 {
            assert_eq!(passed(tenant * 2) + passed(tenant * 2 + 1), 3, "{algorithm}, tenant {tenant}");
        }
        no_store_errors(&gateway);
        let left: Vec<i64> = (0..CLIENTS)
            .map(|client| {
                let tenant = format!("fresh-{client}");
                let address = address(client);
                let headers = [("x-forwarded-for", address.as_str()), ("x-tenant", &tenant)];
                gateway.get_with("/b", &headers).remaining()
            })
            .collect();
        for (client, left) in left.iter().enumerate() {
            let used = i64::try_from(passed(client)).expect("at most six");
            assert_eq!(*left, (5 - used - 1).min(2), "{algorithm}, client {client}: refusals cost its address nothing");
        }
    }
}

#[test]
fn a_refusal_in_one_slot_gives_back_what_another_took() {
    let cluster = RedisCluster::start(3, 0);
    for algorithm in AT_ONCE {
        let toml = format!(
            "prefix = \"{algorithm}\"\n[headers]\ndialect = \"ietf\"\n\
             [[limits]]\nname = \"tenant\"\nper = \"header:x-tenant\"\nrate = \"2/h\"\nalgorithm = \"{algorithm}\"\n\
             [[limits]]\nname = \"all\"\nper = \"global\"\nrate = \"100/h\"\nalgorithm = \"{algorithm}\"\n"
        );
        let gateway = setup(&cluster, &toml).start();
        let mut tenants = 0;
        for tenant in ["a", "b", "c", "d"] {
            for round in 0..6 {
                let answer = gateway.get_with("/", &[("x-tenant", tenant)]);
                tenants += i64::from(answer.status == 200);
                assert_eq!(answer.status, if round < 2 { 200 } else { 429 }, "{algorithm}");
                assert_eq!(left_of(&answer, "all"), 100 - tenants, "{algorithm}, {tenant}, round {round}");
            }
        }
        no_store_errors(&gateway);
    }
}

/// Asks for "/" from several connections until `done` has ended, and gives how many passed; nothing else than 200 and 429 is
/// taken.
fn under_requests(gateway: &Gateway, done: impl FnOnce(&AtomicUsize)) -> usize {
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let ask = || {
            let mut passed = 0;
            while !over.load(Ordering::Relaxed) {
                let statuses = gateway.statuses(5, "/");
                assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
                passed += count(&statuses, 200);
                answered.fetch_add(statuses.len(), Ordering::Relaxed);
            }
            passed
        };
        let workers = [scope.spawn(ask), scope.spawn(ask)];
        // The workers end also when this fails.
        let outcome = catch_unwind(AssertUnwindSafe(|| done(&answered)));
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|failure| resume_unwind(failure));
        workers.map(|worker| worker.join().expect("no answer was wrong")).iter().sum()
    })
}

fn moved_under_requests(limits: &str) {
    // The last master has no slots: the gateway has never heard of it.
    let cluster = RedisCluster::start(3, 1);
    let gateway = setup(&cluster, limits).start();
    assert_eq!(gateway.get("/").status, 200);
    let keys: Vec<String> = cluster.masters.iter().flat_map(redis::RedisServer::keys).collect();
    let key = keys.iter().find(|key| key.contains("{ip:")).expect("the caller's counter").clone();
    let slot = cluster.slot(&key);
    let mut at = cluster.holder(&key).expect("a master holds it");
    let mut passed = 1 + under_requests(&gateway, |answered| {
        for to in [2, 1 - at, 2, at] {
            let answered = || answered.load(Ordering::Relaxed);
            cluster.begin_move(slot, at, to);
            let before = answered();
            wait_until("requests go on", || answered() > before + 20);
            cluster.end_move(slot, at, to);
            let before = answered();
            wait_until("requests go on", || answered() > before + 20);
            at = to;
        }
    });
    passed += count(&gateway.statuses(600 - passed + 10, "/"), 200);
    assert_eq!(passed, 600);
    no_store_errors(&gateway);
}

#[test]
fn b109_a_slot_that_moves_under_requests_is_not_seen_and_loses_no_count() {
    moved_under_requests("[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"600/h\", algorithm = \"fixed_window\" }]\n");
}

#[test]
fn b109_nor_is_one_with_several_keys_of_the_caller() {
    moved_under_requests(
        "[tiers.anonymous]\nlimits = [{ name = \"tier\", rate = \"100000/h\" }]\n\
         [[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"600/h\", algorithm = \"fixed_window\" }]\n",
    );
}

#[test]
fn keys_that_are_apart_while_their_slot_moves_are_charged_all_or_none() {
    let cluster = RedisCluster::start(3, 0);
    let gateway = setup(
        &cluster,
        "[headers]\ndialect = \"ietf\"\n\
         [tiers.anonymous]\nlimits = [{ name = \"tier\", rate = \"100/h\" }]\n\
         [[routes]]\nmatch = \"/old\"\nlimits = [{ name = \"old\", rate = \"100/h\" }]\n\
         [[routes]]\nmatch = \"/new\"\nlimits = [{ name = \"new\", rate = \"2/h\" }]\n",
    )
    .start();
    let old = gateway.get("/old");
    assert_eq!([left_of(&old, "tier"), left_of(&old, "old")], [99, 99]);
    let key = cluster.masters.iter().flat_map(redis::RedisServer::keys).next().expect("a counter");
    let (slot, from) = (cluster.slot(&key), cluster.holder(&key).expect("a master holds it"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_key(&key, from, to);
    // One of its keys has moved, another stays, a third is nowhere yet.
    let mut left = [98, 99];
    let asked = [(); 4].map(|()| {
        let answer = gateway.get("/new");
        left[0] = left_of(&answer, "tier");
        (answer.status, left[0], left_of(&answer, "new"))
    });
    assert_eq!(asked, [(200, 98, 1), (200, 97, 0), (429, 97, 0), (429, 97, 0)]);
    cluster.end_move(slot, from, to);
    assert_eq!(left_of(&gateway.get("/old"), "tier"), 96);
    no_store_errors(&gateway);
}

#[test]
fn a_dead_master_costs_only_the_counters_of_its_slots() {
    let mut cluster = RedisCluster::start(3, 0);
    let gateway = limited(&cluster, "rate = \"50/h\", algorithm = \"fixed_window\"");
    let key = |client: &str| format!("sluicegate:{{ip:{client}}}:");
    // Masters have equal shares of the slots, in order.
    let master = |client: &str| usize::from(cluster.slot(&key(client))) / 16_384usize.div_ceil(3);
    let clients: Vec<(String, usize)> = (0..60).map(address).map(|client| (client.clone(), master(&client))).collect();
    for (client, _) in &clients {
        assert_eq!(gateway.get_from(client, "/").remaining(), 49);
    }
    cluster.masters[0].kill();
    let dead: Vec<&String> = clients.iter().filter(|(_, master)| *master == 0).map(|(client, _)| client).collect();
    assert!(dead.len() > 5, "{clients:?}");
    wait_until("the breaker opens", || {
        assert_eq!(gateway.get_from(dead[0], "/").status, 200);
        gateway.metric("sluicegate_store_breaker_open", &[]) == 1.0
    });
    let failed = gateway.metric("rate_limiter_errors_total", &[]);
    for (client, master) in &clients {
        let counted = |cluster: &RedisCluster| {
            let held = cluster.masters[*master].keys().into_iter().find(|held| held.starts_with(&key(client)));
            cluster.masters[*master].connect().text(&["DUMP", &held.expect("its counter")])
        };
        if *master == 0 {
            assert_eq!(gateway.get_from(client, "/").status, 200);
            continue;
        }
        let before = counted(&cluster);
        assert_eq!(gateway.get_from(client, "/").remaining(), 48, "{client}");
        assert_ne!(counted(&cluster), before, "{client} is counted in Redis");
    }
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), failed, "an open breaker lets nobody ask");
    let admitted = (0..60).filter(|_| gateway.get_from(dead[1], "/").status == 200).count();
    assert!(admitted <= 49, "{admitted}: what a caller was seen to use counts in the outage");
    cluster.masters[0].restart();
    wait_until("the breaker closes", || gateway.metric("sluicegate_store_breaker_open", &[]) == 0.0);
}

#[test]
fn b137_braces_that_a_client_chooses_neither_move_nor_merge_counters() {
    let cluster = RedisCluster::start(3, 0);
    let gateway = setup(
        &cluster,
        "[[limits]]\nname = \"user\"\nper = [\"header:x-user\", \"route\"]\nrate = \"2/h\"\n\
         [[limits]]\nname = \"path\"\nper = [\"ip\", \"param:name\"]\nrate = \"1000/h\"\n\
         [[routes]]\nmatch = \"/:name\"\n",
    )
    .start();
    for user in ["{user}", "user", "}user{", "{", "}", "{}", "{}user", "a}:b", "%7Buser%7D"] {
        let statuses = [(); 3].map(|()| gateway.get_with("/a%7Bb%7Dc", &[("x-user", user)]).status);
        assert_eq!(statuses, [200, 200, 429], "{user}");
    }
    no_store_errors(&gateway);
}
