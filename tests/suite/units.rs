//! A rate means what it says.

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn b24_every_way_of_writing_a_rate_refills_alike() {
    let ways = [("a", "20/s"), ("b", "1200/min"), ("c", "20/1s"), ("d", "10/500ms"), ("e", "72000/h")];
    let route = |(path, rate): (&str, &str)| {
        let limit = format!("name = \"{path}\", algorithm = \"token_bucket\", rate = \"{rate}\", burst = 60");
        format!("[[routes]]\nmatch = \"/{path}\"\nlimits = [{{ {limit} }}]\n")
    };
    let gateway = Setup::new(ways.map(route).concat()).start();
    burst(ways.len(), ways.len(), |index| {
        let (path, rate) = ways[index];
        let (mut client, start, mut accepted) = (gateway.connect(), Instant::now(), 0.0);
        let mut longest_gap = Duration::ZERO;
        while start.elapsed() < Duration::from_secs(3) {
            let asked = Instant::now();
            accepted += f64::from(client.get(&format!("/{path}")).status == 200);
            thread::sleep(Duration::from_millis(5));
            longest_gap = longest_gap.max(asked.elapsed());
        }
        let fair = 60.0 + 20.0 * start.elapsed().as_secs_f64();
        assert!(accepted <= fair + 1.0, "{rate}: {accepted} of {fair}");
        assert!(accepted >= fair - 10.0, "{rate}: {accepted} of {fair}; longest gap {longest_gap:?}");
    });
}

#[test]
fn b74_a_window_admits_its_whole_quota_at_once_and_no_more() {
    for algorithm in ["fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket"] {
        let limit = format!("algorithm = \"{algorithm}\", rate = \"6/h\"");
        let gateway = Setup::limited(&[&limit]).start();
        let statuses = burst(6, 6, |_| gateway.get("/").status);
        assert_eq!(count(&statuses, 200), 6, "{algorithm}");
        assert_eq!(gateway.get("/").status, 429, "{algorithm}");
    }
}

#[test]
fn b74_a_short_window_is_not_a_longer_one_with_a_larger_burst() {
    for algorithm in ["fixed_window", "sliding_window_counter"] {
        let gateway = Setup::limited(&[&format!("algorithm = \"{algorithm}\", rate = \"5/s\"")]).start();
        sleep_until_window_is(Duration::from_secs(1), Duration::from_millis(100));
        let statuses = burst(10, 10, |_| gateway.get("/").status);
        assert_eq!(count(&statuses, 200), 5, "{algorithm}");
    }
}

#[test]
fn b74_long_windows_grant_nothing_early() {
    for (rate, window) in [("24/day", 86_400), ("24/h", 3_600), ("24/month", 31 * 86_400), ("24/year", 366 * 86_400)] {
        let gateway = Setup::limited(&[&format!("algorithm = \"fixed_window\", rate = \"{rate}\"")]).start();
        let statuses = gateway.statuses(30, "/");
        assert_eq!((count(&statuses, 200), count(&statuses, 429)), (24, 6), "{rate}");
        let wait = gateway.get("/").retry_after();
        assert!((1..=window).contains(&wait), "{rate}: {wait}");
    }
}
