//! Numbers at their edges: no wrap, no negative value, no lost fraction.

use crate::support::*;
use std::time::{Duration, Instant};

const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

fn one_route_each(rate: &str) -> String {
    let route = |algorithm: &str| {
        let limit =
            format!("name = \"{}\", algorithm = \"{algorithm}\", rate = \"{rate}\"", algorithm.replace('_', "-"));
        format!("[[routes]]\nmatch = \"/{algorithm}\"\nlimits = [{{ {limit} }}]\n")
    };
    AT_ONCE.map(route).concat()
}

#[test]
fn b16_a_limit_lowered_below_its_use_refuses_with_nothing_left() {
    let mut gateway = Setup::new(one_route_each("100/h")).start();
    for algorithm in AT_ONCE {
        assert_eq!(count(&gateway.statuses(80, &format!("/{algorithm}")), 200), 80);
    }
    assert_eq!(gateway.reload(|setup| setup.toml = one_route_each("50/h")), Reload::Success);
    for algorithm in AT_ONCE {
        let answer = gateway.get(&format!("/{algorithm}"));
        assert_eq!((answer.status, answer.limit(), answer.remaining()), (429, 50, 0), "{algorithm}");
        assert!(answer.retry_after() <= 7200, "{algorithm}: {}", answer.retry_after());
    }
    assert_eq!(gateway.reload(|setup| setup.toml = one_route_each("90/h")), Reload::Success);
    for algorithm in AT_ONCE {
        let answer = gateway.get(&format!("/{algorithm}"));
        assert_eq!((answer.status, answer.remaining()), (200, 9), "{algorithm}");
    }
}

#[test]
fn b69_fractions_of_a_token_are_neither_lost_nor_shown() {
    let gateway = Setup::limited(&[r#"algorithm = "token_bucket", rate = "10/s", burst = 1"#]).start();
    let (start, mut client, mut accepted) = (Instant::now(), gateway.connect(), 0.0);
    while start.elapsed() < Duration::from_millis(700) {
        let answer = client.get("/");
        accepted += f64::from(answer.status == 200);
        assert!(answer.remaining() >= 0);
        if answer.status == 429 {
            assert!(answer.retry_after() >= 1 && answer.advised_wait() > Duration::ZERO, "{answer:?}");
        }
    }
    let most = 1.0 + 10.0 * start.elapsed().as_secs_f64();
    assert!((4.0..=most + 1.0).contains(&accepted), "{accepted}, at most {most}");
}

#[test]
fn b136_waiting_exactly_as_told_is_enough() {
    let rates = [("a", "3/s"), ("b", "7/s"), ("c", "1/300ms"), ("d", "9/1001ms")];
    let route = |(path, rate): (&str, &str)| {
        let limit = format!("name = \"{path}\", algorithm = \"token_bucket\", rate = \"{rate}\", burst = 1");
        format!("[[routes]]\nmatch = \"/{path}\"\nlimits = [{{ {limit} }}]\n")
    };
    let gateway = Setup::new(rates.map(route).concat()).start();
    burst(rates.len(), rates.len(), |index| {
        let (path, rate) = rates[index];
        let mut client = gateway.connect();
        client.get(&format!("/{path}"));
        for turn in 0..8 {
            let refused = client.get(&format!("/{path}"));
            assert_eq!(refused.status, 429, "{rate}, turn {turn}");
            std::thread::sleep(refused.advised_wait() + Duration::from_millis(2));
            assert_eq!(client.get(&format!("/{path}")).status, 200, "{rate}, turn {turn}");
        }
    });
}

#[test]
fn the_largest_counts_and_longest_windows_work() {
    for rate in ["1000000000000/year", "1000000000000/1ms", "1/year", "1000000000000/month"] {
        for algorithm in ["fixed_window", "sliding_window_counter", "token_bucket"] {
            let gateway = Setup::limited(&[&format!("algorithm = \"{algorithm}\", rate = \"{rate}\"")]).start();
            let answer = gateway.get("/");
            assert_eq!(answer.status, 200, "{algorithm} {rate}");
            assert!(answer.remaining() <= answer.limit(), "{algorithm} {rate}");
        }
    }
}
