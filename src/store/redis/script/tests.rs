use super::*;
use crate::algorithm::{ALGORITHMS, UNIT, by_name};
use crate::charge::{Meter, Parts};

fn quota(window: Window) -> Quota {
    Quota { count: UNIT, window, capacity: UNIT, max_wait: None }
}

fn script(names: &[&str], window: Window) -> &'static Script {
    let quota = quota(window);
    let rows = names.iter().map(|name| (by_name(name).expect("a known algorithm"), &quota));
    Script::of(Purpose::Acquire, Shape::of(rows))
}

const SPAN: Window = Window::Span(Millis(1000));

#[test]
fn a_script_has_the_functions_of_its_algorithms_and_no_others() {
    for algorithm in ALGORITHMS {
        let text = &script(&[algorithm.name()], SPAN).text;
        for twin in TWINS {
            let wait = format!("function {}_wait", twin.prefix);
            assert_eq!(text.contains(&wait), twin.name == algorithm.name(), "{wait} for {}", algorithm.name());
        }
        assert!(!text.contains("_refund") && !text.contains("--"), "{text}");
    }
    let both = &script(&["fixed_window", "token_bucket"], SPAN).text;
    assert!(both.contains("fixed_window_wait(p, v, now, cost)") && both.contains("token_bucket_wait(p, v, now, cost)"));
}

#[test]
fn months_are_left_out_where_no_window_needs_them() {
    let (span, month) = (script(&["fixed_window"], SPAN), script(&["fixed_window"], Window::Month));
    assert!(!span.text.contains("civil_from_days"));
    assert!(month.text.contains("civil_from_days"));
    assert_ne!(span.sha1, month.sha1);
}

#[test]
fn constants_are_written_in() {
    let text = &script(&["token_bucket"], SPAN).text;
    assert!(text.contains("(2^43)") && !text.contains("HORIZON_MS") && !text.contains("MAX_HELD"), "{text}");
}

#[test]
fn a_script_is_joined_once_and_named_by_its_digest() {
    let first = script(&["leaky_bucket"], SPAN);
    assert!(std::ptr::eq(first, script(&["leaky_bucket", "leaky_bucket"], SPAN)));
    assert_eq!(first.sha1.len(), 40);
}

#[test]
fn ids_are_exact_in_six_bytes() {
    let ids = ["", "a", "b", "free-minute|sliding_window_counter|60000"].map(record_id);
    assert!(ids.iter().all(|id| (1..1 << 48).contains(id)));
    assert!((1..ids.len()).all(|index| !ids[..index].contains(&ids[index])));
}

fn reply(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn a_reply_reads_as_an_outcome() {
    let bytes = reply(&[1.0, 5000.0, 20.0, 2.0, 3000.0, 0.0, 100.0, 0.0, 7.0, 8.0, 0.0, -1.0, 9.0]);
    let Acquired { outcome, replaced } = read_acquired(&bytes, 3).expect("a reply");
    assert!(outcome.admitted);
    assert_eq!((outcome.at, outcome.delay, replaced), (Timestamp(5000), Millis(20), 2));
    let waits: Vec<Wait> = outcome.readings.iter().map(|reading| reading.wait).collect();
    assert_eq!(waits, [Wait::Now, Wait::After(Millis(7)), Wait::Never]);
    assert_eq!((outcome.readings[0].remaining, outcome.readings[2].reset), (3000, Millis(9)));
    assert_eq!(read_settled(&reply(&[5000.0, 1.0])), Ok(Settled { at: Timestamp(5000), replaced: 1 }));
}

#[test]
fn a_reply_that_no_script_gives_is_misread() {
    let good = [1.0, 5000.0, 0.0, 0.0, 3000.0, 0.0, 100.0];
    assert!(read_acquired(&reply(&good), 1).is_ok());
    assert!(read_acquired(&reply(&good), 2).is_err());
    assert!(read_acquired(&reply(&good)[1..], 1).is_err());
    assert!(read_acquired(b"", 1).is_err());
    for (place, wrong) in
        [(0, 2.0), (1, 0.5), (2, -1.0), (3, f64::NAN), (4, -1.0), (4, f64::INFINITY), (5, -2.0), (6, 1e300)]
    {
        let mut bad = good;
        bad[place] = wrong;
        assert!(read_acquired(&reply(&bad), 1).is_err(), "{wrong} in place {place}");
    }
}

/// The text for one charge of each of these algorithms, and their keys.
fn text_of(rows: &[(&str, usize)], window: Window) -> &'static Script {
    let meter =
        |(name, _): &(&str, usize)| Meter::alone(name, by_name(name).expect("a known algorithm"), quota(window));
    let meters: Vec<Meter> = rows.iter().map(meter).collect();
    let charge = |meter| Charge { meter, parts: Parts::default(), cost: UNIT, enforced: true };
    let charges: Vec<Charge<'_>> = meters.iter().map(charge).collect();
    let place = |(record, (_, key)): (usize, &(&str, usize))| Place { key: *key, record: record as u64 };
    let places: Vec<Place> = rows.iter().enumerate().map(place).collect();
    acquire(None, 1, &charges, &places).0
}

#[test]
fn few_charges_have_a_text_without_calls_of_our_functions_or_lists() {
    let in_strings = || ALGORITHMS.iter().filter(|algorithm| !is_log(**algorithm)).map(|algorithm| algorithm.name());
    for (first, second) in in_strings().flat_map(|first| in_strings().map(move |second| (first, second))) {
        for keys in [[0, 0], [0, 1]] {
            let text = &text_of(&[(first, keys[0]), (second, keys[1])], SPAN).text;
            let functions: Vec<&str> = text.lines().filter(|line| line.starts_with("local function ")).collect();
            assert!(functions.iter().all(|line| line.starts_with("local function lost_in_x")), "{functions:?}");
            assert!(TWINS.iter().all(|twin| !text.contains(&format!("{}_", twin.prefix))), "{text}");
            assert!(!text.contains("_row") && !text.contains("_group") && !text.contains("--"), "{text}");
            let lists = text.lines().filter(|line| line.contains("{ ")).count();
            assert_eq!(lists, 5 * (keys[1] + 1), "those for values that are something else: {text}");
        }
    }
}

#[test]
fn what_is_no_small_set_of_strings_has_the_text_for_any_charges() {
    let serves = |rows: &[(&str, usize)]| text_of(rows, SPAN).text.contains("while position");
    assert!(!serves(&[("token_bucket", 0); 1]));
    assert!(!serves(&[("token_bucket", 0), ("token_bucket", 1), ("token_bucket", 1)]));
    assert!(serves(&[("sliding_window_log", 0)]), "a log");
    assert!(serves(&[("token_bucket", 0); MAX_STRAIGHT + 1]), "many");
    assert!(serves(&[("token_bucket", 0), ("token_bucket", 1), ("token_bucket", 0)]), "a string's charges are apart");
    let meter = Meter::alone("twice", by_name("token_bucket").expect("a known algorithm"), quota(SPAN));
    let charges = [0, 0].map(|_| Charge { meter: &meter, parts: Parts::default(), cost: UNIT, enforced: true });
    let twice = acquire(None, 1, &charges, &[Place { key: 0, record: 7 }; 2]).0;
    assert!(twice.text.contains("while position"), "a counter named twice");
}

#[test]
fn months_stay_functions() {
    let text = &text_of(&[("fixed_window", 0)], Window::Month).text;
    assert!(text.contains("local function civil_from_days(") && !text.contains("local function frame("), "{text}");
}
