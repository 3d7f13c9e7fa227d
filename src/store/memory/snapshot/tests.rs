//! What comes out of a snapshot is what went in, whatever happens to the store meanwhile, and nothing else is believed.

use super::*;
use crate::algorithm::{ALGORITHMS, Algorithm, Quota, UNIT, Window};
use crate::charge::{Charge, Meter, Part};
use std::net::{IpAddr, Ipv4Addr};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn meter(algorithm: &'static dyn Algorithm, count: i64, window_ms: i64) -> Meter {
    let window = Window::Span(Millis(window_ms));
    let quota = Quota { count: count * UNIT, window, capacity: count * UNIT, max_wait: None };
    Meter::alone(algorithm.name(), algorithm, quota)
}

fn charge(meter: &Meter, caller: u32, cost: i64) -> Charge<'_> {
    let caller = Part::Address(IpAddr::V4(Ipv4Addr::from_bits(caller)));
    Charge { meter, parts: [caller].into_iter().collect(), cost, enforced: true }
}

fn left(store: &MemoryStore, meter: &Meter, caller: u32, now: Timestamp) -> i64 {
    store.decide(now, &[charge(meter, caller, 0)]).readings[0].remaining
}

fn bytes(store: &MemoryStore, now: Timestamp) -> Vec<u8> {
    let (mut export, mut all, mut piece) = (Export::new(store, now), Vec::new(), Vec::new());
    while export.next(&mut piece) {
        all.extend_from_slice(&piece);
    }
    all
}

fn restored(bytes: &[u8], now: Timestamp) -> Result<MemoryStore, Fault> {
    Import::open(bytes)?.restore(1_000_000, now)
}

#[test]
fn every_algorithm_goes_on_as_if_nothing_had_happened() {
    for algorithm in ALGORITHMS {
        let meter = meter(*algorithm, 10, 3_600_000);
        let store = MemoryStore::new(1000);
        for caller in 0..100 {
            for request in 0..i64::from(caller % 11) {
                store.decide(NOW + Millis(request), &[charge(&meter, caller, UNIT)]);
            }
        }
        let later = NOW + Millis(5000);
        let other = restored(&bytes(&store, later), later).expect("it is whole");
        assert_eq!(other.held(), store.held(), "{}", algorithm.name());
        for now in [later, NOW + Millis(600_000), NOW + Millis(3_700_000)] {
            for caller in 0..100 {
                let (one, two) = (left(&store, &meter, caller, now), left(&other, &meter, caller, now));
                assert_eq!(one, two, "{} {caller}", algorithm.name());
            }
        }
    }
}

#[test]
fn what_has_expired_does_not_come_back() {
    let (short, long) = (meter(ALGORITHMS[0], 5, 1000), meter(ALGORITHMS[0], 5, 86_400_000));
    let store = MemoryStore::new(1000);
    store.decide(NOW, &[charge(&short, 1, UNIT)]);
    store.decide(NOW, &[charge(&long, 2, UNIT)]);
    let bytes = bytes(&store, NOW);
    assert_eq!(restored(&bytes, NOW).expect("it is whole").held(), 2);
    assert_eq!(restored(&bytes, NOW + Millis(2000)).expect("it is whole").held(), 1);
}

#[test]
fn a_smaller_store_keeps_its_bound() {
    let meter = meter(ALGORITHMS[0], 1000, 86_400_000);
    let store = MemoryStore::new(10_000);
    for caller in 0..5000 {
        store.decide(NOW, &[charge(&meter, caller, UNIT)]);
    }
    let small = Import::open(&bytes(&store, NOW)[..]).and_then(|import| import.restore(100, NOW)).expect("it is whole");
    assert!(small.held() <= 101, "{} counters", small.held());
}

#[test]
fn a_clock_that_stepped_back_grants_nothing_and_blocks_for_the_step_at_most() {
    let step = Millis(600_000);
    let back = NOW + Millis(-step.0);
    for algorithm in ALGORITHMS {
        let meter = meter(*algorithm, 10, 60_000);
        let store = MemoryStore::new(1000);
        store.decide(NOW, &[charge(&meter, 1, 10 * UNIT)]);
        let other = restored(&bytes(&store, NOW), back).expect("ten minutes are no other time");
        assert!(left(&other, &meter, 1, back) < UNIT, "{}: the step granted something", algorithm.name());
        // Two windows after the charge, by the clock that stepped back, nothing of it may be left.
        let freed = NOW + Millis(120_000);
        assert_eq!(left(&other, &meter, 1, freed), 10 * UNIT, "{}", algorithm.name());
    }
}

#[test]
fn any_flipped_bit_and_any_lost_end_is_noticed() {
    let meter = meter(ALGORITHMS[1], 10, 60_000);
    let store = MemoryStore::new(1000);
    for caller in 0..3 {
        store.decide(NOW, &[charge(&meter, caller, UNIT)]);
    }
    let good = bytes(&store, NOW);
    assert!(restored(&good, NOW).is_ok());
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[place] ^= 1 << bit;
            assert!(restored(&bad, NOW).is_err(), "bit {bit} of byte {place}");
        }
        assert!(restored(&good[..place], NOW).is_err(), "cut off after {place}");
    }
}

#[test]
fn no_counter_is_missed_when_the_table_shrinks_between_two_pieces() {
    // One shard, so that a piece ends in its middle.
    let (long, short) = (meter(ALGORITHMS[1], 1000, 86_400_000), meter(ALGORITHMS[0], 10, 1000));
    let store = MemoryStore::new(127);
    for caller in 0..100 {
        store.decide(NOW, &[charge(&short, caller, UNIT)]);
    }
    for caller in 0..20 {
        for request in 0..900 {
            store.decide(NOW + Millis(request), &[charge(&long, caller, UNIT)]);
        }
    }
    let later = NOW + Millis(5000);
    let (mut export, mut all, mut piece) = (Export::new(&store, later), Vec::new(), Vec::new());
    while export.next(&mut piece) {
        all.extend_from_slice(&piece);
        if piece.len() >= PIECE_BYTES {
            store.sweep(later, 1000);
        }
    }
    assert!(export.records() > 20, "the shard was begun again: {} records", export.records());
    let other = restored(&all, later).expect("it is whole");
    for caller in 0..20 {
        assert_eq!(left(&other, &long, caller, later), 100 * UNIT, "{caller}");
    }
}

#[test]
fn a_piece_is_bounded_however_full_the_store_is() {
    let meter = meter(ALGORITHMS[1], 1000, 86_400_000);
    let store = MemoryStore::new(100);
    for caller in 0..50 {
        for request in 0..500 {
            store.decide(NOW + Millis(request), &[charge(&meter, caller, UNIT)]);
        }
    }
    let (mut export, mut piece, mut pieces) = (Export::new(&store, NOW), Vec::new(), 0);
    while export.next(&mut piece) {
        // The last record of a piece may begin just below its bound: 500 entries of 16 bytes, and its head.
        assert!(piece.len() < PIECE_BYTES + 500 * 16 + 64, "{} bytes", piece.len());
        pieces += 1;
    }
    assert!(pieces > 3, "{pieces} pieces");
}
