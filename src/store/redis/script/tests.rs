use super::*;
use crate::algorithm::{ALGORITHMS, UNIT, by_name};

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
