//! Reload: rules change, history stays, a bad file changes nothing.

use crate::support::client::{UPGRADE, render};
use crate::support::reply::Step;
use crate::support::*;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

fn catch_all(limit: &str) -> String {
    format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ name = \"l\", {limit} }}]\n")
}

fn set_limit(limit: &str) -> impl FnOnce(&mut Setup) + use<> {
    let toml = catch_all(limit);
    move |setup| setup.toml = toml
}

#[test]
fn b04_a_reload_refills_no_counter() {
    for algorithm in AT_ONCE {
        let limit = format!("algorithm = \"{algorithm}\", rate = \"10/h\"");
        let mut gateway = Setup::new(catch_all(&limit)).start();
        assert_eq!(count(&gateway.statuses(11, "/"), 200), 10);
        assert_eq!(gateway.hang_up(), Reload::Success, "the identical file");
        assert_eq!(gateway.get("/").status, 429, "{algorithm}");
        assert_eq!(gateway.reload(|setup| setup.toml.push_str("[[routes]]\nmatch = \"/other\"\n")), Reload::Success);
        assert_eq!(gateway.get("/").status, 429, "{algorithm}, after an unrelated change");
    }
}

#[test]
fn b04_many_reloads_under_load_grant_nothing() {
    let mut gateway = Setup::limited(&[r#"rate = "10/h""#]).start();
    let (done, address) = (AtomicBool::new(false), gateway.files.data);
    let accepted = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut accepted = 0;
            while !done.load(Ordering::SeqCst) {
                accepted += usize::from(Client::connect(address).get("/").status == 200);
            }
            accepted
        });
        for _ in 0..10 {
            assert_eq!(gateway.hang_up(), Reload::Success);
        }
        done.store(true, Ordering::SeqCst);
        load.join().expect("the load does not panic")
    });
    assert_eq!(accepted, 10);
}

#[test]
fn b26_a_bad_file_changes_nothing_and_says_where() {
    let mut gateway = Setup::new(catch_all(r#"rate = "3/h""#)).start();
    let good = gateway.files.render(&gateway.setup);
    let since = |gateway: &Gateway| gateway.metric("sluicegate_config_last_reload_success_timestamp_seconds", &[]);
    let (loaded, generation) = (since(&gateway), gateway.metric("sluicegate_config_generation", &[]));
    let bad = [
        ("not TOML", format!("{good}\n[[[")),
        ("unknown field", format!("{good}\nfrobnicate = true\n")),
        ("negative limit", good.replace("3/h", "-3/h")),
        ("duplicate route", format!("{good}\n[[routes]]\nmatch = \"*\"\n")),
        ("empty", String::new()),
        ("zero", good.replace("3/h", "0/h")),
    ];
    for (fault, text) in &bad {
        assert_eq!(gateway.reload_text(text), Reload::Failure, "{fault}");
        wait_until("the log names the file", || gateway.log().contains("sluicegate.toml"));
    }
    fs::remove_file(gateway.files.path("sluicegate.toml")).unwrap();
    assert_eq!(gateway.hang_up(), Reload::Failure, "missing");
    assert_eq!((since(&gateway), gateway.metric("sluicegate_config_generation", &[])), (loaded, generation));
    assert_eq!(gateway.statuses(4, "/"), [200, 200, 200, 429], "the old policy is in force");
    assert_eq!(gateway.reload_text(&good.replace("3/h", "4/h")), Reload::Success);
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
}

#[test]
fn b26_a_bad_keys_file_changes_nothing() {
    let mut gateway = Setup::new("[tiers.free]\n").keys(&consumer("acme", "free")).start();
    assert_eq!(gateway.reload(|setup| setup.keys = consumer("acme", "no-such-tier")), Reload::Failure);
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 200);
    assert!(gateway.log().contains("keys.toml") && gateway.log().contains("no-such-tier"), "{}", gateway.log());
}

#[test]
fn b27_hangups_end_no_request_no_stream_and_no_tunnel() {
    let gate = Gate::closed();
    let held = gate.clone();
    let gateway = Setup::default().before_script(move |request| match request.target.as_str() {
        "/stream" => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec();
            Reply::raw(head).then(Step::Pass(held.clone())).then(Step::Write(b"4\r\nlast\r\n0\r\n\r\n".to_vec()))
        }
        "/tunnel" => Reply::upgrade(),
        _ => Reply::ok(),
    });
    let (id, mut kept) = (gateway.running.id(), gateway.connect());
    let mut stream = gateway.connect();
    stream.send(render("GET", "/stream", &[], b""));
    let mut tunnel = gateway.connect();
    assert_eq!(tunnel.request("GET", "/tunnel", &UPGRADE, b"").status, 101);
    for index in 0..30 {
        gateway.signal("HUP");
        assert_eq!(kept.get("/").status, 200, "hangup {index}");
        thread::sleep(Duration::from_millis(10));
    }
    wait_until("a reload was counted", || {
        gateway.metric("sluicegate_config_reloads_total", &[("result", "success")]) >= 1.0
    });
    tunnel.send("ping");
    assert_eq!(tunnel.read_exactly(4), b"ping");
    gate.open();
    assert_eq!(stream.read("GET").text(), "firstlast");
    assert_eq!((kept.get("/").status, gateway.running.id()), (200, id));
}

/// Whether the process ignores or catches SIGHUP, so Linux says.
fn minds_hangups(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = |line: &str| line.split_whitespace().nth(1).and_then(|word| u64::from_str_radix(word, 16).ok());
    let masks = status.lines().filter(|line| line.starts_with("SigIgn:") || line.starts_with("SigCgt:"));
    masks.filter_map(mask).any(|mask| mask & 1 == 1)
}

#[test]
fn b27_a_hangup_from_the_first_instant_on_never_kills() {
    for delay_ms in [0, 1, 3, 10, 30] {
        let mut gateway = Setup::default().launch(Upstream::ok());
        // Before its first instruction no program can care for signals: the loader is at work.
        wait_until("it runs and minds SIGHUP", || minds_hangups(gateway.running.id()));
        thread::sleep(Duration::from_millis(delay_ms));
        for _ in 0..10 {
            gateway.signal("HUP");
        }
        gateway.wait_ready();
        assert_eq!(gateway.get("/").status, 200, "hangups {delay_ms} ms after the start");
    }
}

#[test]
fn b27_a_hangup_while_draining_neither_kills_nor_hangs() {
    let gate = Gate::closed();
    let held = gate.clone();
    let mut gateway = Setup::default().before_script(move |_| Reply::ok().behind(&held));
    let mut client = gateway.connect();
    client.send(render("GET", "/", &[], b""));
    wait_until("the request is under way", || gateway.upstream.count() == 1);
    gateway.signal("TERM");
    for _ in 0..5 {
        gateway.signal("HUP");
    }
    gate.open();
    assert_eq!(client.read("GET").status, 200);
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0));
}

#[test]
fn b61_a_changed_limit_holds_at_once_for_callers_already_known() {
    let mut gateway = Setup::new(catch_all(r#"rate = "100/h""#)).start();
    assert_eq!(count(&gateway.statuses(20, "/"), 200), 20);
    assert_eq!(gateway.reload(set_limit(r#"rate = "30/h""#)), Reload::Success);
    let first = gateway.get("/");
    assert_eq!((first.limit(), first.remaining()), (30, 9));
    assert_eq!(count(&gateway.statuses(12, "/"), 200), 9);
    assert_eq!(gateway.reload(set_limit(r#"rate = "32/h""#)), Reload::Success);
    assert_eq!(gateway.statuses(3, "/"), [200, 200, 429]);
    assert_eq!(gateway.reload(|setup| setup.toml = "[[routes]]\nmatch = \"*\"\n".into()), Reload::Success);
    assert!(!gateway.get("/").has("ratelimit-limit"));
}

#[test]
fn b96_a_file_read_while_it_is_written_drops_no_limit_unnoticed() {
    let mut gateway = Setup::default().start();
    let filler: String = (0..100).map(|n| format!("[[routes]]\nmatch = \"/filler/{n}\"\n")).collect();
    let toml =
        format!("[[routes]]\nmatch = \"*\"\n{filler}[[limits]]\nname = \"all\"\nper = \"global\"\nrate = \"3/h\"\n");
    assert_eq!(gateway.reload(|setup| setup.toml = toml), Reload::Success);
    assert_eq!(count(&gateway.statuses(4, "/"), 200), 3);
    let whole = gateway.files.render(&gateway.setup);
    let half = &whole[..whole.find("[[limits]]").unwrap()];
    let path = gateway.files.path("sluicegate.toml");
    fs::write(&path, half).unwrap();
    gateway.signal("HUP");
    let start = Instant::now();
    let mut passed = 0;
    while start.elapsed() < Duration::from_millis(200) {
        passed += usize::from(gateway.get("/").status == 200);
    }
    let warned = gateway.log().to_ascii_lowercase();
    let warned = warned.lines().any(|line| line.contains("all") && (line.contains("warn") || line.contains("error")));
    fs::write(&path, &whole).unwrap();
    gateway.hang_up();
    assert!(passed == 0 || warned, "{passed} requests passed while the limit was missing, and nothing was logged");
    wait_until("the whole file is in force, with its history", || gateway.get("/").status == 429);
}

#[test]
fn b133_a_changed_quota_keeps_what_was_used() {
    let mut gateway = Setup::new(catch_all(r#"algorithm = "fixed_window", rate = "10/h""#)).start();
    assert_eq!(count(&gateway.statuses(8, "/"), 200), 8);
    let at = |count: u32| set_limit(&format!("algorithm = \"fixed_window\", rate = \"{count}/h\""));
    assert_eq!(gateway.reload(at(12)), Reload::Success);
    assert_eq!(gateway.get("/").remaining(), 3);
    for turn in 0..6 {
        assert_eq!(gateway.reload(at(10 + turn % 2)), Reload::Success);
        gateway.get("/");
    }
    assert_eq!(gateway.upstream.count(), 11, "the larger quota, once");
}

#[test]
fn b142_counters_pass_a_reload_exactly() {
    for algorithm in AT_ONCE {
        let mut gateway = Setup::new(catch_all(&format!("algorithm = \"{algorithm}\", rate = \"50/h\""))).start();
        gateway.statuses(3, "/");
        assert_eq!(gateway.hang_up(), Reload::Success);
        assert_eq!(gateway.get("/").remaining(), 46, "{algorithm}");
    }
}

#[test]
fn a_renamed_limit_and_another_algorithm_start_fresh() {
    let mut gateway = Setup::new(catch_all(r#"rate = "1/h""#)).start();
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
    assert_eq!(gateway.reload(set_limit(r#"rate = "1/h", algorithm = "token_bucket""#)), Reload::Success);
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
    assert_eq!(
        gateway.reload(|setup| setup.toml = catch_all(r#"rate = "1/h""#).replace("\"l\"", "\"m\"")),
        Reload::Success
    );
    assert_eq!(gateway.statuses(2, "/"), [200, 429]);
}

#[test]
fn keys_and_templates_are_read_again() {
    let mut gateway = Setup::new("[tiers.free]\n").keys(&consumer("acme", "free")).start();
    assert_eq!(gateway.get_as(&key_of("beta"), "/").status, 401);
    assert_eq!(gateway.reload(|setup| setup.keys = consumer("beta", "free")), Reload::Success);
    assert_eq!([gateway.get_as(&key_of("beta"), "/").status, gateway.get_as(&key_of("acme"), "/").status], [200, 401]);
}

#[test]
fn the_admin_token_is_read_again() {
    let mut gateway = Setup::default().start();
    let files = gateway.files.directory().to_owned();
    for token in ["token-of-the-first-day", "token-of-the-second-day"] {
        fs::write(files.join("admin.token"), token).unwrap();
        assert_eq!(gateway.reload(|setup| setup.admin = "token_file = \"admin.token\"".into()), Reload::Success);
        let bearer = format!("Bearer {token}");
        let ask =
            |headers: &[(&str, &str)]| Client::connect(gateway.files.admin).request("GET", "/x", headers, b"").status;
        assert_eq!((ask(&[]), ask(&[("authorization", &bearer)])), (401, 404), "{token}");
    }
}

#[test]
fn changes_that_need_a_restart_are_refused_by_name() {
    let mut gateway = Setup::new(catch_all(r#"rate = "3/h""#)).start();
    let good = gateway.files.render(&gateway.setup);
    let (data, admin) = (gateway.files.data.to_string(), gateway.files.admin.to_string());
    let changes = [
        ("listen", good.replace(&data, &format!("127.0.0.1:{}", free_port()))),
        ("threads", good.replace("threads = 2", "threads = 3")),
        ("admin", good.replace(&admin, &format!("127.0.0.1:{}", free_port()))),
        ("store", format!("{good}[store.memory]\nmax_entries = 12345\n")),
    ];
    for (name, text) in &changes {
        let before = gateway.log().len();
        assert_eq!(gateway.reload_text(&text.replace("3/h", "9/h")), Reload::Failure, "{name}");
        wait_until(&format!("{name} is named"), || {
            let said = gateway.log()[before..].to_ascii_lowercase();
            said.contains(name) && said.contains("restart")
        });
    }
    assert_eq!(gateway.get("/").limit(), 3, "nothing of a refused file is in force");
}

#[test]
fn a_reload_moves_the_access_log_or_is_refused_when_that_cannot_be_opened() {
    let json = |target: &str| format!("access = \"{target}\"\nformat = \"json\"");
    let mut gateway = Setup::default().log(&json("first.log")).start();
    let (first, second) = (gateway.files.path("first.log"), gateway.files.path("second.log"));
    let holds = |path: &std::path::Path, text: &str| fs::read_to_string(path).is_ok_and(|log| log.contains(text));
    assert_eq!(gateway.reload(|setup| setup.log = json("second.log")), Reload::Success);
    gateway.get("/moved");
    wait_until("the line is in the new file", || holds(&second, "/moved"));
    assert_eq!(gateway.reload(|setup| setup.log = json("no/such/directory.log")), Reload::Failure);
    gateway.get("/still");
    wait_until("the line is where it was", || holds(&second, "/still"));
    assert_eq!(gateway.reload(|setup| setup.log = json("off")), Reload::Success);
    gateway.get("/unlogged");
    gateway.wait_idle();
    assert!(!holds(&first, "/moved") && !holds(&second, "/unlogged"));
}

#[test]
fn a_reload_changes_how_many_requests_are_held_and_how_long_a_drain_takes() {
    let limit = r#"algorithm = "leaky_bucket", rate = "1/500ms", queue = 10"#;
    let mut gateway = Setup::new(catch_all(limit)).before_script(|request| match request.target.as_str() {
        "/stuck" => Reply::ok().after(Duration::from_secs(60)),
        _ => Reply::ok(),
    });
    assert_eq!(gateway.reload(|setup| setup.server = "max_parked = 0\ndrain = \"100ms\"".into()), Reload::Success);
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(gateway.get("/").status, 429, "nothing is held any more");
    wait_until("the bucket is empty", || gateway.get("/").status == 200);
    let mut client = gateway.connect();
    wait_until("a request is in flight", || {
        client.send(render("GET", "/stuck", &[], b""));
        gateway.upstream.saw("/stuck")
    });
    gateway.signal("TERM");
    assert_eq!(gateway.wait_exit(Duration::from_secs(10)), Some(0));
}

#[test]
fn each_good_reload_raises_the_generation() {
    let mut gateway = Setup::default().start();
    let generation = gateway.metric("sluicegate_config_generation", &[]);
    assert_eq!(gateway.hang_up(), Reload::Success);
    assert_eq!(gateway.metric("sluicegate_config_generation", &[]), generation + 1.0);
    assert_eq!(gateway.reload_text("nonsense"), Reload::Failure);
    assert_eq!(gateway.metric("sluicegate_config_generation", &[]), generation + 1.0);
}
