//! Which server a request goes to: turns, load, hashes.

use crate::support::*;
use std::collections::BTreeMap;

/// The counts of requests, in the order of the upstreams.
fn counts(upstreams: &[Upstream]) -> Vec<usize> {
    upstreams.iter().map(Upstream::count).collect()
}

fn toml(upstreams: &[&Upstream], lines: &str) -> String {
    let servers: Vec<String> = upstreams.iter().map(|upstream| format!("\"{}\"", upstream.address())).collect();
    let servers = servers.join(", ");
    format!("[upstreams.u]\nservers = [{servers}]\n{lines}\n[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n")
}

/// Which of the upstreams took the request that `ask` makes.
fn taker(upstreams: &[Upstream], ask: impl FnOnce() -> Response) -> usize {
    let before = counts(upstreams);
    assert_eq!(ask().status, 200);
    let after = counts(upstreams);
    (0..upstreams.len()).find(|index| after[*index] > before[*index]).expect("somebody answered")
}

#[test]
fn the_share_of_a_server_that_is_down_falls_to_all_others() {
    let upstreams = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let down = Upstream::new(|_| Reply::status(500, &[], "down"));
    let all = [&upstreams[0], &down, &upstreams[1], &upstreams[2]];
    let lines = "health = { path = \"/up\", interval = \"50ms\", timeout = \"5s\", fall = 2 }";
    let gateway = Setup::new(toml(&all, lines)).start();
    let server = down.address().to_string();
    wait_until("it is found unhealthy", || {
        gateway.metric("sluicegate_upstream_healthy", &[("server", &server)]) == 0.0
    });
    let own = |upstream: &Upstream| upstream.requests().iter().filter(|request| request.target == "/own").count();
    assert_eq!(count(&gateway.statuses(30, "/own"), 200), 30);
    assert_eq!(upstreams.each_ref().map(own), [10; 3]);
}

#[test]
fn the_least_loaded_server_for_its_weight_is_next_and_ended_requests_no_longer_count() {
    let gates = [Gate::closed(), Gate::closed()];
    let held = |gate: &Gate| {
        let gate = gate.clone();
        Upstream::new(move |request| match request.target.as_str() {
            "/held" => Reply::ok().behind(&gate),
            _ => Reply::ok(),
        })
    };
    let upstreams = [held(&gates[0]), held(&gates[1])];
    let servers = format!(
        "[upstreams.u]\nservers = [\"{}\", {{ address = \"{}\", weight = 2 }}]\nbalance = \"least_connections\"\n",
        upstreams[0].address(),
        upstreams[1].address()
    );
    let gateway = Setup::new(format!("{servers}[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n")).start();
    let mut clients = Vec::new();
    for index in 1..=6 {
        let mut client = gateway.connect();
        client.send(client::render("GET", "/held", &[], b""));
        wait_until("the request is upstream", || counts(&upstreams).iter().sum::<usize>() == index);
        clients.push(client);
    }
    assert_eq!(counts(&upstreams), [2, 4]);
    // The clients leave: their requests end.
    drop(clients);
    gateway.wait_idle();
    assert_eq!(count(&gateway.statuses(6, "/"), 200), 6);
    assert_eq!(counts(&upstreams), [4, 8]);
    gates.iter().for_each(Gate::open);
}

#[test]
fn a_server_that_fails_or_is_slow_to_answer_counts_only_while_it_does() {
    let dead = format!("127.0.0.1:{}", free_port());
    let upstream = Upstream::ok();
    let servers = format!("servers = [\"{dead}\", \"{}\"]\nbalance = \"least_connections\"\n", upstream.address());
    let routes = "[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n";
    let gateway = Setup::new(format!("[upstreams.u]\n{servers}{routes}")).start();
    assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
    assert_eq!(upstream.count(), 20);
}

#[test]
fn a_client_address_stays_with_its_server_and_only_those_of_a_removed_one_move() {
    let upstreams = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let mut gateway = Setup::new(toml(&all, "balance = \"hash:ip\"")).trusted().start();
    let clients: Vec<String> = (1..=30).map(|last| format!("203.0.113.{last}")).collect();
    let takers = |gateway: &Gateway| -> BTreeMap<String, usize> {
        clients.iter().map(|from| (from.clone(), taker(&upstreams, || gateway.get_from(from, "/")))).collect()
    };
    let first = takers(&gateway);
    assert_eq!(takers(&gateway), first);
    for server in 0..3 {
        let share = first.values().filter(|taker| **taker == server).count();
        assert!(share > 2, "server {server} has {share} of 30");
    }
    assert_eq!(gateway.reload(|setup| setup.toml = toml(&all[..2], "balance = \"hash:ip\"")), Reload::Success);
    for (client, taker) in takers(&gateway) {
        assert!(first[&client] == 2 || first[&client] == taker, "{client} moved from {} to {taker}", first[&client]);
    }
    assert_eq!(gateway.reload(|setup| setup.toml = toml(&all, "balance = \"hash:ip\"")), Reload::Success);
    assert_eq!(takers(&gateway), first, "a server that is back gets back what it had");
}

#[test]
fn callers_of_one_network_are_one_for_the_hash_too() {
    let upstreams = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let gateway = Setup::new(toml(&all, "balance = \"hash:ip\"")).trusted().start();
    let takers: Vec<usize> =
        (1..=10).map(|last| taker(&upstreams, || gateway.get_from(&format!("2001:db8:0:1::{last}"), "/"))).collect();
    assert!(takers.iter().all(|taker| *taker == takers[0]), "{takers:?}");
}

#[test]
fn a_consumer_stays_with_its_server_whatever_its_address_and_others_go_by_address() {
    let upstreams = [Upstream::ok(), Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let keys: String = (0..20).map(|number| consumer(&format!("c{number}"), "free")).collect();
    let toml = format!("{}[tiers.free]\n", toml(&all, "balance = \"hash:consumer\""));
    let gateway = Setup::new(toml).keys(&keys).trusted().start();
    let ask = |name: &str, from: &str| {
        let bearer = format!("Bearer {}", key_of(name));
        gateway.get_with("/", &[("authorization", &bearer), ("x-forwarded-for", from)])
    };
    let mut used = std::collections::BTreeSet::new();
    for number in 0..20 {
        let name = format!("c{number}");
        let takers = ["203.0.113.1", "203.0.113.2", "203.0.113.3"].map(|from| taker(&upstreams, || ask(&name, from)));
        assert!(takers.iter().all(|taker| *taker == takers[0]), "{name}: {takers:?}");
        used.insert(takers[0]);
    }
    assert!(used.len() > 1, "all on one server");
    let anonymous: Vec<usize> =
        (1..=20).map(|last| taker(&upstreams, || gateway.get_from(&format!("203.0.113.{last}"), "/"))).collect();
    assert!(anonymous.iter().any(|taker| *taker != anonymous[0]), "{anonymous:?}");
    let again: Vec<usize> =
        (1..=20).map(|last| taker(&upstreams, || gateway.get_from(&format!("203.0.113.{last}"), "/"))).collect();
    assert_eq!(again, anonymous);
}

#[test]
fn a_header_value_stays_with_its_server_and_requests_without_it_go_by_address() {
    let upstreams = [Upstream::ok(), Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let gateway = Setup::new(toml(&all, "balance = \"hash:header:X-Tenant\"")).trusted().start();
    let ask = |tenant: &str, from: &str| gateway.get_with("/", &[("x-tenant", tenant), ("x-forwarded-for", from)]);
    let mut used = std::collections::BTreeSet::new();
    for number in 0..20 {
        let tenant = format!("t{number}");
        let takers = ["203.0.113.1", "203.0.113.2"].map(|from| taker(&upstreams, || ask(&tenant, from)));
        assert_eq!(takers[0], takers[1], "{tenant}");
        used.insert(takers[0]);
    }
    assert!(used.len() > 1, "all on one server");
    let without: Vec<usize> =
        (1..=20).map(|last| taker(&upstreams, || gateway.get_from(&format!("203.0.113.{last}"), "/"))).collect();
    assert!(without.iter().any(|taker| *taker != without[0]), "{without:?}");
}

#[test]
fn a_hashed_request_whose_server_fails_goes_to_another_and_comes_back() {
    let dead = format!("127.0.0.1:{}", free_port());
    let upstream = Upstream::ok();
    let servers = format!("servers = [\"{dead}\", \"{}\"]\nbalance = \"hash:ip\"\n", upstream.address());
    let routes = "[[routes]]\nmatch = \"*\"\nupstream = \"u\"\n";
    let gateway = Setup::new(format!("[upstreams.u]\n{servers}{routes}")).trusted().start();
    for last in 1..=20 {
        assert_eq!(gateway.get_from(&format!("203.0.113.{last}"), "/").status, 200);
    }
    assert_eq!(upstream.count(), 20);
}
