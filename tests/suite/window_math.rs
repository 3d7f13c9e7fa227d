//! The arithmetic of windows and buckets as a client meets it. The library tests it by properties; here real time passes.

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

const ALL: [&str; 5] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket"];

/// A route for each algorithm, `/NAME`, under one limit of this rate.
fn one_route_each(algorithms: &[&str], rate: &str) -> Setup {
    let route = |algorithm: &&str| {
        let limit = format!("algorithm = \"{algorithm}\", rate = \"{rate}\"");
        format!("[[routes]]\nmatch = \"/{algorithm}\"\nlimits = [{{ {limit} }}]\n")
    };
    Setup::new(algorithms.iter().map(route).collect::<String>())
}

/// Runs the check for all algorithms side by side.
fn for_each(algorithms: &[&'static str], check: impl Fn(&'static str) + Sync) {
    burst(algorithms.len(), algorithms.len(), |index| check(algorithms[index]));
}

/// Sends GETs at fixed times after `start`, each on a connection of its own; when each was answered, and how.
fn open_loop(gateway: &Gateway, path: &str, times: &[Duration]) -> Vec<(Duration, u16)> {
    let start = Instant::now();
    burst(times.len(), times.len(), |index| {
        sleep_until(start, times[index]);
        let status = gateway.get(path).status;
        (start.elapsed(), status)
    })
}

#[test]
fn b21_requests_of_one_instant_are_all_counted() {
    let gateway = Setup::limited(&[r#"algorithm = "sliding_window_log", rate = "20/10s""#]).start();
    let statuses = burst(200, 50, |_| gateway.get("/").status);
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (20, 180));
}

#[test]
fn b22_refused_requests_never_delay_the_caller() {
    let gateway = one_route_each(&ALL, "5/2s").start();
    let times: Vec<Duration> = (0..60).map(|tick| Duration::from_millis(tick * 100)).collect();
    for_each(&ALL, |algorithm| {
        let mut answers = open_loop(&gateway, &format!("/{algorithm}"), &times);
        answers.sort();
        let passed: Vec<Duration> = answers.iter().filter(|answer| answer.1 == 200).map(|answer| answer.0).collect();
        assert!((12..=23).contains(&passed.len()), "{algorithm}: {} of 60 in 6 s at 5/2s", passed.len());
        let gap = passed.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(gap < Duration::from_millis(2600), "{algorithm}: nothing passed for {gap:?}");
    });
}

#[test]
fn b33_weights_count_whole_in_every_algorithm() {
    for algorithm in &ALL[..4] {
        let routes = "[[routes]]\nmatch = \"/heavy\"\ncost = 8\n[[routes]]\nmatch = \"/light\"\n";
        let limit = format!("[[limits]]\nname = \"all\"\nper = \"ip\"\nrate = \"10/h\"\nalgorithm = \"{algorithm}\"\n");
        let gateway = Setup::new(format!("{routes}{limit}")).start();
        let ask = |path: &str| {
            let answer = gateway.get(path);
            (answer.status, answer.remaining())
        };
        let sequence = ["/heavy", "/light", "/light", "/light", "/heavy"].map(ask);
        assert_eq!(sequence, [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0)], "{algorithm}");
    }
}

#[test]
fn b33_no_span_of_a_windows_length_holds_more_than_the_quota() {
    const WINDOW: Duration = Duration::from_millis(800);
    let costs = [("/heavy", 8), ("/middle", 3), ("/light", 1)];
    let routes = costs.map(|(path, cost)| format!("[[routes]]\nmatch = \"{path}\"\ncost = {cost}\n")).concat();
    let limit = "[[limits]]\nname = \"all\"\nper = \"ip\"\nrate = \"10/800ms\"\nalgorithm = \"sliding_window_log\"\n";
    let gateway = Setup::new(format!("{routes}{limit}")).start();
    let (start, mut seed, mut passed) = (Instant::now(), 20_261_201_u32, Vec::new());
    while start.elapsed() < Duration::from_secs(4) {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (path, cost) = costs[(seed >> 16) as usize % costs.len()];
        let sent = start.elapsed();
        if gateway.get(path).status == 200 {
            passed.push((sent, start.elapsed(), cost));
        }
    }
    assert!(passed.len() > 5);
    for (index, (sent, _, _)) in passed.iter().enumerate() {
        // The gateway's instants are whole milliseconds, which both ends of a span may be cut to.
        let end = *sent + WINDOW - Duration::from_millis(2);
        let surely_within = passed[index..].iter().take_while(|(_, answered, _)| *answered < end);
        let cost: i32 = surely_within.map(|(_, _, cost)| cost).sum();
        assert!(cost <= 10, "{cost} within {WINDOW:?} after {sent:?}");
    }
}

#[test]
fn b78_a_long_idle_counter_is_a_fresh_one() {
    let gateway = Setup::limited(&[r#"rate = "5/500ms""#]).start();
    gateway.statuses(5, "/");
    thread::sleep(Duration::from_millis(2100));
    sleep_until_window_is(Duration::from_millis(500), Duration::from_millis(20));
    let first = gateway.get("/");
    assert_eq!((first.status, first.remaining()), (200, 4));
    let rest = burst(5, 5, |_| gateway.get("/").status);
    assert_eq!((count(&rest, 200), count(&rest, 429)), (4, 1));
}

#[test]
fn b81_steady_legal_traffic_always_sees_a_new_window() {
    let gateway = Setup::limited(&[r#"algorithm = "fixed_window", rate = "5/s""#]).start();
    let times: Vec<Duration> = (0..12).map(|tick| Duration::from_millis(tick * 300)).collect();
    let statuses: Vec<u16> = open_loop(&gateway, "/", &times).into_iter().map(|answer| answer.1).collect();
    assert_eq!(count(&statuses, 200), 12);
}

#[test]
fn b117_entries_outside_the_window_do_not_refuse() {
    let gateway = Setup::ip_limited(&[r#"algorithm = "sliding_window_log", rate = "3/s""#]).trusted().start();
    burst(4, 4, |index| {
        let from = format!("203.0.113.{index}");
        let start = Instant::now();
        for tick in 0..3 {
            sleep_until(start, Duration::from_millis(tick * 100));
            assert_eq!(gateway.get_from(&from, "/").status, 200);
        }
        let last = start.elapsed();
        sleep_until(start, last + Duration::from_millis(1050));
        let later = gateway.get_from(&from, "/");
        assert_eq!((later.status, later.remaining()), (200, 2));
    });
}

#[test]
fn b119_traffic_just_under_the_rate_is_never_refused() {
    let gateway = Setup::limited(&[r#"algorithm = "token_bucket", rate = "50/s", burst = 50"#]).start();
    let times: Vec<Duration> = (0..135).map(|tick| Duration::from_micros(tick * 22_222)).collect();
    let mut client = gateway.connect();
    let start = Instant::now();
    let serial: Vec<u16> = times
        .iter()
        .map(|time| {
            sleep_until(start, *time);
            client.get("/").status
        })
        .collect();
    assert_eq!(count(&serial, 429), 0, "on one connection");
    let parallel: Vec<u16> = open_loop(&gateway, "/", &times).into_iter().map(|answer| answer.1).collect();
    assert_eq!(count(&parallel, 429), 0, "on many connections");
}

#[test]
fn b125_windows_of_every_length_come_round() {
    let windows = [("500ms", 500), ("1s", 1000), ("3s", 3000)];
    let algorithms = &ALL[..4];
    let route = |algorithm: &str, window: &str| {
        let limit = format!("algorithm = \"{algorithm}\", rate = \"2/{window}\"");
        format!("[[routes]]\nmatch = \"/{algorithm}/{window}\"\nlimits = [{{ {limit} }}]\n")
    };
    let pairs: Vec<(&str, &str, u64)> =
        algorithms.iter().flat_map(|name| windows.map(|(text, millis)| (*name, text, millis))).collect();
    let routes = pairs.iter().map(|(name, window, _)| route(name, window)).collect::<String>();
    let gateway = Setup::new(routes).start();
    burst(pairs.len(), pairs.len(), |index| {
        let (algorithm, text, millis) = pairs[index];
        let (path, window) = (format!("/{algorithm}/{text}"), Duration::from_millis(millis));
        sleep_until_window_is(window, Duration::from_millis(20));
        assert_eq!(gateway.statuses(3, &path), [200, 200, 429], "{path}");
        let rest = if algorithm == "sliding_window_counter" { window * 2 } else { window };
        thread::sleep(rest + Duration::from_millis(50));
        assert_eq!(gateway.statuses(2, &path), [200, 200], "{path}, a window later");
    });
}

#[test]
fn b147_only_the_fixed_window_lets_two_quotas_through_at_an_edge() {
    const WINDOW: Duration = Duration::from_secs(2);
    let gateway = one_route_each(&ALL, "20/2s").start();
    for_each(&ALL, |algorithm| {
        let path = format!("/{algorithm}");
        sleep_until_window_is(WINDOW, Duration::from_millis(1600));
        let first = Instant::now();
        let at_once = || burst(20, 20, |_| gateway.get(&path).status);
        let accepted = thread::scope(|scope| {
            let before = scope.spawn(at_once);
            sleep_until_window_is(WINDOW, Duration::from_millis(20));
            let after = at_once();
            count(&before.join().expect("a burst does not panic"), 200) + count(&after, 200)
        });
        let most = match algorithm {
            "fixed_window" => 40,
            "sliding_window_log" => 20,
            "sliding_window_counter" => 24,
            _ => 20 + (first.elapsed().as_millis() / 100) as usize,
        };
        assert!((20..=most).contains(&accepted), "{algorithm}: {accepted}, at most {most}");
    });
}
