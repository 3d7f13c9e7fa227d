//! Several leaky buckets that hold one request: what holds everywhere, and what only where they share a slot.

use super::scene::{Limit, MINUTE, Per, Scene, one};
use super::stores::{Kind, Opened};
use sluicegate::algorithm::{LeakyBucket, UNIT, Wait};

/// One request leaves the slow bucket each ten minutes, and each minute the fast one.
const SLOW: i64 = 10 * MINUTE;
const FAST: i64 = MINUTE;

struct Queues<'a> {
    scene: Scene<'a>,
    slow: Limit,
    fast: Limit,
}

impl<'a> Queues<'a> {
    /// The slow one is the caller's, the fast one of `per`.
    fn new(store: &'a Opened, name: &str, per: Per) -> Self {
        let scene = Scene::new(&*store.store, &store.runtime, false, name, &LeakyBucket);
        let (slow, fast) = (scene.limit("slow", Per::Caller, 6), scene.limit("fast", per, 60));
        Self { scene, slow, fast }
    }

    /// When requests under both leave.
    fn through_both(&mut self, count: usize) -> Vec<i64> {
        let all = [one(&self.slow), one(&self.fast)];
        (0..count).map(|_| self.scene.admitted(&all).delay.0 + self.scene.now).collect()
    }

    fn through_the_fast(&mut self, count: usize) -> Vec<i64> {
        let all = [one(&self.fast)];
        (0..count).map(|_| self.scene.admitted(&all).delay.0 + self.scene.now).collect()
    }
}

#[track_caller]
fn apart(departures: &[i64], least: i64) {
    let mut departures = departures.to_vec();
    departures.sort_unstable();
    assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= least), "{departures:?}");
}

#[test]
fn departures_of_buckets_with_one_subject_are_apart_in_each_of_them_on_a_cluster_too() {
    for kind in [Kind::Memory, Kind::Cluster] {
        let store = Opened::start(kind);
        // Another key of the same subject, and the same key.
        for (name, per) in [("two-keys", Per::CallerAndRoute), ("one-key", Per::Caller)] {
            let mut queues = Queues::new(&store, name, per);
            let mut departures = queues.through_both(4);
            apart(&departures, SLOW);
            departures.extend(queues.through_the_fast(10));
            apart(&departures, FAST);
        }
    }
}

#[test]
fn departures_of_buckets_in_different_slots_are_apart_in_each_by_its_own_account() {
    let store = Opened::start(Kind::Cluster);
    let mut queues = Queues::new(&store, "two-slots", Per::Tenant);
    // The longest hold is everybody's: who is in both leaves when the slow one lets go.
    let both = queues.through_both(6);
    apart(&both, SLOW);
    // The fast one counts these six as gone each minute. Its others are apart from each other, and from what it thinks.
    let others = queues.through_the_fast(10);
    let counted: Vec<i64> = (0..6).map(|place| queues.scene.now + place * FAST).chain(others.iter().copied()).collect();
    apart(&counted, FAST);
    assert!(
        others.iter().any(|other| both.contains(other)),
        "with a shared slot they would be apart: say so on the page"
    );
    // Neither queue takes more than it holds, and a refusal of one takes no place in the other.
    let all = [one(&queues.slow), one(&queues.fast)];
    for _ in 0..3 {
        let outcome = queues.scene.decide(&all);
        assert!(!outcome.admitted && matches!(outcome.readings[0].wait, Wait::After(_)));
        assert_eq!(outcome.readings[1].remaining, (60 - 16) * UNIT);
    }
    let filled = queues.scene.fill(&queues.fast);
    assert_eq!(filled.0, 60 - 16);
}
