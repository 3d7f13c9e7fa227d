//! Forgetting single counters in Redis, where several share a key: what stays, what is no counter, what is on its way.

use super::scene::{Limit, Per, Scene, one};
use super::stores::{Kind, Opened, single};
use crate::support::redis::{Answer, RedisCluster, RedisServer};
use sluicegate::algorithm::{FixedWindow, SlidingLog, UNIT};

/// Two counters in one key, one in another and one in a log's.
fn limits(scene: &Scene<'_>) -> [Limit; 4] {
    let log = scene.quota(5, 5);
    [
        scene.limit("a", Per::Caller, 5),
        scene.limit("b", Per::Caller, 5),
        scene.limit("route", Per::CallerAndRoute, 5),
        scene.of_algorithm("log", Per::Caller, &SlidingLog, log),
    ]
}

fn charge(scene: &mut Scene<'_>, limits: &[Limit; 4]) {
    scene.admitted(&limits.each_ref().map(one));
}

#[track_caller]
fn left(scene: &mut Scene<'_>, limits: &[Limit; 4], expected: [i64; 4]) {
    assert_eq!(limits.each_ref().map(|limit| scene.remaining(limit) / UNIT), expected);
}

#[test]
fn a_key_lives_as_long_as_what_a_reset_leaves_in_it_and_goes_with_the_last() {
    let server = RedisServer::start();
    let store = Opened::before(Kind::Single, &single(server.port));
    let mut scene = Scene::new(&*store.store, &store.runtime, false, "reset", &FixedWindow);
    let limits = limits(&scene);
    charge(&mut scene, &limits);
    assert_eq!(server.keys().len(), 3);
    scene.forget(&[&limits[0], &limits[3]], &[true, true]);
    assert_eq!(server.keys().len(), 2);
    for key in server.keys() {
        assert!(server.connect().text(&["PTTL", &key]).number() > 0, "{key} never ends");
    }
    scene.forget(&[&limits[1], &limits[2]], &[true, true]);
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[test]
fn a_reset_of_what_is_no_counter_is_no_failure() {
    let server = RedisServer::start();
    let store = Opened::before(Kind::Single, &single(server.port));
    let mut scene = Scene::new(&*store.store, &store.runtime, false, "foreign", &FixedWindow);
    let limits = limits(&scene);
    for foreign in [&["RPUSH", "KEY", "a"][..], &["SET", "KEY", "some text"], &["HSET", "KEY", "tokens", "5"]] {
        charge(&mut scene, &limits);
        let mut connection = server.connect();
        for key in server.keys() {
            connection.text(&["DEL", &key]);
            let words: Vec<&str> =
                foreign.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
            assert!(!matches!(connection.text(&words), Answer::Error(_)));
        }
        // The log's key is its own, whatever it holds.
        scene.forget(&limits.each_ref(), &[false, false, false, true]);
        charge(&mut scene, &limits);
        left(&mut scene, &limits, [4; 4]);
        scene.forget(&limits.each_ref(), &[true; 4]);
    }
}

#[test]
fn a_reset_reaches_keys_of_which_some_have_moved_to_another_master() {
    let cluster = RedisCluster::start(3, 0);
    let store = Opened::before(Kind::Cluster, &cluster.toml());
    let mut scene = Scene::new(&*store.store, &store.runtime, false, "moving", &FixedWindow);
    let limits = limits(&scene);
    charge(&mut scene, &limits);
    let keys: Vec<String> = cluster.masters.iter().flat_map(RedisServer::keys).collect();
    assert_eq!(keys.len(), 3);
    let (slot, from) = (cluster.slot(&keys[0]), cluster.holder(&keys[0]).expect("a master holds it"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_key(&keys[0], from, to);
    scene.forget(&[&limits[0], &limits[2], &limits[3]], &[true; 3]);
    left(&mut scene, &limits, [5, 4, 5, 5]);
    cluster.end_move(slot, from, to);
    left(&mut scene, &limits, [5, 4, 5, 5]);
}
