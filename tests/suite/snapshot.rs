//! Counters that outlive the process: the file, what is wrong with it, and time.

use crate::support::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const FILE: &str = "counters.bin";

/// A limit of 10 that no edge of a window renews within a test.
const TEN: &str = "name = \"ten\", rate = \"10/h\", algorithm = \"sliding_window_log\"";

fn kept(limits: &[&str]) -> Setup {
    Setup::limited(limits).toml(&format!("[store.memory]\nsnapshot = \"{FILE}\"\n"))
}

fn file(gateway: &Gateway) -> PathBuf {
    gateway.files.path(FILE)
}

/// Ends the process with that signal and starts it again in the same place.
fn restart(mut gateway: Gateway, signal: &str) -> Gateway {
    gateway.signal(signal);
    gateway.wait_exit(PATIENCE);
    start_again(gateway)
}

fn start_again(mut gateway: Gateway) -> Gateway {
    gateway.running = program::Running::start(gateway.files.directory(), &["run", "-c", "sluicegate.toml"]);
    gateway.wait_ready();
    gateway
}

#[test]
fn counters_of_every_algorithm_survive_a_restart_by_each_ending_signal() {
    let limits: Vec<String> = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"]
        .iter()
        .map(|algorithm| format!("name = \"{algorithm}\", rate = \"1000/year\", algorithm = \"{algorithm}\""))
        .map(|limit| {
            limit.replace(
                "\"1000/year\", algorithm = \"token_bucket\"",
                "\"1/year\", burst = 1000, algorithm = \"token_bucket\"",
            )
        })
        .collect();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let mut gateway = kept(&limits).toml("[headers]\ndialect = \"ietf\"\n").start();
    let mut used = 0;
    for signal in ["TERM", "QUIT", "INT"] {
        assert_eq!(gateway.statuses(3, "/"), [200; 3]);
        gateway = restart(gateway, signal);
        used += 4;
        let answer = gateway.get("/");
        for limit in ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"] {
            assert_eq!(fields::left_of(&answer, limit), 1000 - used, "{signal}: {limit}");
        }
        let mode = fs::metadata(file(&gateway)).expect("it was written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_crash_loses_what_came_after_the_last_write_and_nothing_before() {
    let mut gateway = kept(&[TEN]).start();
    assert_eq!(gateway.statuses(4, "/"), [200; 4]);
    let written = || fs::metadata(file(&gateway)).and_then(|found| found.modified()).ok();
    // The first write that is seen may have begun before the requests; the next one has not.
    for _ in 0..2 {
        let before = written();
        assert!(becomes_true(Duration::from_secs(40), || written() != before), "it is written without being asked");
    }
    gateway.signal("KILL");
    assert_eq!(gateway.wait_exit(PATIENCE), None);
    let gateway = start_again(gateway);
    assert_eq!(gateway.get("/").remaining(), 5);
}

#[test]
fn what_is_damaged_is_reported_kept_aside_and_ignored() {
    let mut gateway = kept(&[TEN]).start();
    assert_eq!(gateway.statuses(10, "/"), [200; 10]);
    assert_eq!(gateway.get("/").status, 429);
    gateway = restart(gateway, "TERM");
    assert_eq!(gateway.get("/").status, 429, "an intact file is honoured");
    gateway.signal("TERM");
    gateway.wait_exit(PATIENCE);
    let good = fs::read(file(&gateway)).expect("it was written");
    let flipped = |place: usize| {
        let mut bytes = good.clone();
        bytes[place] ^= 0x10;
        bytes
    };
    let mut far = good.clone();
    // The instant stands behind magic, version and secret.
    far[36..44].copy_from_slice(&(i64::try_from(epoch_ms()).expect("it fits") + 7 * 86_400_000).to_le_bytes());
    let cases = [
        ("is not a snapshot", b"[server]\nlisten = 1\n".to_vec()),
        ("is not a snapshot", Vec::new()),
        ("version 17", flipped(16)),
        ("checksum", flipped(60)),
        ("cut off", good[..good.len() - 1].to_vec()),
        ("cut off", good[..50].to_vec()),
        ("behind its end", [good.clone(), vec![0]].concat()),
        ("ahead of the clock", far),
    ];
    for (complaint, bytes) in cases {
        fs::write(file(&gateway), &bytes).expect("the directory is ours");
        gateway = start_again(gateway);
        wait_until("it is reported", || gateway.log().contains("snapshot ignored"));
        let log = gateway.log();
        assert_eq!(log.matches("snapshot ignored").count(), 1, "{complaint}: {log}");
        assert!(log.contains(complaint), "{complaint}: {log}");
        assert_eq!(gateway.get("/").remaining(), 9, "{complaint}: counters begin afresh");
        let aside = gateway.files.path(&format!("{FILE}.rejected"));
        assert_eq!(fs::read(aside).expect("it is kept"), bytes, "{complaint}");
        gateway.signal("TERM");
        gateway.wait_exit(PATIENCE);
    }
    fs::write(file(&gateway), &good).expect("the directory is ours");
    assert_eq!(start_again(gateway).get("/").status, 429, "the intact file still is");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_once_and_costs_nothing_else() {
    let mut gateway = Setup::limited(&[TEN]).toml("[store.memory]\nsnapshot = \"missing/counters.bin\"\n").start();
    wait_until("the first write has failed", || gateway.log().contains("cannot write the snapshot"));
    assert_eq!(gateway.get("/").remaining(), 9);
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
    assert_eq!(gateway.log().matches("cannot write the snapshot").count(), 1, "{}", gateway.log());
}

#[test]
fn without_a_file_a_restart_begins_afresh_and_leaves_nothing() {
    let gateway = Setup::limited(&[TEN]).start();
    assert_eq!(gateway.statuses(10, "/"), [200; 10]);
    let gateway = restart(gateway, "TERM");
    assert_eq!(gateway.get("/").remaining(), 9);
}
