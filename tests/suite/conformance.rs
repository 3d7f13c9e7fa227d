//! One meaning: the same history gets the same answers from every store, for every algorithm.
//!
//! Each script of [`scripts::SCRIPTS`] runs for each algorithm on each store and is compared, answer by answer, with the
//! store in memory. A new algorithm is covered by being listed in `ALGORITHMS`, a new store by being a [`Kind`].

mod moves;
mod outage;
mod queues;
mod resets;
mod scene;
mod scripts;
mod stores;

use scene::{Per, Scene, take};
use scripts::{NOT_OF_THE_STAND_IN, SCRIPTS, Script};
use sluicegate::algorithm::{ALGORITHMS, Algorithm, UNIT};
use sluicegate::store::redis::script::is_log;
use stores::{Kind, Opened};

fn told(store: &Opened, (name, script): (&str, Script), algorithm: &'static dyn Algorithm) -> Vec<String> {
    let mut scene = Scene::new(&*store.store, &store.runtime, store.is_stand_in(), name, algorithm);
    script(&mut scene);
    scene.answers
}

/// All scripts for all algorithms; a store that differs fails with the first answer that does.
fn conforms(kind: Kind) {
    let (store, memory) = (Opened::start(kind), Opened::start(Kind::Memory));
    let mut different = Vec::new();
    for algorithm in ALGORITHMS {
        for script in SCRIPTS.iter().filter(|(name, _)| kind != Kind::StandIn || !NOT_OF_THE_STAND_IN.contains(name)) {
            let (told, expected) = (told(&store, *script, *algorithm), told(&memory, *script, *algorithm));
            if let Some(index) = (0..expected.len()).find(|index| told.get(*index) != expected.get(*index)) {
                let (told, expected) = (told.get(index), &expected[index]);
                different.push(format!("{} of {}:\n{told:?}\n{expected:?}", script.0, algorithm.name()));
            }
        }
    }
    assert!(different.is_empty(), "{kind:?} differs from memory:\n{}", different.join("\n"));
    moves::limits_keep_their_counters_with_every_owner(&store);
}

/// Counters that one key of Redis holds at most.
const OF_ONE_KEY: usize = 1000;

#[test]
fn a_caller_with_too_many_counters_for_a_key_loses_those_too_many_and_no_other() {
    let store = Opened::start(Kind::Single);
    for algorithm in ALGORITHMS.iter().filter(|algorithm| !is_log(**algorithm)) {
        let mut scene = Scene::new(&*store.store, &store.runtime, false, "many", *algorithm);
        let limits: Vec<_> =
            (0..OF_ONE_KEY + 60).map(|index| scene.limit(&format!("l{index}"), Per::Caller, 5)).collect();
        for some in limits.chunks(100) {
            scene.admitted(&some.iter().map(|limit| take(limit, UNIT)).collect::<Vec<_>>());
        }
        let kept: Vec<bool> = limits.iter().map(|limit| scene.remaining(limit) == 4 * UNIT).collect();
        assert_eq!(kept.iter().filter(|kept| **kept).count(), OF_ONE_KEY, "{}", algorithm.name());
        assert!(kept[OF_ONE_KEY..].iter().all(|kept| *kept), "{}: what was just charged is kept", algorithm.name());
    }
}

#[test]
fn memory_answers_as_expected() {
    conforms(Kind::Memory);
}

#[test]
fn one_redis_answers_as_memory_does() {
    conforms(Kind::Single);
}

#[test]
fn a_master_behind_sentinels_answers_as_memory_does() {
    conforms(Kind::Sentinel);
}

#[test]
fn a_cluster_answers_as_memory_does() {
    conforms(Kind::Cluster);
}

#[test]
fn the_stand_in_for_a_redis_that_is_down_answers_as_memory_does() {
    conforms(Kind::StandIn);
    let store = Opened::start(Kind::StandIn);
    for algorithm in ALGORITHMS {
        told(&store, ("share", scripts::the_stand_in_gives_all_it_has_for_a_cost_above_its_share), *algorithm);
    }
}
