//! Many at once: the bound holds exactly.

use crate::support::*;

const AT_ONCE: [&str; 4] = ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket"];

#[test]
fn b31_concurrent_requests_never_pass_the_quota() {
    for algorithm in AT_ONCE {
        let gateway = Setup::ip_limited(&[&format!("algorithm = \"{algorithm}\", rate = \"50/h\"")]).trusted().start();
        for round in 1..=3 {
            let from = format!("203.0.113.{round}");
            let statuses = burst(200, 40, |_| gateway.get_from(&from, "/").status);
            assert_eq!((count(&statuses, 200), count(&statuses, 429)), (50, 150), "{algorithm}, round {round}");
        }
        assert_eq!(gateway.upstream.count(), 150);
    }
}

#[test]
fn b31_a_counter_that_all_callers_share_is_exact_too() {
    let gateway = Setup::limited(&[r#"name = "all", per = "global", rate = "50/h""#, r#"name = "own", rate = "10/h""#])
        .trusted()
        .start();
    let statuses = burst(200, 40, |index| gateway.get_from(&format!("203.0.113.{}", index % 10), "/").status);
    assert_eq!(count(&statuses, 200), 50);
}

#[test]
fn b143_the_first_request_is_counted_once() {
    for algorithm in AT_ONCE {
        let gateway = Setup::limited(&[&format!("algorithm = \"{algorithm}\", rate = \"2/h\"")]).start();
        let answers = [0; 3].map(|_| gateway.get("/"));
        assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429], "{algorithm}");
        assert_eq!(answers.each_ref().map(|answer| answer.remaining()), [1, 0, 0], "{algorithm}");
    }
}
