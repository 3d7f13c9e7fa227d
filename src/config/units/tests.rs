//! Tests of `units`.

use super::*;

fn refused<T: std::fmt::Debug>(result: Result<T, Complaint>, text: &str, message: &str, hint: &str) {
    let complaint = result.expect_err(text);
    assert!(complaint.message.contains(message), "{text}: {}", complaint.message);
    let given = complaint.hint.clone().unwrap_or_default();
    assert!(given.contains(hint) && (hint.is_empty() == given.is_empty()), "{text}: hint {given:?}");
}

#[test]
fn spans_are_whole_numbers_with_a_unit() {
    let vectors =
        [("0s", 0), ("500ms", 500), ("10s", 10_000), ("15min", 900_000), ("1h", 3_600_000), ("7day", 604_800_000)];
    for (text, millis) in vectors {
        assert_eq!(span(text), Ok(Millis(millis)), "{text}");
    }
}

#[test]
fn a_span_that_is_not_one_says_what_was_meant() {
    let vectors = [
        ("30", "not \"30\"", "\"30s\""),
        ("", "expected a span", ""),
        ("s", "expected a span", ""),
        ("-5s", "not \"-5s\"", "never negative"),
        ("1.5s", "not \"1.5s\"", "1500ms"),
        ("5m", "not \"5m\"", "\"5min\""),
        ("5 s", "not \"5 s\"", ""),
        ("2Hours", "not", "\"2h\""),
        ("1month", "not", "windows of a rate"),
        ("1h30min", "not", ""),
        ("9223372036854775807day", "too long", ""),
        ("99999999999999999999s", "too long", ""),
        ("١s", "expected a span", ""),
    ];
    for (text, message, hint) in vectors {
        refused(span(text), text, message, hint);
    }
}

#[test]
fn sizes_are_exact_bytes() {
    let vectors = [
        ("0", 0),
        ("0B", 0),
        ("1024", 1024),
        ("1KB", 1000),
        ("32KiB", 32_768),
        ("10MiB", 10_485_760),
        ("2GB", 2_000_000_000),
        ("1GiB", 1_073_741_824),
    ];
    for (text, bytes) in vectors {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    refused(size("10mb"), "10mb", "expected a size", "\"10MB\"");
    refused(size("ten"), "ten", "not \"ten\"", "");
    refused(size("-1KiB"), "-1KiB", "expected a size", "");
    refused(size("1.5KiB"), "1.5KiB", "expected a size", "");
    refused(size("99999999999GiB"), "99999999999GiB", "too large", "");
}

#[test]
fn rates_keep_their_window_as_written() {
    let span = |millis| Window::Span(Millis(millis));
    let vectors = [
        ("100/s", 100, span(1000), "s"),
        ("100/min", 100, span(60_000), "min"),
        ("5000/h", 5000, span(3_600_000), "h"),
        ("1000/day", 1000, span(DAY_MS), "day"),
        ("9/month", 9, Window::Month, "month"),
        ("1000000000000/year", MAX_COUNT, Window::Year, "year"),
        ("100/10s", 100, span(10_000), "10s"),
        ("900/15min", 900, span(900_000), "15min"),
        ("5/500ms", 5, span(500), "500ms"),
        ("1/2s", 1, span(2000), "2s"),
        ("3/7day", 3, span(7 * DAY_MS), "7day"),
        ("1/3650day", 1, Window::Span(MAX_WINDOW), "3650day"),
    ];
    for (text, count, window, window_text) in vectors {
        let rate = rate(text).expect(text);
        assert_eq!((rate.count, rate.window, rate.window_text.as_str()), (count, window, window_text), "{text}");
    }
}

#[test]
fn b49_a_count_of_nothing_is_refused_and_says_deny() {
    for text in ["0/min", "00/s", "0/month"] {
        refused(rate(text), text, "grants nothing", "deny");
    }
}

#[test]
fn a_rate_that_is_not_one_says_what_was_meant() {
    let vectors = [
        ("100", "\"<count>/<window>\"", "`s`, `min`"),
        ("", "\"<count>/<window>\"", "`s`, `min`"),
        ("/min", "not a whole number", "digits only"),
        ("0.5/s", "not a whole number", "\"1/2s\""),
        ("1.5/s", "not a whole number", "\"3/2s\""),
        ("0.25/10min", "not a whole number", "\"1/40min\""),
        ("2.0/s", "not a whole number", "\"2/1s\""),
        ("0.0/s", "not a whole number", "\"1/2s\""),
        ("0.5/month", "not a whole number", "\"1/2s\""),
        ("-5/min", "not a whole number", "digits only"),
        ("1e6/day", "not a whole number", "digits only"),
        ("1_000/day", "not a whole number", "digits only"),
        ("100 / min", "not a whole number", "digits only"),
        ("1000000000001/s", "above 1000000000000", ""),
        ("99999999999999999999/s", "above 1000000000000", ""),
        ("5/minute", "no valid window", "`min`"),
        ("5/m", "no valid window", "`min`"),
        ("5/d", "no valid window", "`day`"),
        ("5/ms", "no valid window", "`1ms`"),
        ("5/60", "no valid window", "`60s`"),
        ("5/2month", "no valid window", "one `month`"),
        ("5/0s", "has no length", "`1ms`"),
        ("5/", "no valid window", ""),
        ("5/week", "no valid window", ""),
        ("5/mnoth", "no valid window", "`month`"),
        ("5/3651day", "longer than ten years", ""),
        ("5/min/ip", "no valid window", "`min`"),
    ];
    for (text, message, hint) in vectors {
        refused(rate(text), text, message, hint);
    }
}

#[test]
fn costs_are_exact_thousandths() {
    let vectors = [
        ("0", 0),
        ("1", 1000),
        ("5", 5000),
        ("0.1", 100),
        ("0.001", 1),
        ("2.5", 2500),
        ("1.2340", 1234),
        ("+3", 3000),
        ("0.0", 0),
        ("1000000000", MAX_COST),
    ];
    for (text, units) in vectors {
        assert_eq!(cost(text), Ok(units), "{text}");
    }
    let refusals = [
        ("-1", "is negative"),
        ("-0.5", "is negative"),
        ("0.0001", "has more"),
        ("1e3", "plain digits"),
        ("inf", "plain digits"),
        ("nan", "plain digits"),
        ("1000000000.001", "above that"),
        ("99999999999999999999", "above that"),
    ];
    for (text, message) in refusals {
        refused(cost(text), text, message, "");
    }
}

#[test]
fn networks_are_addresses_or_prefixes_without_stray_bits() {
    let vectors = [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("203.0.113.7", "203.0.113.7/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("2001:db8::1", "2001:db8::1/128"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
    ];
    for (text, expected) in vectors {
        assert_eq!(network(text).unwrap().to_string(), expected, "{text}");
    }
    refused(network("10.1.2.3/8"), "10.1.2.3/8", "beyond its prefix", "\"10.0.0.0/8\"");
    refused(network("10.0.0.0/33"), "10.0.0.0/33", "expected a network", "0 to 32");
    refused(network("10.0.0"), "10.0.0", "not \"10.0.0\"", "");
    refused(network("localhost"), "localhost", "expected a network", "");
}
