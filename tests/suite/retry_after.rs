//! The honest wait: who waits as told passes.

use crate::support::client::render;
use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

fn one_route_each(limits: &[(&str, &str)]) -> Setup {
    let route = |(path, limit): &(&str, &str)| {
        format!("[[routes]]\nmatch = \"/{path}\"\nlimits = [{{ name = \"{path}\", {limit} }}]\n")
    };
    Setup::new(limits.iter().map(route).collect::<String>())
}

/// Asks until refused.
fn exhaust(gateway: &Gateway, path: &str) -> Response {
    (0..100).map(|_| gateway.get(path)).find(|answer| answer.status == 429).expect("the limit is below 100")
}

#[test]
fn b17_who_obeys_retry_after_is_never_refused_again() {
    let limits = [
        ("fixed", r#"algorithm = "fixed_window", rate = "3/1500ms""#, 2),
        ("log", r#"algorithm = "sliding_window_log", rate = "3/1500ms""#, 2),
        ("counter", r#"algorithm = "sliding_window_counter", rate = "3/1500ms""#, 2),
        ("bucket", r#"algorithm = "token_bucket", rate = "1200/1001s", burst = 3"#, 1),
    ];
    let gateway = one_route_each(&limits.map(|(path, limit, _)| (path, limit))).start();
    burst(limits.len(), limits.len(), |index| {
        let (name, _, most) = limits[index];
        for turn in 0..3 {
            let refused = exhaust(&gateway, &format!("/{name}"));
            assert!((1..=most).contains(&refused.retry_after()), "{name}: {}", refused.retry_after());
            thread::sleep(Duration::from_secs(refused.retry_after().unsigned_abs()));
            assert_eq!(gateway.get(&format!("/{name}")).status, 200, "{name}, turn {turn}");
        }
    });
}

#[test]
fn b17_a_full_leaky_bucket_tells_when_a_place_is_free() {
    let gateway = Setup::limited(&[r#"algorithm = "leaky_bucket", rate = "2/s", queue = 3"#]).start();
    let mut inside: Vec<Client> = (0..3).map(|_| gateway.connect()).collect();
    for client in &mut inside {
        client.send(render("GET", "/", &[], b""));
    }
    wait_until("the first has left", || gateway.upstream.count() >= 1);
    let refused = (0..100).map(|_| gateway.get("/")).find(|answer| answer.status == 429);
    let refused = refused.expect("three are inside");
    assert_eq!(refused.retry_after(), 1);
    thread::sleep(refused.advised_wait() + Duration::from_millis(2));
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn b72_the_log_counts_the_wait_from_its_oldest_entry() {
    let gateway = Setup::limited(&[r#"algorithm = "sliding_window_log", rate = "2/2500ms""#]).start();
    let start = Instant::now();
    assert_eq!(gateway.get("/").status, 200);
    let charged = start.elapsed();
    sleep_until(start, Duration::from_millis(1500));
    assert_eq!(gateway.get("/").status, 200);
    sleep_until(start, Duration::from_millis(1750));
    let asked = start.elapsed();
    let wait = gateway.get("/").advised_wait();
    let slack = charged + (start.elapsed() - asked) + Duration::from_millis(5);
    let expected = Duration::from_millis(2500).saturating_sub(asked);
    assert!(wait <= expected + slack && wait + slack >= expected, "{wait:?} for {expected:?} ± {slack:?}");
}

#[test]
fn b72_a_half_grown_token_shortens_the_wait() {
    let gateway = Setup::limited(&[r#"algorithm = "token_bucket", rate = "1/2s", burst = 1"#]).start();
    let start = Instant::now();
    assert_eq!(gateway.get("/").status, 200);
    sleep_until(start, Duration::from_millis(1200));
    let asked = Instant::now();
    let refused = gateway.get("/");
    assert_eq!(refused.retry_after(), 1);
    assert!(refused.advised_wait() <= Duration::from_millis(950) + asked.elapsed(), "{:?}", refused.advised_wait());
}

#[test]
fn b72_the_counter_waits_for_the_next_free_place_not_for_the_next_window() {
    const WINDOW: Duration = Duration::from_secs(3);
    let gateway = Setup::limited(&[r#"rate = "60/3s""#]).start();
    sleep_until_window_is(WINDOW, Duration::from_millis(1000));
    assert_eq!(count(&gateway.statuses(60, "/"), 200), 60);
    sleep_until_window_is(WINDOW, Duration::from_millis(600));
    let refused = exhaust(&gateway, "/");
    assert_eq!(refused.retry_after(), 1);
    assert!(refused.advised_wait() <= Duration::from_millis(60), "{:?}", refused.advised_wait());
}

#[test]
fn b115_near_an_edge_the_wait_is_one_second_and_never_less() {
    let limits = [
        ("fixed", r#"algorithm = "fixed_window", rate = "1/s""#),
        ("log", r#"algorithm = "sliding_window_log", rate = "1/s""#),
        ("bucket", r#"algorithm = "token_bucket", rate = "1/s""#),
    ];
    let gateway = one_route_each(&limits).start();
    burst(limits.len(), limits.len(), |index| {
        let (start, mut client) = (Instant::now(), gateway.connect());
        while start.elapsed() < Duration::from_millis(2500) {
            let answer = client.get(&format!("/{}", limits[index].0));
            assert!(answer.reset_in() >= 0, "{answer:?}");
            if answer.status == 429 {
                assert_eq!(answer.retry_after(), 1, "{answer:?}");
                assert!((1..=1000).contains(&answer.number("retry-after-ms")), "{answer:?}");
            }
            thread::sleep(Duration::from_millis(3));
        }
    });
}

#[test]
fn b140_after_a_limit_was_lowered_the_wait_is_until_enough_entries_have_left() {
    let limit = |rate: &str| {
        format!(
            "[[routes]]\nmatch = \"*\"\nlimits = [{{ name = \"l\", algorithm = \"sliding_window_log\", rate = \"{rate}\" }}]\n"
        )
    };
    let mut gateway = Setup::new(limit("10/3s")).start();
    let (start, mut charged) = (Instant::now(), Vec::new());
    for tick in 0..8 {
        sleep_until(start, Duration::from_millis(tick * 250));
        let before = start.elapsed();
        assert_eq!(gateway.get("/").status, 200);
        charged.push((before, start.elapsed()));
    }
    assert_eq!(gateway.reload(|setup| setup.toml = limit("5/3s")), Reload::Success);
    let asked = start.elapsed();
    let refused = gateway.get("/");
    let answered = start.elapsed();
    assert_eq!((refused.status, refused.remaining()), (429, 0));
    let window = Duration::from_secs(3);
    let (earliest, latest) =
        ((charged[3].0 + window).saturating_sub(answered), (charged[3].1 + window).saturating_sub(asked));
    let (wait, tick) = (refused.advised_wait(), Duration::from_millis(2));
    assert!(wait + tick >= earliest && wait <= latest + tick, "{wait:?}, expected {earliest:?} to {latest:?}");
    thread::sleep(wait + tick);
    assert_eq!(gateway.get("/").status, 200);
}

#[test]
fn the_precise_wait_stands_only_below_ten_seconds() {
    let gateway = one_route_each(&[
        ("short", r#"rate = "1/5s", algorithm = "token_bucket""#),
        ("long", r#"rate = "1/h", algorithm = "token_bucket""#),
    ])
    .start();
    let refused = |path: &str| exhaust(&gateway, path);
    let short = refused("/short");
    assert!((1..=5000).contains(&short.number("retry-after-ms")));
    assert_eq!((short.number("retry-after-ms") + 999) / 1000, short.retry_after());
    assert!(!refused("/long").has("retry-after-ms"));
}
