//! Tests of `limit_text`.

use super::*;
use crate::algorithm::{ALGORITHMS, by_name};
use sfv::{List, Parser};

fn text(algorithm: &str, count: i64, window: Window, capacity: i64) -> LimitText {
    let quota = Quota { count: count * UNIT, window, capacity: capacity * UNIT, max_wait: None };
    LimitText::new("minute", &quota, by_name(algorithm).expect("a known algorithm"))
}

fn span(ms: i64) -> Window {
    Window::Span(Millis(ms))
}

#[test]
fn each_dialect_has_its_item() {
    let vectors = [
        ("fixed_window", 100, span(60_000), 100, "100;w=60", r#""minute";q=100;w=60"#),
        ("sliding_window_counter", 1000, span(86_400_000), 1000, "1000;w=86400", r#""minute";q=1000;w=86400"#),
        ("sliding_window_log", 5, span(100), 5, "5", r#""minute";q=5"#),
        ("fixed_window", 9, span(1500), 9, "9", r#""minute";q=9"#),
        ("fixed_window", 9, Window::Month, 9, "9", r#""minute";q=9"#),
        ("fixed_window", 9, Window::Year, 9, "9", r#""minute";q=9"#),
        ("token_bucket", 600, span(60_000), 100, "600;w=60;burst=100", r#""minute";q=100;w=10"#),
        ("token_bucket", 60, span(60_000), 60, "60;w=60;burst=60", r#""minute";q=60;w=60"#),
        ("token_bucket", 60, span(60_000), 200, "60;w=60;burst=200", r#""minute";q=200;w=200"#),
        ("token_bucket", 3, span(2500), 3, "3;burst=3", r#""minute";q=3"#),
        ("token_bucket", 7, span(60_000), 3, "7;w=60;burst=3", r#""minute";q=3"#),
        ("leaky_bucket", 2, span(1000), 10, "2;w=1;burst=10", r#""minute";q=10;w=5"#),
    ];
    for (algorithm, count, window, capacity, classic, ietf) in vectors {
        let text = text(algorithm, count, window, capacity);
        assert_eq!(&*text.classic_item, classic, "{algorithm} {count} {window:?}");
        assert_eq!(&*text.ietf_item, ietf, "{algorithm} {count} {window:?}");
        assert_eq!(&*text.ietf_name, r#""minute""#);
        assert!(Parser::new(&*text.ietf_item).parse::<List>().is_ok());
        assert!(Parser::new(&*text.classic_item).parse::<List>().is_ok());
    }
}

#[test]
fn the_rate_is_told_in_words() {
    let vectors = [
        (100, span(60_000), "100 requests per minute", "60s"),
        (1, span(1000), "1 request per second", "1s"),
        (100, span(10_000), "100 requests per 10 seconds", "10s"),
        (900, span(900_000), "900 requests per 15 minutes", "900s"),
        (1, span(2000), "1 request per 2 seconds", "2s"),
        (5, span(500), "5 requests per 500 milliseconds", "0.5s"),
        (5, span(1), "5 requests per millisecond", "0.001s"),
        (5, span(1500), "5 requests per 1500 milliseconds", "1.5s"),
        (90, span(90_000), "90 requests per 90 seconds", "90s"),
        (5000, span(3_600_000), "5000 requests per hour", "3600s"),
        (1000, span(86_400_000), "1000 requests per day", "86400s"),
        (1000, span(7 * 86_400_000), "1000 requests per 7 days", "604800s"),
        (2, Window::Month, "2 requests per month", "month"),
        (2, Window::Year, "2 requests per year", "year"),
    ];
    for (count, window, rate, window_text) in vectors {
        let text = text("fixed_window", count, window, count);
        assert_eq!(&*text.rate, rate);
        assert_eq!(&*text.window, window_text);
    }
}

#[test]
fn thousandths_have_no_noise() {
    let vectors = [
        (0, "0"),
        (1, "0.001"),
        (10, "0.01"),
        (100, "0.1"),
        (1000, "1"),
        (1500, "1.5"),
        (2125, "2.125"),
        (-500, "-0.5"),
        (i64::MIN, "-9223372036854775.808"),
    ];
    for (value, text) in vectors {
        assert_eq!(thousandths(value), text);
    }
}

#[test]
fn the_largest_quotas_stay_within_fifteen_digits() {
    for algorithm in ALGORITHMS {
        let quota = Quota { count: 1, window: span(i64::MAX / 1000 * 1000), capacity: i64::MAX, max_wait: None };
        let text = LimitText::new("minute", &quota, *algorithm);
        assert!(Parser::new(&*text.ietf_item).parse::<List>().is_ok(), "{}", text.ietf_item);
        assert!(Parser::new(&*text.classic_item).parse::<List>().is_ok(), "{}", text.classic_item);
    }
}
