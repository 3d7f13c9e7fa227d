//! What the memory store promises: all or nothing under threads, a bound on what it keeps, and time that may step back.

use super::*;
use crate::algorithm::{ALGORITHMS, Algorithm, Quota, UNIT, Window, by_name};
use crate::charge::{Meter, Part};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicUsize;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn meter(identity: &str, algorithm: &'static dyn Algorithm, count: i64, window_ms: i64) -> Meter {
    let quota =
        Quota { count: count * UNIT, window: Window::Span(Millis(window_ms)), capacity: count * UNIT, max_wait: None };
    algorithm.check(&quota).expect("a quota that the algorithm can serve");
    Meter::alone(identity, algorithm, quota)
}

fn fixed(identity: &str, count: i64, window_ms: i64) -> Meter {
    meter(identity, by_name("fixed_window").expect("listed"), count, window_ms)
}

fn caller(number: u32) -> Part<'static> {
    Part::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
}

fn charge(meter: &Meter, number: u32, cost: Units) -> Charge<'_> {
    Charge { meter, parts: [caller(number)].into_iter().collect(), cost, enforced: true }
}

fn shadow(meter: &Meter, number: u32, cost: Units) -> Charge<'_> {
    Charge { enforced: false, ..charge(meter, number, cost) }
}

fn after(millis: i64) -> Timestamp {
    NOW + Millis(millis)
}

/// Units left of caller 1's counter.
fn left(store: &MemoryStore, meter: &Meter, now: Timestamp) -> Units {
    store.decide(now, &[charge(meter, 1, 0)]).readings[0].remaining
}

fn takes(store: &MemoryStore, meter: &Meter, number: u32, now: Timestamp) -> bool {
    store.decide(now, &[charge(meter, number, UNIT)]).admitted
}

#[test]
fn b143_the_first_request_counts_once() {
    for algorithm in ALGORITHMS {
        let store = MemoryStore::new(1000);
        let meter = meter("l", *algorithm, 2, 60_000);
        for start in [NOW, after(1_000_000)] {
            let first = store.decide(start, &[charge(&meter, 1, UNIT)]);
            assert!(first.admitted);
            assert_eq!(first.readings[0].remaining, UNIT, "{}", algorithm.name());
            assert!(takes(&store, &meter, 1, start) && !takes(&store, &meter, 1, start));
        }
    }
}

#[test]
fn b14_a_request_that_one_limit_refuses_costs_nothing_on_the_others() {
    let store = MemoryStore::new(1000);
    let (day, second) = (fixed("day", 1000, 86_400_000), fixed("second", 2, 1000));
    let mut accepted = 0;
    for request in 0..300 {
        let now = after(request * 1000 / 60);
        // The order in which limits are written does not matter.
        let charges = [charge(&day, 1, UNIT), charge(&second, 1, UNIT), charge(&day, 2, UNIT)];
        let outcome = store.decide(now, &charges);
        accepted += i64::from(outcome.admitted);
        assert_eq!(outcome.readings[0].remaining, (1000 - accepted) * UNIT);
        assert_eq!(outcome.readings[2].remaining, (1000 - accepted) * UNIT);
        assert_eq!(outcome.readings[0].wait, Wait::Now);
    }
    assert_eq!(accepted, 10);
}

#[test]
fn b102_a_shadow_limit_neither_refuses_nor_ends_the_evaluation() {
    let store = MemoryStore::new(1000);
    let (tried, real) = (fixed("tried", 1, 60_000), fixed("real", 5, 60_000));
    let mut shadow_refused = 0;
    let mut request = || {
        let outcome = store.decide(NOW, &[shadow(&tried, 1, UNIT), charge(&real, 1, UNIT)]);
        shadow_refused += usize::from(outcome.readings[0].wait != Wait::Now);
        outcome
    };
    for left in (0..5).rev() {
        let outcome = request();
        assert!(outcome.admitted);
        assert_eq!((outcome.readings[0].remaining, outcome.readings[1].remaining), (0, left * UNIT));
    }
    assert!(!request().admitted);
    assert_eq!(shadow_refused, 5);
}

#[test]
fn a_shadow_charge_is_taken_only_when_the_request_is_admitted() {
    let store = MemoryStore::new(1000);
    let (tried, real) = (fixed("tried", 5, 60_000), fixed("real", 1, 60_000));
    for _ in 0..3 {
        store.decide(NOW, &[shadow(&tried, 1, UNIT), charge(&real, 1, UNIT)]);
    }
    assert_eq!(left(&store, &tried, NOW), 4 * UNIT);
}

#[test]
fn only_enforced_leaky_buckets_hold_a_request_and_the_longest_counts() {
    let leaky = by_name("leaky_bucket").expect("listed");
    let (slow, fast) = (meter("slow", leaky, 1, 1000), meter("fast", leaky, 10, 1000));
    let store = MemoryStore::new(1000);
    let slow = Meter { quota: Quota { capacity: 10 * UNIT, ..slow.quota }, ..slow };
    let delays = |slow_charge: fn(&Meter, u32, Units) -> Charge<'_>, caller: u32, cost: Units| -> Vec<i64> {
        let charges = [slow_charge(&slow, caller, cost), charge(&fast, caller, UNIT)];
        (0..3).map(|_| store.decide(NOW, &charges).delay.0).collect()
    };
    assert_eq!(delays(charge, 1, UNIT), [0, 1000, 2000]);
    assert_eq!(delays(shadow, 2, UNIT), [0, 100, 200]);
    assert_eq!(delays(charge, 1, 0), [2100, 2200, 2300], "a cost of nothing waits for no turn");
}

#[test]
fn a_slow_and_a_fast_leaky_bucket_together_hold_as_many_as_the_slow_one() {
    let leaky = by_name("leaky_bucket").expect("listed");
    let store = MemoryStore::new(1000);
    let (slow, fast) = (meter("slow", leaky, 10, 10_000), meter("fast", leaky, 10, 1000));
    let charges = [charge(&slow, 1, UNIT), charge(&fast, 1, UNIT)];
    let outcomes: Vec<Outcome> = (0..20).map(|_| store.decide(NOW, &charges)).collect();
    let delays: Vec<i64> = outcomes.iter().filter(|outcome| outcome.admitted).map(|outcome| outcome.delay.0).collect();
    assert_eq!(delays, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
}

#[test]
fn a_cost_of_nothing_reads_without_taking() {
    let store = MemoryStore::new(1000);
    let meter = fixed("l", 2, 60_000);
    let outcome = store.decide(NOW, &[charge(&meter, 1, 0)]);
    assert!(outcome.admitted);
    assert_eq!((outcome.readings[0].remaining, outcome.readings[0].wait), (2 * UNIT, Wait::Now));
    assert_eq!(store.entries(), Some(0));
    assert!(takes(&store, &meter, 1, NOW) && takes(&store, &meter, 1, NOW));
    assert!(store.decide(NOW, &[charge(&meter, 1, 0)]).admitted, "also when all is spent");
}

#[test]
fn refused_strangers_take_no_memory() {
    let store = MemoryStore::new(1000);
    let (own, shared) = (fixed("own", 5, 60_000), fixed("shared", 1, 60_000));
    for number in 0..100 {
        store.decide(NOW, &[charge(&own, number, UNIT), charge(&shared, 0, UNIT)]);
    }
    assert_eq!(store.entries(), Some(2));
    let never = store.decide(NOW, &[charge(&own, 7, 6 * UNIT)]);
    assert_eq!((never.admitted, never.readings[0].wait), (false, Wait::Never));
    assert_eq!(store.entries(), Some(2));
}

#[test]
fn a_counter_named_twice_in_one_request_has_to_hold_both() {
    for algorithm in ALGORITHMS {
        let store = MemoryStore::new(1000);
        let meter = meter("l", *algorithm, 3, 60_000);
        let twice = [charge(&meter, 1, 2 * UNIT), charge(&meter, 1, 2 * UNIT)];
        assert!(!store.decide(NOW, &twice).admitted);
        assert_eq!(left(&store, &meter, NOW), 3 * UNIT);
        let fitting = [charge(&meter, 1, UNIT), charge(&meter, 1, 2 * UNIT)];
        assert!(store.decide(NOW, &fitting).admitted);
        assert_eq!(left(&store, &meter, NOW), 0);
    }
}

#[test]
fn more_limits_than_fit_inline_are_decided_all_the_same() {
    let store = MemoryStore::new(100_000);
    let meters: Vec<Meter> = (0..40).map(|index| fixed(&format!("l{index}"), 1, 60_000)).collect();
    let charges: Vec<Charge<'_>> = meters.iter().map(|meter| charge(meter, 1, UNIT)).collect();
    assert!(store.decide(NOW, &charges).admitted);
    assert!(!store.decide(NOW, &charges).admitted);
    assert_eq!(store.entries(), Some(40));
}

#[test]
fn b31_threads_never_take_more_than_the_quota() {
    for algorithm in ALGORITHMS {
        let store = MemoryStore::new(1000);
        // A window so long that nothing refills meanwhile.
        let meter = meter("l", *algorithm, 50, 86_400_000);
        let admitted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..125 {
                        admitted.fetch_add(usize::from(takes(&store, &meter, 1, NOW)), Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 50, "{}", algorithm.name());
    }
}

#[test]
fn threads_with_crossing_limits_stay_all_or_nothing() {
    let store = MemoryStore::new(100_000);
    let meters: Vec<Meter> = (0..6).map(|index| fixed(&format!("l{index}"), 40 + index, 86_400_000)).collect();
    let admitted: Vec<AtomicUsize> = meters.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, meters, admitted) = (&store, &meters, &admitted);
            scope.spawn(move || {
                for round in 0..300 {
                    // Each request names three counters, in an order that differs from thread to thread.
                    let chosen = [0, 1, 2].map(|step| (thread * 5 + round + step * (1 + thread % 5)) % meters.len());
                    let charges: Vec<_> = chosen.iter().map(|index| charge(&meters[*index], 1, UNIT)).collect();
                    if store.decide(NOW, &charges).admitted {
                        for index in chosen {
                            admitted[index].fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    for (meter, admitted) in meters.iter().zip(admitted) {
        let used = meter.quota.count - left(&store, meter, NOW);
        assert_eq!(used, i64::try_from(admitted.into_inner()).expect("small") * UNIT, "{}", meter.identity);
    }
}

#[test]
fn a_correction_gives_back_or_takes_more() {
    let store = MemoryStore::new(1000);
    let meter = fixed("l", 10, 60_000);
    assert!(store.decide(NOW, &[charge(&meter, 1, 4 * UNIT)]).admitted);
    let correct = |delta: Units, now: Timestamp| {
        let parts = [caller(1)].into_iter().collect();
        store.settle_now(now, &[Correction { meter: &meter, parts, at: NOW, delta, stand_in: false }]);
        left(&store, &meter, now)
    };
    assert_eq!(correct(-3 * UNIT, NOW), 9 * UNIT);
    assert_eq!(correct(5 * UNIT, NOW), 4 * UNIT);
    assert_eq!(correct(-100 * UNIT, NOW), 10 * UNIT);
    assert_eq!(correct(i64::MIN, NOW), 10 * UNIT);
    assert_eq!(correct(12 * UNIT, NOW), 0);
    assert_eq!(correct(5 * UNIT, after(60_000)), 10 * UNIT, "the request's window is over");
}

#[test]
fn a_give_back_to_a_counter_that_is_gone_creates_none() {
    let store = MemoryStore::new(1000);
    let meter = fixed("l", 10, 60_000);
    let parts = [caller(1)].into_iter().collect();
    store.settle_now(NOW, &[Correction { meter: &meter, parts, at: NOW, delta: -UNIT, stand_in: false }]);
    assert_eq!(store.entries(), Some(0));
}

#[test]
fn a_forgotten_counter_is_fresh() {
    let store = MemoryStore::new(1000);
    let meter = fixed("l", 2, 60_000);
    assert!(takes(&store, &meter, 1, NOW) && takes(&store, &meter, 1, NOW) && takes(&store, &meter, 2, NOW));
    let forgotten = store.forget_now(&[charge(&meter, 1, 0), charge(&meter, 9, 0)]);
    assert_eq!(forgotten, [true, false]);
    assert_eq!(store.entries(), Some(1));
    assert_eq!(left(&store, &meter, NOW), 2 * UNIT);
}

#[test]
fn b06_distinct_callers_never_exceed_the_bound() {
    let meter = fixed("l", 5, 3_600_000);
    for max in [1u32, 10, 100, 5000] {
        let store = MemoryStore::new(max as usize);
        for number in 0..3 * max + 100 {
            assert!(takes(&store, &meter, number, NOW));
            let kept = u64::from((number + 1).min(max));
            assert_eq!(store.entries(), Some(kept), "no counter leaves before the store is full");
        }
        assert_eq!(store.evictions(), u64::from(2 * max + 100));
    }
}

#[test]
fn a_full_store_lets_go_of_expired_counters_first() {
    let store = MemoryStore::new(64);
    let (short, long) = (fixed("short", 5, 1000), fixed("long", 5, 3_600_000));
    for number in 0..64 {
        assert!(takes(&store, &short, number, NOW));
    }
    for number in 0..16 {
        assert!(takes(&store, &long, number, after(2000)));
    }
    assert_eq!(store.evictions(), 0);
    assert!(store.entries().is_some_and(|entries| (16..=64).contains(&entries)));
    assert_eq!(left(&store, &long, after(2000)), 4 * UNIT);
}

#[test]
fn new_callers_cannot_push_out_one_that_is_being_refused() {
    let store = MemoryStore::new(500);
    let meter = fixed("l", 5, 3_600_000);
    assert!((0..5).all(|_| takes(&store, &meter, 1, NOW)));
    for number in 2..5000 {
        assert!(takes(&store, &meter, number, NOW));
    }
    assert!(!takes(&store, &meter, 1, NOW));
}

#[test]
fn sweeping_frees_what_has_expired_in_bounded_steps() {
    let store = MemoryStore::new(100_000);
    let (short, long) = (fixed("short", 5, 2000), fixed("long", 5, 3_600_000));
    for number in 0..20_000 {
        assert!(takes(&store, if number % 20 == 0 { &long } else { &short }, number, NOW));
    }
    let places = |store: &MemoryStore| store.shards.iter().map(|shard| shard.0.lock().places()).sum::<usize>();
    let before = places(&store);
    assert_eq!(store.sweep(NOW, before), 0);
    let mut calls = 0;
    while store.entries() != Some(1000) {
        assert!(store.sweep(after(4000), 500) <= 500);
        calls += 1;
        assert!(calls <= before / 500 + 1, "a round of the store is long over");
    }
    store.sweep(after(4000), before);
    store.sweep(after(4000), before);
    assert!(places(&store) < before / 3, "{before} places before, {} after", places(&store));
    assert_eq!(store.evictions(), 0);
}

#[test]
fn b84_a_clock_that_steps_back_grants_nothing_and_blocks_no_longer_than_the_step() {
    for algorithm in ALGORITHMS {
        let store = MemoryStore::new(1000);
        let meter = meter("l", *algorithm, 5, 10_000);
        let mut admitted = 0;
        for step in 0..300 {
            // Every third second the clock is five seconds behind.
            let now = after(step * 100 - if step / 10 % 3 == 2 { 5000 } else { 0 });
            admitted += usize::from(takes(&store, &meter, 1, now));
            store.sweep(now, 100);
        }
        assert!(admitted <= 5 * 4, "{}: {admitted} in 30 s", algorithm.name());

        assert!((0..6).any(|_| !takes(&store, &meter, 1, after(40_000))));
        let back = after(40_000 - 3_600_000);
        let outcome = store.decide(back, &[charge(&meter, 1, UNIT)]);
        let Wait::After(wait) = outcome.readings[0].wait else { panic!("granted by a step back") };
        assert!(wait.0 <= 3_600_000 + 20_000, "{}: {wait:?}", algorithm.name());
    }
}

#[test]
fn a_lower_quota_applies_to_what_was_counted_under_a_higher_one() {
    let store = MemoryStore::new(1000);
    let (before, now) = (fixed("l", 100, 60_000), fixed("l", 50, 60_000));
    assert!(store.decide(NOW, &[charge(&before, 1, 80 * UNIT)]).admitted);
    let outcome = store.decide(NOW, &[charge(&now, 1, UNIT)]);
    assert_eq!((outcome.admitted, outcome.readings[0].remaining), (false, 0));
}
