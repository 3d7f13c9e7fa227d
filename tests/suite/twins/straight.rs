//! Decisions with few charges, whose script is written out for their algorithms: each order of algorithms is another text.

use super::stores::{Ask, Limit, NOW, World, ask, asks, limit, moved, plain, requests, with_server};
use super::*;
use sluicegate::algorithm::ALGORITHMS;
use sluicegate::store::redis::script::{self, MAX_STRAIGHT};

/// Those whose counters lie in strings.
fn in_strings() -> Vec<&'static dyn Algorithm> {
    ALGORITHMS.iter().copied().filter(|algorithm| !script::is_log(*algorithm)).collect()
}

/// Up to as many limits as a text is written out for, of any algorithms in any order; true: in the group of the one before.
fn few() -> impl Strategy<Value = Vec<(Grant, usize, bool)>> {
    prop::collection::vec((grants(), 0..in_strings().len(), any::<bool>()), 1..=MAX_STRAIGHT)
}

fn limits(few: &[(Grant, usize, bool)]) -> Vec<Limit> {
    let algorithms = in_strings();
    // All groups are of the caller: the one that all share has another number.
    let mut group = 10;
    let one = |(index, (grant, algorithm, together)): (usize, &(Grant, usize, bool))| {
        group += usize::from(!together);
        let algorithm = algorithms[*algorithm];
        limit(&format!("limit{index}"), algorithm, grant.quota(algorithm), group)
    };
    few.iter().enumerate().map(one).collect()
}

#[test]
fn histories_of_decisions_with_few_charges_agree() {
    with_server(|server| {
        proptest!(ProptestConfig::with_cases(150), |(few in few(), requests in requests(), start in 1..=2_000_000_000_000i64)| {
            let (limits, mut world, mut now) = (limits(&few), World::new(server), start);
            for request in &requests {
                now += moved(request.advance, &limits);
                // Now and then some of them: the others' records stay where they are, and the text is another.
                let chosen = if request.chosen < 64 { request.chosen } else { 0xff };
                let asks = asks(&limits, request, chosen);
                if !asks.is_empty() {
                    world.acquire(now, &asks);
                }
            }
        });
    });
}

#[test]
fn each_pair_of_algorithms_agrees_in_one_string_and_in_two() {
    with_server(|server| {
        for (first, second) in
            in_strings().into_iter().flat_map(|one| in_strings().into_iter().map(move |two| (one, two)))
        {
            for (groups, window) in [([0, 0], Window::Month), ([0, 1], Window::Span(Millis(7000)))] {
                let mut world = World::new(server);
                let calendar = Grant { count: 4 * UNIT, capacity: 1000, window, max_wait: None }.quota(second);
                let limits = [
                    limit("first", first, plain(first, 6, 5000), groups[0]),
                    limit("second", second, calendar, groups[1]),
                ];
                let admitted = (0..12)
                    .filter(|step| {
                        let both = [ask(&limits[0], UNIT), Ask { enforced: step % 3 > 0, ..ask(&limits[1], UNIT) }];
                        world.acquire(NOW + 400 * step, &both).outcome.admitted
                    })
                    .count();
                assert!((5..12).contains(&admitted), "{} and {}: {admitted}", first.name(), second.name());
            }
        }
    });
}

#[test]
fn a_time_to_live_that_was_lost_heals_with_the_next_charge() {
    with_server(|server| {
        for algorithm in in_strings() {
            let mut world = World::new(server);
            let limits = [
                limit("a", algorithm, plain(algorithm, 5, 60_000), 0),
                limit("b", algorithm, plain(algorithm, 5, 9_000), 0),
            ];
            for step in 0..4 {
                // The world takes the time to live away after each call, and holds what it was against the arithmetic.
                let outcome = world.acquire(NOW + 1000 * step, &[ask(&limits[0], UNIT), ask(&limits[1], UNIT)]).outcome;
                assert!(outcome.admitted);
                assert_eq!(world.redis.text(&["TTL", "group0:1"]).number(), -1);
            }
        }
    });
}
