//! Subjects that a client invents do not grow the process without bound.

use crate::support::client::render;
use crate::support::*;
use std::time::{Duration, Instant};

/// One request from each of `count` addresses, half of them IPv6.
fn visit(gateway: &Gateway, first: usize, count: usize) {
    burst(4, 4, |worker| {
        let mut client = gateway.connect();
        for n in (first + worker..first + count).step_by(4) {
            let from = if n % 2 == 0 {
                format!("11.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255)
            } else {
                format!("2001:db8:{:x}:{:x}::1", n >> 16, n & 0xffff)
            };
            assert_eq!(client.request("GET", "/", &[("x-forwarded-for", &from)], b"").status, 200);
        }
    });
}

#[test]
fn b06_a_full_store_forgets_and_counts_it_instead_of_growing() {
    let gateway = Setup::ip_limited(&[r#"rate = "5/h""#]).trusted().toml("[store.memory]\nmax_entries = 500\n").start();
    visit(&gateway, 0, 1000);
    let plateau = gateway.running.resident_kib();
    visit(&gateway, 1000, 3000);
    let entries = gateway.metric("sluicegate_store_entries", &[]);
    assert!(entries <= 500.0, "{entries} entries");
    assert!(gateway.metric("sluicegate_store_evictions_total", &[]) >= 3000.0);
    let grown = gateway.running.resident_kib().saturating_sub(plateau);
    assert!(grown < 8 * 1024, "{grown} KiB more");
}

#[test]
fn b06_a_full_store_keeps_those_who_are_refused() {
    let gateway = Setup::ip_limited(&[r#"rate = "5/h""#]).trusted().toml("[store.memory]\nmax_entries = 500\n").start();
    for _ in 0..6 {
        gateway.get_from("203.0.113.1", "/");
    }
    visit(&gateway, 0, 2000);
    assert_eq!(gateway.get_from("203.0.113.1", "/").status, 429, "a flood freed a caller that was refused");
}

#[test]
fn b06_a_full_store_keeps_those_who_are_refused_whatever_the_windows_of_the_others() {
    let gateway = Setup::ip_limited(&[r#"rate = "50/year""#])
        .trusted()
        .toml("[[routes]]\nmatch = \"*\"\n[[routes]]\nmatch = \"/few\"\n")
        .toml("limits = [{ rate = \"5/day\", algorithm = \"fixed_window\" }]\n")
        .toml("[store.memory]\nmax_entries = 500\n")
        .start();
    for _ in 0..6 {
        gateway.get_from("203.0.113.1", "/few");
    }
    visit(&gateway, 0, 2000);
    assert_eq!(gateway.get_from("203.0.113.1", "/few").status, 429, "longer windows pushed out a caller at its limit");
}

#[test]
fn b06_idle_counters_leave() {
    let gateway = Setup::ip_limited(&[r#"rate = "5/s""#]).trusted().start();
    visit(&gateway, 0, 1000);
    wait_until("idle counters have left", || gateway.metric("sluicegate_store_entries", &[]) <= 10.0);
}

#[test]
fn b104_a_long_log_costs_no_more_at_its_end_than_at_its_start() {
    const COUNT: usize = 6000;
    let limit = format!("algorithm = \"sliding_window_log\", rate = \"{COUNT}/day\"");
    let gateway = Setup::limited(&[&limit]).start();
    let before = gateway.running.resident_kib();
    let mut client = gateway.connect();
    let mut thousand = || {
        let start = Instant::now();
        for _ in 0..1000 {
            client.send(render("GET", "/", &[], b""));
            assert_eq!(client.read("GET").status, 200);
        }
        start.elapsed()
    };
    let times: Vec<Duration> = (0..COUNT / 1000).map(|_| thousand()).collect();
    let (first, last) = (times[0].min(times[1]), times[4].min(times[5]));
    assert!(last < first * 3, "the first thousand took {first:?}, the last {last:?}");
    assert_eq!(client.get("/").status, 429);
    let grown = gateway.running.resident_kib().saturating_sub(before);
    assert!(grown < 20 * 1024, "{grown} KiB for {COUNT} entries");
}
