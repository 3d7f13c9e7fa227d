//! Tests of `headers`.

use super::*;
use crate::algorithm::{UNIT, Wait, Window};
use crate::config::model::{Layer, Mode};
use crate::policy::limit::Limit;
use crate::proxy::fixtures::{DATE, bucket, fits, limit, refuses, seconds, style, verdict};
use crate::time::Millis;
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};
use std::collections::BTreeMap;

type Fields = BTreeMap<String, String>;

/// The fields of one response; a name that comes twice fails the test.
fn stamped(style: &Style, verdict: &Verdict<'_>) -> Fields {
    let mut fields = Fields::new();
    style.stamp(verdict, DATE, &mut |name, value| {
        let value = value.to_str().expect("visible ASCII").to_owned();
        assert_eq!(fields.insert(name.as_str().to_owned(), value), None, "{name} comes twice");
    });
    fields
}

fn ietf(verdict: &Verdict<'_>) -> (String, String) {
    let mut fields =
        stamped(&Style::new(&Headers { dialect: Dialect::Ietf, x_ratelimit: false, reset: Reset::Epoch }), verdict);
    let pair = (fields.remove("ratelimit-policy").unwrap_or_default(), fields.remove("ratelimit").unwrap_or_default());
    assert!(fields.is_empty(), "{fields:?}");
    pair
}

/// `Limit/Remaining/Reset` of the classic and the `X-` triple, which have to agree.
fn triples(verdict: &Verdict<'_>, reset: Reset) -> String {
    let fields = stamped(&style(Dialect::Both, reset), verdict);
    let triple = |prefix: &str| {
        ["limit", "remaining", "reset"]
            .map(|part| fields.get(&format!("{prefix}-{part}")).cloned().unwrap_or_default())
            .join("/")
    };
    assert_eq!(triple("ratelimit"), triple("x-ratelimit"));
    triple("ratelimit")
}

/// Name and integer parameters of each item, as an independent parser reads them.
fn parsed(field: &str) -> Vec<(String, BTreeMap<String, i64>)> {
    let list: List = Parser::new(field).parse().unwrap_or_else(|error| panic!("{field}: {error}"));
    list.iter()
        .map(|entry| {
            let ListEntry::Item(item) = entry else { panic!("{field}: an inner list") };
            let BareItem::String(name) = &item.bare_item else { panic!("{field}: not a string") };
            let parameters = item.params.iter().map(|(key, value)| match value {
                BareItem::Integer(number) => (key.as_str().to_owned(), i64::from(*number)),
                other => panic!("{field}: {other:?}"),
            });
            (name.as_str().to_owned(), parameters.collect())
        })
        .collect()
}

struct Three {
    second: Limit,
    minute: Limit,
    day: Limit,
}

fn three() -> Three {
    Three {
        second: limit("second", 20, seconds(1)),
        minute: limit("minute", 100, seconds(60)),
        day: limit("day", 1000, seconds(86_400)),
    }
}

const THREE_POLICIES: &str = r#""second";q=20;w=1, "minute";q=100;w=60, "day";q=1000;w=86400"#;

#[test]
fn one_limit_is_written_in_every_dialect() {
    let default = limit("default", 100, seconds(60));
    let verdict = verdict([fits(&default, 63 * UNIT, 23_400)]);
    let pair = (r#""default";q=100;w=60"#.to_owned(), r#""default";r=63;t=24"#.to_owned());
    assert_eq!(ietf(&verdict), pair);
    assert_eq!(triples(&verdict, Reset::Delta), "100/63/24");
    assert_eq!(triples(&verdict, Reset::Epoch), "100/63/1796095524");
    let fields = stamped(&style(Dialect::Classic, Reset::Epoch), &verdict);
    let expected = [
        ("ratelimit-limit", "100"),
        ("ratelimit-policy", "100;w=60"),
        ("ratelimit-remaining", "63"),
        ("ratelimit-reset", "1796095524"),
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "63"),
        ("x-ratelimit-reset", "1796095524"),
    ];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn b58_several_limits_are_all_listed_and_the_tightest_is_shown() {
    let Three { second, minute, day } = three();
    let verdict =
        verdict([fits(&second, 19 * UNIT, 1000), fits(&minute, 63 * UNIT, 23_400), fits(&day, 12 * UNIT, 74_100_000)]);
    let state = r#""second";r=19;t=1, "minute";r=63;t=24, "day";r=12;t=74100"#;
    assert_eq!(ietf(&verdict), (THREE_POLICIES.to_owned(), state.to_owned()));
    assert_eq!(triples(&verdict, Reset::Delta), "1000/12/74100");
    assert_eq!(triples(&verdict, Reset::Epoch), "1000/12/1796169600");
    let fields = stamped(&style(Dialect::Classic, Reset::Epoch), &verdict);
    assert_eq!(fields["ratelimit-policy"], "20;w=1, 100;w=60, 1000;w=86400");
}

#[test]
fn b58_of_equally_tight_limits_the_longer_window_is_shown() {
    let Three { second, minute, day } = three();
    let verdict =
        verdict([fits(&second, 5 * UNIT, 1000), fits(&day, 5 * UNIT, 74_100_000), fits(&minute, 5 * UNIT, 24_000)]);
    assert_eq!(triples(&verdict, Reset::Delta), "1000/5/74100");
}

#[test]
fn a_refusal_shows_the_limit_that_refused() {
    let Three { second, minute, day } = three();
    let verdict =
        verdict([fits(&second, 20 * UNIT, 1000), refuses(&minute, 0, 23_400), fits(&day, 900 * UNIT, 74_100_000)]);
    let state = r#""second";r=20;t=1, "minute";r=0;t=24, "day";r=900;t=74100"#;
    assert_eq!(ietf(&verdict), (THREE_POLICIES.to_owned(), state.to_owned()));
    assert_eq!(triples(&verdict, Reset::Delta), "100/0/24");
    assert_eq!(triples(&verdict, Reset::Epoch), "100/0/1796095524");
}

#[test]
fn a_refused_cost_leaves_what_is_left_to_see() {
    let minute = limit("minute", 100, seconds(60));
    let status = LimitStatus { cost: 5 * UNIT, ..refuses(&minute, 3 * UNIT, 9000) };
    let verdict = verdict([status]);
    assert_eq!(ietf(&verdict).1, r#""minute";r=3;t=9"#);
    assert_eq!(triples(&verdict, Reset::Delta), "100/3/9");
    assert_eq!(triples(&verdict, Reset::Epoch), "100/3/1796095509");
}

#[test]
fn of_two_refusing_limits_the_longer_wait_is_shown() {
    let Three { second, minute, day } = three();
    let verdict = verdict([refuses(&second, 0, 1000), fits(&minute, 40 * UNIT, 24_000), refuses(&day, 0, 74_100_000)]);
    assert_eq!(ietf(&verdict).1, r#""second";r=0;t=1, "minute";r=40;t=24, "day";r=0;t=74100"#);
    assert_eq!(triples(&verdict, Reset::Delta), "1000/0/74100");
    assert_eq!(triples(&verdict, Reset::Epoch), "1000/0/1796169600");
}

#[test]
fn b56_the_last_admitted_request_shows_a_reset_above_zero() {
    let minute = limit("minute", 100, seconds(60));
    assert_eq!(ietf(&verdict([fits(&minute, 0, 23_400)])).1, r#""minute";r=0;t=24"#);
    assert_eq!(triples(&verdict([fits(&minute, 0, 23_400)]), Reset::Epoch), "100/0/1796095524");
    // Less than one request left is none, and a reset of nothing would send the client straight back.
    assert_eq!(ietf(&verdict([fits(&minute, 999, 0)])).1, r#""minute";r=0;t=1"#);
    assert_eq!(triples(&verdict([fits(&minute, 0, 0)]), Reset::Epoch), "100/0/1796095501");
    assert_eq!(ietf(&verdict([fits(&minute, UNIT, 0)])).1, r#""minute";r=1;t=0"#);
}

#[test]
fn b115_no_reset_on_a_refusal_is_zero() {
    let Three { second, minute, .. } = three();
    let verdict = verdict([fits(&second, 20 * UNIT, 0), refuses(&minute, 0, 1)]);
    assert_eq!(ietf(&verdict).1, r#""second";r=20;t=1, "minute";r=0;t=1"#);
    assert_eq!(triples(&verdict, Reset::Delta), "100/0/1");
}

#[test]
fn a_window_that_is_no_whole_seconds_has_no_length() {
    let burst = limit("burst", 5, Window::Span(Millis(100)));
    let odd = limit("odd", 9, Window::Span(Millis(1500)));
    let month = bucket("fixed_window", "month", 50, Window::Month, 50);
    let refused = verdict([refuses(&burst, 0, 60)]);
    assert_eq!(ietf(&refused), (r#""burst";q=5"#.to_owned(), r#""burst";r=0;t=1"#.to_owned()));
    assert_eq!(triples(&refused, Reset::Epoch), "5/0/1796095501");
    let admitted = verdict([fits(&odd, 4 * UNIT, 1200)]);
    assert_eq!(ietf(&admitted), (r#""odd";q=9"#.to_owned(), r#""odd";r=4;t=2"#.to_owned()));
    assert_eq!(triples(&admitted, Reset::Epoch), "9/4/1796095502");
    let fields =
        stamped(&style(Dialect::Classic, Reset::Delta), &verdict([fits(&odd, UNIT, 1), fits(&month, UNIT, 1)]));
    assert_eq!(fields["ratelimit-policy"], "9, 50");
}

#[test]
fn a_bucket_shows_its_burst() {
    let pro = bucket("token_bucket", "pro-burst", 600, seconds(60), 100);
    let verdict = verdict([fits(&pro, 99 * UNIT, 100)]);
    let fields = stamped(&style(Dialect::Classic, Reset::Delta), &verdict);
    assert_eq!(fields["ratelimit-policy"], "600;w=60;burst=100");
    assert_eq!(fields["ratelimit-limit"], "100");
    assert_eq!(ietf(&verdict), (r#""pro-burst";q=100;w=10"#.to_owned(), r#""pro-burst";r=99;t=1"#.to_owned()));
}

#[test]
fn numbers_stay_within_fifteen_digits() {
    let mut bytes = limit("bytes", 1, seconds(2_592_000));
    bytes.meter.quota.capacity = i64::MAX;
    let verdict = verdict([fits(&bytes, i64::MAX, i64::MAX)]);
    assert_eq!(ietf(&verdict).1, r#""bytes";r=999999999999999;t=999999999999999"#);
    assert_eq!(parsed(&ietf(&verdict).1).len(), 1);
}

#[test]
fn no_limit_means_no_field() {
    assert!(stamped(&style(Dialect::Both, Reset::Epoch), &verdict([])).is_empty());
    let mut hidden = limit("hidden", 10, seconds(1));
    hidden.expose = false;
    assert!(stamped(&style(Dialect::Both, Reset::Epoch), &verdict([fits(&hidden, UNIT, 1)])).is_empty());
}

#[test]
fn shadow_and_unexposed_limits_are_not_written() {
    let Three { mut second, minute, mut day } = three();
    second.expose = false;
    day.mode = Mode::Shadow;
    let verdict = verdict([fits(&second, 0, 1000), fits(&minute, 63 * UNIT, 23_400), refuses(&day, 0, 74_100_000)]);
    assert!(verdict.admitted);
    assert_eq!(ietf(&verdict), (r#""minute";q=100;w=60"#.to_owned(), r#""minute";r=63;t=24"#.to_owned()));
    assert_eq!(triples(&verdict, Reset::Delta), "100/63/24");
}

#[test]
fn a_refusal_by_an_unexposed_limit_shows_no_single_value() {
    let Three { mut second, minute, .. } = three();
    second.expose = false;
    let verdict = verdict([refuses(&second, 0, 1000), fits(&minute, 63 * UNIT, 23_400)]);
    let fields = stamped(&style(Dialect::Both, Reset::Epoch), &verdict);
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["ratelimit", "ratelimit-policy"]);
    assert_eq!(fields["ratelimit"], r#""minute";r=63;t=24"#);
}

#[test]
fn a_cost_that_never_fits_shows_the_reset_of_its_limit() {
    let minute = limit("minute", 100, seconds(60));
    let status = LimitStatus { cost: 500 * UNIT, wait: Wait::Never, ..fits(&minute, 40 * UNIT, 23_400) };
    let verdict = verdict([status]);
    assert!(!verdict.admitted);
    assert_eq!(triples(&verdict, Reset::Delta), "100/40/24");
}

#[test]
fn each_dialect_has_its_own_fields() {
    let minute = limit("minute", 100, seconds(60));
    let verdict = verdict([fits(&minute, 63 * UNIT, 23_400)]);
    let triple = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    let vectors = [
        (Dialect::Classic, [&["ratelimit-policy"][..], &triple].concat()),
        (Dialect::Ietf, vec!["ratelimit", "ratelimit-policy"]),
        (Dialect::Both, [&["ratelimit", "ratelimit-policy"][..], &triple].concat()),
        (Dialect::Off, vec![]),
    ];
    for (dialect, mut expected) in vectors {
        expected.sort_unstable();
        for x_ratelimit in [false, true] {
            let style = Style::new(&Headers { dialect, x_ratelimit, reset: Reset::Epoch });
            let fields = stamped(&style, &verdict);
            let names: Vec<&str> = fields.keys().map(String::as_str).filter(|name| !name.starts_with("x-")).collect();
            let mut sorted = names.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "{dialect:?}");
            assert_eq!(fields.len() - names.len(), if x_ratelimit { 3 } else { 0 });
            for name in fields.keys() {
                assert!(style.owned_names().iter().any(|owned| owned.as_str() == name), "{name} is not owned");
            }
        }
    }
}

#[test]
fn b93_the_names_of_every_written_dialect_are_owned() {
    assert_eq!(style(Dialect::Classic, Reset::Epoch).owned_names().len(), 8);
    let off = Style::new(&Headers { dialect: Dialect::Off, x_ratelimit: false, reset: Reset::Epoch });
    assert!(off.owned_names().is_empty());
}

#[test]
fn vectors_that_a_recipient_must_refuse_are_refused_by_the_test_parser() {
    for bad in
        [r#""a";q=1000000000000000"#, r#""x" ;q=1"#, r#""x";q =1"#, "\"na\u{ef}ve\";q=1", "limit=10, remaining=1"]
    {
        assert!(Parser::new(bad).parse::<List>().is_err(), "{bad}");
    }
}

fn any_window() -> impl Strategy<Value = Window> {
    prop_oneof![
        (1..=31_536_000_000_i64).prop_map(|ms| Window::Span(Millis(ms))),
        Just(Window::Month),
        Just(Window::Year)
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let layer = prop_oneof![Just(Layer::Ip), Just(Layer::Key), Just(Layer::Endpoint), Just(Layer::Custom)];
    let algorithm =
        prop_oneof![Just("fixed_window"), Just("sliding_window_counter"), Just("token_bucket"), Just("leaky_bucket")];
    let count = 1..=1_000_000_000_000_i64;
    (algorithm, "[a-z][a-z0-9_.-]{0,63}", count.clone(), any_window(), count, layer, any::<bool>()).prop_map(
        |(algorithm, name, count, window, capacity, layer, expose)| {
            let is_bucket = algorithm.ends_with("bucket");
            let made = bucket(algorithm, &name, count, window, if is_bucket { capacity } else { count });
            Limit { layer, expose, ..made }
        },
    )
}

/// A limit and how it stands: remaining, wait, reset.
fn any_state() -> impl Strategy<Value = (Limit, i64, Wait, i64)> {
    let wait = prop_oneof![Just(Wait::Now), (1..=i64::MAX).prop_map(|ms| Wait::After(Millis(ms))), Just(Wait::Never)];
    (any_limit(), any::<i64>(), wait, any::<i64>())
}

proptest! {
    #[test]
    fn structured_fields_always_parse_and_never_promise_more_than_the_quota(
        states in prop::collection::vec(any_state(), 0..10)
    ) {
        let verdict = verdict(states.iter().map(|(limit, remaining, wait, reset)| LimitStatus {
            limit,
            cost: UNIT,
            remaining: (*remaining).min(limit.meter.quota.capacity),
            wait: *wait,
            reset: Millis(*reset),
        }));
        let (policy, state) = ietf(&verdict);
        let (policy, state) = (parsed(&policy), parsed(&state));
        prop_assert_eq!(policy.len(), verdict.visible().count());
        prop_assert_eq!(policy.len(), state.len());
        for ((policy_name, policy), (state_name, state)) in policy.iter().zip(&state) {
            prop_assert_eq!(policy_name, state_name);
            prop_assert!(state["r"] >= 0 && state["r"] <= policy["q"], "{:?} {:?}", policy, state);
            prop_assert!(policy.get("w").is_none_or(|seconds| *seconds >= 1));
            prop_assert!(state["t"] >= i64::from(!verdict.admitted || state["r"] == 0));
        }
    }

    #[test]
    fn b17_the_reset_fields_and_retry_after_name_the_same_moment(
        remaining in 0..100_i64, wait in 1..100_000_000_000_i64, other in 1..100_000_000_000_i64
    ) {
        let Three { second, minute, .. } = three();
        let verdict = verdict([refuses(&second, 0, other), refuses(&minute, remaining, wait)]);
        let longest = wait.max(other);
        let advised = retry::after_seconds(Millis(longest));
        prop_assert!(advised >= 1 && advised * 1000 >= longest && (advised - 1) * 1000 < longest);
        let reset = |reset| triples(&verdict, reset).rsplit('/').next().and_then(|text| text.parse::<i64>().ok());
        prop_assert_eq!(reset(Reset::Delta), Some(advised));
        prop_assert_eq!(reset(Reset::Epoch), Some(DATE.seconds() + advised));
        let shown = verdict.shown().map(|status| status.limit.name.to_string());
        let (_, state) = ietf(&verdict);
        let items = parsed(&state);
        let item = items.iter().find(|(name, _)| Some(name) == shown.as_ref());
        prop_assert_eq!(item.map(|(_, item)| item["t"]), Some(advised));
    }
}
