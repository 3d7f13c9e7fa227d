//! Worked examples of the definition, and faults that comparable systems shipped.

use super::*;
use crate::algorithm::calendar::days_from_civil;

const DAY_MS: i64 = 86_400_000;

fn date(year: i64, month: u32, day: u32) -> i64 {
    days_from_civil(year, month, day) * DAY_MS
}

#[test]
fn names_are_unique_and_found() {
    for algorithm in ALGORITHMS {
        let found = by_name(algorithm.name()).expect("listed");
        assert_eq!(found.name(), algorithm.name());
    }
    assert!(by_name("sliding").is_none());
}

#[test]
fn b16_a_quota_lowered_below_what_is_used_leaves_nothing_and_raised_again_the_difference() {
    for mut counter in each(100, 60_000) {
        assert_eq!(counter.burst(0, 80), 80);
        counter.recount(50);
        assert_eq!(counter.remaining(0), 0, "{}", counter.algorithm.name());
        assert!(!counter.take(0, UNIT));
        counter.recount(90);
        assert!(counter.take(0, UNIT));
        assert_eq!(counter.remaining(0), 9 * UNIT, "{}", counter.algorithm.name());
    }
}

#[test]
fn b22_refused_requests_never_delay_the_caller() {
    for mut counter in each(5, 2000) {
        let passed: Vec<i64> = (0..200).map(|step| step * 100).filter(|now| counter.take(*now, UNIT)).collect();
        let expected = match counter.algorithm.name() {
            "token_bucket" | "leaky_bucket" => 53..=57,
            // Its share is weighed exactly, so of five in a window that hardly ends the fifth finds no room: four each.
            "sliding_window_counter" => 41..=55,
            _ => 45..=55,
        };
        assert!(expected.contains(&passed.len()), "{}: {} passed", counter.algorithm.name(), passed.len());
        let longest = passed.windows(2).map(|pair| pair[1] - pair[0]).max().expect("many passed");
        assert!(longest <= 2200, "{}: nothing passed for {longest} ms", counter.algorithm.name());
    }
}

#[test]
fn b24_twenty_per_second_is_twenty_in_each_second() {
    for (count, window_ms) in [(20, 1000), (1200, 60_000)] {
        let mut counter = Counter::new("token_bucket", count, window_ms).capacity(60);
        assert_eq!(counter.burst(0, 100), 60);
        let passed = (1..=1000).map(|step| step * 10).filter(|now| counter.take(*now, UNIT)).count();
        assert_eq!(passed, 200);
    }
}

#[test]
fn b33_a_costly_request_followed_by_cheap_ones_fills_the_quota_exactly() {
    for mut counter in each(10, 10_000) {
        assert!(counter.take(0, 8 * UNIT));
        assert_eq!(counter.remaining(0), 2 * UNIT);
        assert!(counter.take(0, UNIT) && counter.take(0, UNIT));
        assert!(!counter.take(0, UNIT), "{}", counter.algorithm.name());
        assert!(!counter.take(0, 8 * UNIT));
    }
}

#[test]
fn b72_the_log_waits_for_the_oldest_entry_to_leave() {
    let mut log = Counter::new("sliding_window_log", 2, 10_000);
    assert!(log.take(0, UNIT) && log.take(6000, UNIT));
    assert_eq!(log.wait_ms(7000, UNIT), 3000);
    assert_eq!(log.wait_ms(7000, 2 * UNIT), 9000);
}

#[test]
fn b72_a_half_grown_token_shortens_the_wait() {
    let mut bucket = Counter::new("token_bucket", 1, 4000);
    assert!(bucket.take(0, UNIT));
    assert_eq!(bucket.wait_ms(1500, UNIT), 2500);
}

#[test]
fn b72_the_sliding_counter_waits_for_its_share_and_not_for_the_window() {
    let mut counter = Counter::new("sliding_window_counter", 60, 60_000);
    assert_eq!(counter.burst(0, 60), 60);
    assert_eq!(counter.burst(72_000, 60), 12);
    assert_eq!(counter.wait_ms(72_000, UNIT), 1000);
}

#[test]
fn b74_a_rate_keeps_the_window_it_was_written_with() {
    for (count, window_ms) in [(5, 1000), (6, 60_000), (100, 3_600_000), (1000, DAY_MS)] {
        for mut counter in each(count, window_ms) {
            let burst = usize::try_from(count).expect("small");
            assert_eq!(counter.burst(0, burst + 10), burst, "{} {count}/{window_ms}", counter.algorithm.name());
        }
    }
    let mut day = Counter::new("fixed_window", 24, DAY_MS);
    let passed = (0..3600).filter(|second| day.take(second * 1000, UNIT)).count();
    assert_eq!(passed, 24, "a day's quota is not an hour's");
}

#[test]
fn b78_after_idleness_the_sliding_counter_is_fresh() {
    let mut counter = Counter::new("sliding_window_counter", 5, 1000);
    assert_eq!(counter.burst(0, 5), 5);
    assert!(counter.take(10_000, UNIT));
    assert_eq!(counter.remaining(10_000), 4 * UNIT);
    assert_eq!(counter.burst(10_001, 5), 4);
}

#[test]
fn b81_steady_legal_traffic_sees_every_new_window() {
    let mut counter = Counter::new("fixed_window", 5, 3000);
    assert!((0..30).all(|second| counter.take(second * 1000, UNIT)));
}

#[test]
fn b115_the_wait_at_a_window_edge_is_never_zero_or_past_the_window() {
    for mut counter in each(1, 1000) {
        // One whole quota a window: the sliding counter lets it go only when the previous window has left in full.
        let longest = if counter.algorithm.name() == "sliding_window_counter" { 2 } else { 1 };
        for now in (0..30_000).step_by(5) {
            if !counter.take(now, UNIT) {
                let Wait::After(wait) = counter.wait(now, UNIT) else { panic!("refused without a wait") };
                assert!((1..=longest).contains(&wait.seconds_up()), "{}: {wait:?}", counter.algorithm.name());
            }
            assert!(counter.reset(now) >= 0);
        }
    }
}

#[test]
fn b117_entries_outside_the_window_do_not_reject() {
    let mut log = Counter::new("sliding_window_log", 3, 2000);
    assert!(log.take(0, UNIT) && log.take(100, UNIT) && log.take(200, UNIT));
    assert!(!log.take(1999, UNIT));
    assert!(log.take(2250, UNIT));
    assert_eq!(log.remaining(2250), 2 * UNIT);
}

#[test]
fn b119_steady_traffic_just_under_the_rate_always_passes() {
    let mut counter = Counter::new("token_bucket", 50, 1000);
    assert!((0..900).all(|request| counter.take(request * 1000 / 45, UNIT)));
    let mut faster = Counter::new("token_bucket", 50, 1000);
    let passed = (0..1100).filter(|request| faster.take(request * 1000 / 55, UNIT)).count();
    assert!((1000..=1055).contains(&passed), "{passed} passed");
}

#[test]
fn b125_windows_of_any_length_turn_over() {
    for window_ms in [500, 1000, 3000, 65_000, 3_600_000] {
        for mut counter in each(2, window_ms) {
            let start = 1_700_000_000_123;
            // What a sliding counter took in one window counts on through the whole of the next.
            let windows = if counter.algorithm.name() == "sliding_window_counter" { 2 } else { 1 };
            for round in 0..3 {
                let now = start + round * (windows * window_ms + 50);
                assert_eq!(counter.burst(now, 3), 2, "{} {window_ms} ms, round {round}", counter.algorithm.name());
            }
        }
    }
}

#[test]
fn b136_a_token_is_whole_after_exactly_the_wait() {
    for (count, window_ms) in [(3, 1000), (7, 1000), (1, 3000)] {
        let mut counter = Counter::new("token_bucket", count, window_ms).capacity(1);
        let mut now = 0;
        for _ in 0..200 {
            assert!(counter.take(now, UNIT));
            let wait = counter.wait_ms(now, UNIT);
            assert!(!counter.fits(now + wait - 1, UNIT));
            now += wait;
        }
        // No time is lost to rounding either: 200 tokens take as long as 200 tokens.
        assert!(now <= 200 * window_ms / count + 200, "{now} ms");
    }
}

#[test]
fn b140_after_a_lowered_quota_enough_of_the_oldest_entries_have_to_leave() {
    let mut log = Counter::new("sliding_window_log", 10, 10_000);
    assert!((0..8).all(|second| log.take(second * 1000, UNIT)));
    log.recount(5);
    assert_eq!(log.remaining(7200), 0);
    assert_eq!(log.wait_ms(7200, UNIT), 5800);
    assert_eq!(Millis(5800).seconds_up(), 6);
    assert!(!log.fits(12_999, UNIT) && log.fits(13_000, UNIT));
}

#[test]
fn b147_only_the_fixed_window_lets_two_quotas_through_at_an_edge() {
    let expected = [
        ("fixed_window", 40..=40),
        ("sliding_window_log", 20..=20),
        ("sliding_window_counter", 20..=22),
        ("token_bucket", 20..=22),
        ("leaky_bucket", 20..=22),
    ];
    for (name, range) in expected {
        let mut counter = Counter::new(name, 20, 2000);
        let passed = counter.burst(1900, 20) + counter.burst(2020, 20);
        assert!(range.contains(&passed), "{name}: {passed} passed");
    }
}

#[test]
fn a_leaky_bucket_lets_one_go_each_half_second_and_refuses_the_rest() {
    let mut counter = Counter::new("leaky_bucket", 2, 1000).capacity(10);
    let delays: Vec<i64> = (0..50)
        .filter_map(|_| {
            let delay = counter.delay(0);
            counter.take(0, UNIT).then_some(delay)
        })
        .collect();
    assert_eq!(delays, [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500]);
    assert_eq!(counter.wait_ms(0, UNIT), 500);
    assert_eq!(counter.reset(0), 5000);
}

#[test]
fn a_leaky_bucket_refuses_what_it_would_hold_longer_than_max_wait() {
    let mut counter = Counter::new("leaky_bucket", 2, 1000).capacity(10);
    counter.quota.max_wait = Some(Millis(1000));
    assert_eq!(counter.burst(0, 50), 3, "those held for 0, 500 and 1000 ms");
    assert_eq!(counter.remaining(0), 0);
    assert_eq!(counter.wait_ms(0, UNIT), 500);
    assert!(!counter.fits(499, UNIT) && counter.fits(500, UNIT));
    assert_eq!(counter.delay(500), 1000);
}

#[test]
fn a_request_that_another_limit_holds_longer_moves_the_next_turn() {
    let mut counter = Counter::new("leaky_bucket", 2, 1000).capacity(100);
    counter.algorithm.charge(&counter.quota, &mut counter.state, Timestamp(0), UNIT, Millis(3000));
    assert_eq!(counter.delay(0), 3500);
    assert_eq!(counter.delay(1000), 2500);
}

#[test]
fn a_leaky_place_is_given_back_wherever_in_the_queue_it_was() {
    let mut counter = Counter::new("leaky_bucket", 1, 1000);
    counter.quota.capacity = 10 * UNIT;
    assert!(counter.take(0, UNIT) && counter.take(100, UNIT));
    counter.refund(200, 0, UNIT);
    assert_eq!(counter.delay(200), 800, "the second has moved up");
    counter.refund(200, 100, UNIT);
    assert_eq!(counter.delay(200), 0);
}

#[test]
fn a_month_is_the_calendars_month_for_aligned_windows() {
    let march = date(2026, 3, 1);
    for (name, freed) in [("fixed_window", date(2026, 4, 1)), ("sliding_window_log", march + 30 * DAY_MS)] {
        let algorithm = by_name(name).expect("listed");
        let mut counter = Counter::of(algorithm, quota(5 * UNIT, Window::Month));
        assert_eq!(counter.burst(march, 9), 5);
        assert_eq!(counter.wait_ms(march, UNIT), freed - march, "{name}");
    }
}

#[test]
fn a_sliding_month_weighs_by_the_previous_months_own_length() {
    let counter = |first: i64| {
        let algorithm = by_name("sliding_window_counter").expect("listed");
        let mut counter = Counter::of(algorithm, quota(28 * UNIT, Window::Month));
        assert_eq!(counter.burst(first, 40), 28);
        counter
    };
    let march = date(2026, 3, 1);
    let february = counter(date(2026, 2, 10));
    assert_eq!(february.remaining(march), 0);
    assert_eq!(february.remaining(march + DAY_MS), UNIT, "one of February's 28 days has left");
    assert_eq!(february.remaining(march + 28 * DAY_MS), 28 * UNIT);
    assert_eq!(february.remaining(march + 30 * DAY_MS), 28 * UNIT, "a share is never negative");
    // January is longer than February: what is left of it then leaves with February's end.
    let january = counter(date(2026, 1, 31));
    let whole = january.wait_ms(date(2026, 1, 31), 28 * UNIT);
    assert_eq!(date(2026, 1, 31) + whole, march);
}

#[test]
fn thousandths_of_a_request_are_counted() {
    for mut counter in each(1, 1000) {
        assert!(counter.take(0, 999));
        assert_eq!(counter.remaining(0), 1);
        assert!(!counter.take(0, 2));
        assert!(counter.take(0, 1), "{}", counter.algorithm.name());
        assert_eq!(counter.remaining(0), 0);
    }
}

#[test]
fn quotas_a_limit_cannot_have_are_refused_with_a_reason() {
    for algorithm in ALGORITHMS {
        let good = quota(10 * UNIT, Window::Span(Millis(1000)));
        assert_eq!(algorithm.check(&good), Ok(()));
        let bad = [
            quota(UNIT - 1, good.window),
            quota((MAX_COUNT + 1) * UNIT, good.window),
            quota(UNIT, Window::Span(Millis(0))),
            quota(UNIT, Window::Span(Millis(MAX_WINDOW.0 + 1))),
            Quota { capacity: 0, ..good },
        ];
        for quota in bad {
            assert!(algorithm.check(&quota).is_err(), "{} takes {quota:?}", algorithm.name());
        }
        let held = Quota { max_wait: Some(Millis(1)), ..good };
        assert_eq!(algorithm.check(&held).is_ok(), algorithm.name() == "leaky_bucket");
    }
    let long = quota((MAX_LOG_COUNT + 1) * UNIT, Window::Month);
    assert!(SlidingLog.check(&long).is_err_and(|reason| reason.contains("sliding_window_counter")));
}

#[test]
fn the_reset_is_when_the_window_the_oldest_entry_or_the_level_ends() {
    let expected = [
        ("fixed_window", 50_000),
        ("sliding_window_counter", 50_000),
        ("sliding_window_log", 60_000),
        ("token_bucket", 6000),
        ("leaky_bucket", 6000),
    ];
    for (name, reset) in expected {
        let mut counter = Counter::new(name, 10, 60_000);
        assert!(counter.take(10_000, UNIT));
        assert_eq!(counter.reset(10_000), reset, "{name}");
    }
}

#[test]
fn a_refund_comes_back_to_the_window_of_its_charge_alone() {
    let mut fixed = Counter::new("fixed_window", 10, 1000);
    assert!(fixed.take(0, 4 * UNIT) && fixed.take(1000, 4 * UNIT));
    fixed.refund(1500, 0, 4 * UNIT);
    assert_eq!(fixed.remaining(1500), 6 * UNIT);
    fixed.refund(1500, 1000, 3 * UNIT);
    assert_eq!(fixed.remaining(1500), 9 * UNIT);

    let mut sliding = Counter::new("sliding_window_counter", 10, 1000);
    assert!(sliding.take(0, 4 * UNIT) && sliding.take(1000, 4 * UNIT));
    sliding.refund(1500, 0, 4 * UNIT);
    assert_eq!(sliding.remaining(1500), 6 * UNIT, "none of the previous window's share");
    sliding.refund(2500, 0, 4 * UNIT);
    assert_eq!(sliding.remaining(2500), 8 * UNIT, "half of the 4 units charged at 1000");

    let mut log = Counter::new("sliding_window_log", 10, 1000);
    assert!(log.take(0, 4 * UNIT) && log.take(500, 4 * UNIT));
    log.refund(600, 0, 3 * UNIT);
    assert_eq!(log.remaining(600), 5 * UNIT);
    log.refund(600, 0, 4 * UNIT);
    assert_eq!(log.remaining(600), 6 * UNIT, "never more than was charged then");
    log.refund(1200, 0, 4 * UNIT);
    assert_eq!(log.remaining(1200), 6 * UNIT);
}

#[test]
fn a_refund_to_a_bucket_never_grants_what_has_refilled_already() {
    let mut bucket = Counter::new("token_bucket", 60, 60_000).capacity(10);
    assert!(bucket.take(0, 5 * UNIT));
    assert!(bucket.take(5000, 10 * UNIT), "the first five are back");
    bucket.refund(5000, 0, 5 * UNIT);
    assert_eq!(bucket.remaining(5000), 0);

    let mut bucket = Counter::new("token_bucket", 60, 60_000).capacity(10);
    assert!(bucket.take(0, 5 * UNIT) && bucket.take(2000, UNIT));
    bucket.refund(2500, 0, 5 * UNIT);
    assert_eq!(bucket.remaining(2500), 9500, "two of the five had drained");
}

#[test]
fn a_debt_is_worked_off_and_at_most_one_quota_deep() {
    for mut counter in each(10, 10_000) {
        assert!(counter.take(0, UNIT));
        counter.debit(0, 0, 1_000_000 * UNIT);
        assert_eq!(counter.remaining(0), 0);
        let name = counter.algorithm.name();
        let longest = if name == "sliding_window_counter" || name.ends_with("bucket") { 20_000 } else { 10_000 };
        assert!((1..=longest).contains(&counter.wait_ms(0, UNIT)), "{name}: {}", counter.wait_ms(0, UNIT));
        assert!(counter.fresh_at(0) <= 20_000, "{name}");
    }
}

#[test]
fn a_debt_never_reaches_a_later_window_than_its_request() {
    let mut fixed = Counter::new("fixed_window", 10, 1000);
    assert!(fixed.take(0, UNIT));
    fixed.debit(1200, 0, 9 * UNIT);
    assert_eq!(fixed.remaining(1200), 10 * UNIT);

    let mut sliding = Counter::new("sliding_window_counter", 10, 1000);
    assert!(sliding.take(0, UNIT));
    sliding.debit(1500, 0, 9 * UNIT);
    assert_eq!(sliding.remaining(1500), 5 * UNIT, "half of the previous window is still inside");
    sliding.debit(3000, 0, 9 * UNIT);
    assert_eq!(sliding.remaining(3000), 10 * UNIT);

    let mut log = Counter::new("sliding_window_log", 10, 1000);
    assert!(log.take(0, UNIT) && log.take(300, UNIT));
    log.debit(500, 0, 2 * UNIT);
    log.debit(500, 200, 3 * UNIT);
    assert_eq!(log.remaining(500), 3 * UNIT);
    assert_eq!(log.remaining(1000), 6 * UNIT, "the debt leaves with its request");
    assert_eq!(log.remaining(1200), 9 * UNIT);
    log.debit(1600, 500, 9 * UNIT);
    assert_eq!(log.remaining(1600), 10 * UNIT);

    let mut bucket = Counter::new("token_bucket", 10, 1000);
    assert!(bucket.take(0, UNIT));
    bucket.debit(1200, 0, 9 * UNIT);
    assert_eq!(bucket.remaining(1200), 10 * UNIT, "it has refilled since");
}

#[test]
fn a_log_with_more_entries_than_it_may_keep_joins_the_newest() {
    let mut log = Counter::new("sliding_window_log", 1000, 10 * DAY_MS);
    for now in 0..200_000 {
        assert!(log.take(now, 5));
    }
    let State::Log(entries) = &log.state else { panic!("a log") };
    assert_eq!(entries.len(), 100_000);
    assert_eq!(log.remaining(200_000), 0);
    let (newest, joined) = entries.entries().last().expect("many entries");
    assert_eq!((newest.0, joined), (199_999, 5 * 100_001));
}

#[test]
fn a_log_gives_its_memory_back() {
    let mut log = Counter::new("sliding_window_log", 100_000, 1_000_000);
    for now in 0..100_000 {
        assert!(log.take(now, UNIT));
    }
    assert!(log.take(2_000_000, UNIT));
    let State::Log(entries) = &log.state else { panic!("a log") };
    assert_eq!(entries.len(), 1);
    assert!(entries.room() <= 64, "room for {} entries", entries.room());
}
