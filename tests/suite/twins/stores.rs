//! Whole decisions: a real Redis with the shipped scripts against the store in memory, under a clock of the test.

use super::*;
use crate::support::redis::{Answer, Connection, RedisServer};
use sluicegate::algorithm::{ALGORITHMS, State, Wait};
use sluicegate::charge::{Charge, Correction, Meter, Outcome, Part};
use sluicegate::store::memory::MemoryStore;
use sluicegate::store::redis::script::{self, Acquired, Place, Purpose, Script, Shape, Twin, record_id};
use sluicegate::store::{Answer as StoreAnswer, Store};
use sluicegate::time::Timestamp;
use std::collections::BTreeMap;

/// A key ends at most this long after its counters matter no more.
const TTL_SLACK_MS: i64 = 1000;

/// A limit and the group its counters are packed in.
pub(super) struct Limit {
    pub meter: Meter,
    pub group: usize,
}

impl Limit {
    fn is_log(&self) -> bool {
        script::is_log(self.meter.algorithm)
    }

    fn key(&self, caller: u8) -> String {
        if self.is_log() {
            format!("{}:{caller}", self.meter.identity)
        } else {
            format!("group{}:{caller}", self.group)
        }
    }
}

/// What one request asks of one limit.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub limit: &'a Limit,
    pub caller: [u8; 1],
    pub cost: Units,
    pub enforced: bool,
}

impl<'a> Ask<'a> {
    fn charge(&self) -> Charge<'a> {
        let parts = [Part::Owned("caller".into(), self.caller.into())].into_iter().collect();
        Charge { meter: &self.limit.meter, parts, cost: self.cost, enforced: self.enforced }
    }
}

/// Both stores, and what each counter holds by the arithmetic itself.
pub(super) struct World {
    memory: MemoryStore,
    pub redis: Connection,
    /// By identity and caller: the state, when it is fresh, and the key.
    states: BTreeMap<(String, u8), (State, i64, String)>,
}

/// The keys of a call, strings first, and each row's place in them.
fn places<'a>(counters: impl Iterator<Item = (&'a Limit, u8)> + Clone) -> (Vec<String>, usize, Vec<Place>) {
    let mut keys: Vec<String> = Vec::new();
    for logs in [false, true] {
        for key in counters.clone().filter(|(limit, _)| limit.is_log() == logs).map(|(limit, caller)| limit.key(caller))
        {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let groups = keys.iter().filter(|key| key.starts_with("group")).count();
    let place = |(limit, caller): (&Limit, u8)| Place {
        key: keys.iter().position(|key| *key == limit.key(caller)).expect("it was put there"),
        record: record_id(&limit.meter.identity),
    };
    let places = counters.map(place).collect();
    (keys, groups, places)
}

impl World {
    pub fn new(server: &RedisServer) -> Self {
        let mut redis = server.connect();
        redis.text(&["FLUSHALL"]);
        Self { memory: MemoryStore::new(10_000), redis, states: BTreeMap::new() }
    }

    /// Runs a script, and reads and takes away the time to live of each key in the same instant, so that real time takes
    /// no part in a history of made-up time.
    fn run(&mut self, script: &Script, keys: &[String], arguments: &[u8]) -> (Vec<u8>, Vec<i64>) {
        self.redis.text(&["SCRIPT", "LOAD", &script.text]);
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", script.sha1.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(|key| key.as_bytes()));
        words.push(arguments);
        self.redis.text(&["MULTI"]);
        self.redis.text(&["TIME"]);
        self.redis.call(&words);
        for key in keys {
            self.redis.text(&["PEXPIRETIME", key]);
            self.redis.text(&["PERSIST", key]);
        }
        let answers = self.redis.text(&["EXEC"]);
        let answers = answers.list();
        if let Answer::Error(error) = &answers[1] {
            panic!("{error}\n{}", script.text);
        }
        // Counted from before the script, not from now: Redis may be made to wait in between for any time.
        let parts: Vec<i64> = answers[0].list().iter().map(digits).collect();
        let begun = parts[0] * 1000 + parts[1] / 1000;
        let ttl = |pair: &[Answer]| Some(pair[0].number()).filter(|end| *end >= 0).map_or(-1, |end| end - begun);
        (answers[1].bytes().to_vec(), answers[2..].chunks(2).map(ttl).collect())
    }

    /// Every key and value.
    fn dump(&mut self) -> Vec<(Vec<u8>, Answer)> {
        let keys = self.redis.text(&["KEYS", "*"]);
        let mut keys: Vec<Vec<u8>> = keys.list().iter().map(|key| key.bytes().to_vec()).collect();
        keys.sort();
        keys.into_iter().map(|key| (key.clone(), self.redis.call(&[b"DUMP", &key]))).collect()
    }

    pub fn acquire(&mut self, now: i64, asks: &[Ask<'_>]) -> Acquired {
        let charges: Vec<Charge<'_>> = asks.iter().map(Ask::charge).collect();
        let StoreAnswer::Ready(Ok(expected)) = self.memory.acquire(Timestamp(now), &charges) else {
            panic!("the store in memory answers at once")
        };
        let (keys, groups, places) = places(asks.iter().map(|ask| (ask.limit, ask.caller[0])));
        let (script, arguments) = script::acquire(Some(Timestamp(now)), groups, &charges, &places);
        let before = self.dump();
        let (reply, ttls) = self.run(script, &keys, &arguments);
        let acquired = script::read_acquired(&reply, asks.len()).expect("a reply of this script");
        same(&acquired.outcome, &expected);
        if !expected.admitted {
            assert_eq!(self.dump(), before, "a refusal wrote something");
            return acquired;
        }
        for (ask, reading) in asks.iter().zip(&expected.readings) {
            if reading.wait == Wait::Now && ask.cost > 0 {
                self.follow(ask, now, |meter, state| {
                    meter.algorithm.charge(&meter.quota, state, Timestamp(now), ask.cost, expected.delay);
                });
            }
        }
        self.check_ttls(now, &keys, &ttls);
        acquired
    }

    fn follow(&mut self, ask: &Ask<'_>, now: i64, change: impl FnOnce(&Meter, &mut State)) {
        let meter = &ask.limit.meter;
        let counter = (meter.identity.to_string(), ask.caller[0]);
        let key = ask.limit.key(ask.caller[0]);
        let (state, fresh_at, _) = self.states.entry(counter).or_insert((State::FRESH, now, key));
        change(meter, state);
        *fresh_at = meter.algorithm.fresh_at(&meter.quota, state, Timestamp(now)).0;
    }

    /// Every key that was written ends when the last of its counters equals a fresh one.
    fn check_ttls(&self, now: i64, keys: &[String], ttls: &[i64]) {
        for (key, ttl) in keys.iter().zip(ttls).filter(|(_, ttl)| **ttl >= 0) {
            let counters = self.states.values().filter(|(_, _, holder)| holder == key);
            let fresh_at = counters.map(|(_, fresh_at, _)| *fresh_at).max().expect("something was charged");
            let late = now + ttl - fresh_at;
            assert!((-5..=TTL_SLACK_MS).contains(&late), "{key} ends {late} ms after it is fresh");
        }
    }

    fn settle(&mut self, now: i64, at: i64, delta: Units, ask: &Ask<'_>) {
        let parts = [Part::Owned("caller".into(), ask.caller.into())].into_iter().collect();
        let corrections = [Correction { meter: &ask.limit.meter, parts, at: Timestamp(at), delta, stand_in: false }];
        let StoreAnswer::Ready(Ok(())) = self.memory.settle(Timestamp(now), &corrections) else {
            panic!("the store in memory answers at once")
        };
        let (keys, groups, places) = places([(ask.limit, ask.caller[0])].into_iter());
        let mut arguments = Vec::new();
        script::write_corrections(&mut arguments, Some(Timestamp(now)), groups, &corrections, &places);
        let (reply, _) = self.run(Script::of(Purpose::Settle, Shape::of_corrections(&corrections)), &keys, &arguments);
        assert_eq!(script::read_settled(&reply).expect("a reply of this script").at, Timestamp(now));
        self.follow(ask, now, |meter, state| match delta {
            0.. => meter.algorithm.debit(&meter.quota, state, Timestamp(now), Timestamp(at), delta),
            _ => meter.algorithm.refund(&meter.quota, state, Timestamp(now), Timestamp(at), -delta),
        });
    }
}

/// A number that is told as text.
fn digits(answer: &Answer) -> i64 {
    std::str::from_utf8(answer.bytes()).ok().and_then(|text| text.parse().ok()).expect("a number in digits")
}

#[track_caller]
fn same(outcome: &Outcome, expected: &Outcome) {
    assert_eq!((outcome.admitted, outcome.at, outcome.delay), (expected.admitted, expected.at, expected.delay));
    assert_eq!(outcome.readings, expected.readings);
}

pub(super) fn limit(name: &str, algorithm: &'static dyn Algorithm, quota: Quota, group: usize) -> Limit {
    Limit { meter: Meter::alone(name, algorithm, quota), group }
}

/// One limit of each algorithm and grant; groups as given.
fn limits(grants: &[Grant], groups: &[usize]) -> Vec<Limit> {
    let one = |(index, grant): (usize, &Grant)| {
        let algorithm = ALGORITHMS[index % ALGORITHMS.len()];
        limit(&format!("limit{index}"), algorithm, grant.quota(algorithm), groups[index % groups.len()])
    };
    grants.iter().enumerate().map(one).collect()
}

/// A quota of a day or so and a few units.
pub(super) fn plain(algorithm: &'static dyn Algorithm, count: i64, window_ms: i64) -> Quota {
    let quota =
        Quota { count: count * UNIT, window: Window::Span(Millis(window_ms)), capacity: count * UNIT, max_wait: None };
    algorithm.check(&quota).expect("a quota that the algorithm can serve");
    quota
}

/// One server for all histories of a test.
pub(super) fn with_server<T>(test: impl FnOnce(&RedisServer) -> T) -> T {
    let server = RedisServer::start();
    test(&server)
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub advance: (i64, i64),
    caller: u8,
    cost: (Units, i64),
    /// Bits: which limits, which of them in earnest.
    pub chosen: u8,
    enforced: u8,
    /// What to correct of it, in thousandths of the capacity; 0: nothing.
    correction: i64,
}

pub(super) fn requests() -> impl Strategy<Value = Vec<Request>> {
    let advance = prop_oneof![3 => (Just(0i64), 0..=2i64), 3 => (0..=200i64, 0..=2i64), 1 => (0..=2500i64, 0..=2i64)];
    let enforced = prop_oneof![2 => Just(0xffu8), 1 => any::<u8>()];
    let correction = prop_oneof![3 => Just(0i64), 1 => -1200..=1200i64];
    let request = (advance, 0..2u8, costs(), any::<u8>(), enforced, correction);
    let request = request.prop_map(|(advance, caller, cost, chosen, enforced, correction)| Request {
        advance,
        caller,
        cost,
        chosen,
        enforced,
        correction,
    });
    prop::collection::vec(request, 1..25)
}

pub(super) fn moved(advance: (i64, i64), limits: &[Limit]) -> i64 {
    let shortest = limits.iter().map(|limit| limit.meter.quota.window.nominal().0).min().expect("there are limits");
    exact::mul_div_floor(advance.0, shortest, 1000) + advance.1
}

pub(super) fn asks<'a>(limits: &'a [Limit], request: &Request, chosen: u8) -> Vec<Ask<'a>> {
    let one = |(index, limit): (usize, &'a Limit)| Ask {
        limit,
        // The last group is one that all callers share.
        caller: [if limit.group == 2 { 9 } else { request.caller }],
        cost: cost_of(request.cost, &limit.meter.quota),
        enforced: request.enforced >> index & 1 == 1,
    };
    limits.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1).map(one).collect()
}

#[test]
fn histories_of_decisions_agree() {
    with_server(|server| {
        let setup = (prop::collection::vec(grants(), 1..=7), prop::collection::vec(0..=2usize, 7));
        proptest!(ProptestConfig::with_cases(120), |((grants, groups) in setup, requests in requests(), start in 1..=2_000_000_000_000i64)| {
            let (limits, mut world, mut now) = (limits(&grants, &groups), World::new(server), start);
            for request in &requests {
                now += moved(request.advance, &limits);
                let asks = asks(&limits, request, request.chosen);
                if asks.is_empty() {
                    continue;
                }
                let admitted = world.acquire(now, &asks).outcome.admitted;
                if let Some(ask) = asks.first().filter(|_| admitted && request.correction != 0) {
                    world.settle(now, now, cost_of((0, request.correction.abs()), &ask.limit.meter.quota) * request.correction.signum(), ask);
                }
            }
        });
    });
}

#[test]
fn histories_under_a_clock_that_jumps_agree() {
    with_server(|server| {
        let setup = (prop::collection::vec(grants(), 1..=7), prop::collection::vec(0..=2usize, 7));
        let jumps = prop::collection::vec(-3000..=3000i64, 25);
        proptest!(ProptestConfig::with_cases(80), |((grants, groups) in setup, requests in requests(), jumps in jumps, start in 10_000..=2_000_000_000_000i64)| {
            let (limits, mut world, mut now) = (limits(&grants, &groups), World::new(server), start);
            for (request, jump) in requests.iter().zip(jumps) {
                now = (now + moved(request.advance, &limits) + jump).max(1);
                // All counters are named and charged each time: what nobody charges may leave, and a clock that steps
                // back does not bring it again.
                let request = Request { cost: (request.cost.0.max(1), request.cost.1), enforced: 0xff, ..request.clone() };
                world.acquire(now, &asks(&limits, &request, 0xff));
            }
        });
    });
}

#[test]
fn corrections_that_come_late_agree() {
    with_server(|server| {
        let setup = (prop::collection::vec(grants(), 5), requests(), prop::collection::vec(0..=2000i64, 25));
        proptest!(ProptestConfig::with_cases(60), |((grants, requests, ago) in setup, start in 1..=2_000_000_000_000i64)| {
            let limits = limits(&grants, &[3, 4, 5, 6, 7]);
            let (mut world, mut now) = (World::new(server), start);
            for (request, ago) in requests.iter().zip(ago) {
                now += moved(request.advance, &limits);
                for ask in asks(&limits, request, 0xff) {
                    world.acquire(now, &[ask]);
                    let quota = &ask.limit.meter.quota;
                    let at = now - exact::mul_div_floor(ago, quota.window.nominal().0, 1000);
                    if request.correction != 0 {
                        let amount = cost_of((0, request.correction.abs()), quota) * request.correction.signum();
                        world.settle(now, at, amount, &ask);
                    }
                }
            }
        });
    });
}

/// What is asked of a single limit by caller 1.
pub(super) fn ask(limit: &Limit, cost: Units) -> Ask<'_> {
    Ask { limit, caller: [1], cost, enforced: true }
}

pub(super) const NOW: i64 = 1_800_000_000_000;

#[test]
fn a_counter_named_twice_in_one_request_has_to_hold_both() {
    with_server(|server| {
        for algorithm in ALGORITHMS {
            let mut world = World::new(server);
            let limit = limit("l", *algorithm, plain(*algorithm, 3, 60_000), 0);
            assert!(!world.acquire(NOW, &[ask(&limit, 2 * UNIT), ask(&limit, 2 * UNIT)]).outcome.admitted);
            assert!(world.acquire(NOW, &[ask(&limit, UNIT), ask(&limit, 0), ask(&limit, 2 * UNIT)]).outcome.admitted);
            assert!(!world.acquire(NOW, &[ask(&limit, UNIT)]).outcome.admitted);
        }
    });
}

#[test]
fn the_longest_delay_is_that_of_every_bucket() {
    let leaky = ALGORITHMS.iter().find(|algorithm| algorithm.name() == "leaky_bucket").expect("listed");
    with_server(|server| {
        let mut world = World::new(server);
        let (slow, fast) =
            (limit("slow", *leaky, plain(*leaky, 10, 10_000), 0), limit("fast", *leaky, plain(*leaky, 10, 1000), 1));
        let delays: Vec<i64> = (0..20)
            .map(|_| world.acquire(NOW, &[ask(&slow, UNIT), ask(&fast, UNIT)]).outcome)
            .filter(|outcome| outcome.admitted)
            .map(|outcome| outcome.delay.0)
            .collect();
        assert_eq!(delays, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
    });
}

#[test]
fn values_of_another_type_or_format_are_fresh_replaced_and_counted() {
    let foreign: [&[&str]; 7] = [
        &["SET", "KEY", "some text"],
        &["SET", "KEY", ""],
        &["SET", "KEY", "01234567890123456789012345678901234567890123456_"],
        &["SET", "KEY", "0123456789012345678901234567890123456789"],
        &["RPUSH", "KEY", "a"],
        &["HSET", "KEY", "tokens", "5"],
        &["ZADD", "KEY", "5", "member"],
    ];
    with_server(|server| {
        for algorithm in ALGORITHMS {
            let (own, other) = (
                limit("own", *algorithm, plain(*algorithm, 5, 60_000), 0),
                limit("other", *algorithm, plain(*algorithm, 5, 60_000), 1),
            );
            for (index, command) in foreign.iter().enumerate() {
                let mut world = World::new(server);
                let key = own.key(1);
                let words: Vec<&str> =
                    command.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
                world.redis.text(&words);
                let both = [ask(&own, UNIT), ask(&other, UNIT)];
                let asks = if index % 2 == 0 { &both[..1] } else { &both[..] };
                let peek = [Ask { cost: 0, ..asks[0] }];
                assert_eq!(world.acquire(NOW, &peek).replaced, 0, "nothing is written");
                assert_eq!(world.acquire(NOW, asks).replaced, 1, "{} {words:?}", algorithm.name());
                assert_eq!(world.acquire(NOW, asks).replaced, 0, "{} {words:?}", algorithm.name());
                assert_eq!(world.acquire(NOW, asks).outcome.readings[0].remaining, 2 * UNIT);
            }
        }
    });
}

#[test]
fn counters_that_a_call_does_not_name_stay_as_long_as_they_matter() {
    let algorithm = ALGORITHMS[0];
    with_server(|server| {
        let mut world = World::new(server);
        let (hour, second) = (
            limit("hour", algorithm, plain(algorithm, 5, 3_600_000), 0),
            limit("second", algorithm, plain(algorithm, 5, 1000), 0),
        );
        assert!(world.acquire(NOW, &[ask(&hour, UNIT)]).outcome.admitted);
        let length = |world: &mut World| world.redis.text(&["STRLEN", "group0:1"]).number();
        assert_eq!(length(&mut world), 40);
        for step in 0..3 {
            // The first of a second finds the last one's record, the next its own.
            world.redis.text(&["GET", "group0:1"]);
            let now = NOW + 1000 * step;
            let arguments = [ask(&second, UNIT)];
            let charges: Vec<Units> = (0..2).map(|_| run_alone(&mut world, now, &arguments)).collect();
            assert_eq!(charges, [4 * UNIT, 3 * UNIT]);
            assert_eq!(length(&mut world), 78);
        }
        assert_eq!(run_alone(&mut world, NOW + 5000, &[ask(&hour, UNIT)]), 3 * UNIT);
        assert_eq!(length(&mut world), 40, "the second's record has left");
    });
}

/// Decides in Redis alone, and says what remains of the first.
fn run_alone(world: &mut World, now: i64, asks: &[Ask<'_>]) -> Units {
    let memory = std::mem::replace(&mut world.memory, MemoryStore::new(10));
    let (acquired, _) = decide(world, Some(Timestamp(now)), asks);
    world.memory = memory;
    acquired.outcome.readings[0].remaining
}

fn decide(world: &mut World, clock: Option<Timestamp>, asks: &[Ask<'_>]) -> (Acquired, Vec<String>) {
    let charges: Vec<Charge<'_>> = asks.iter().map(Ask::charge).collect();
    let (keys, groups, places) = places(asks.iter().map(|ask| (ask.limit, ask.caller[0])));
    let (script, arguments) = script::acquire(clock, groups, &charges, &places);
    let count = keys.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"EVAL", script.text.as_bytes(), count.as_bytes()];
    words.extend(keys.iter().map(|key| key.as_bytes()));
    words.push(&arguments);
    let reply = world.redis.call(&words);
    (script::read_acquired(reply.bytes(), asks.len()).expect("a reply of this script"), keys)
}

#[test]
fn by_the_clock_of_redis_every_key_ends_when_its_counters_are_fresh() {
    with_server(|server| {
        let mut world = World::new(server);
        let limits: Vec<Limit> = ALGORITHMS
            .iter()
            .enumerate()
            .map(|(index, algorithm)| {
                limit(algorithm.name(), *algorithm, plain(*algorithm, 50, 20_000 + 7000 * index as i64), index % 2)
            })
            .collect();
        let mut fresh: BTreeMap<String, i64> = BTreeMap::new();
        let mut states: Vec<State> = limits.iter().map(|_| State::FRESH).collect();
        for _ in 0..40 {
            let asks: Vec<Ask<'_>> = limits.iter().map(|limit| ask(limit, UNIT)).collect();
            let (acquired, keys) = decide(&mut world, None, &asks);
            let (outcome, mut ends) = (acquired.outcome, BTreeMap::new());
            assert!(outcome.admitted);
            for (limit, state) in limits.iter().zip(&mut states) {
                let (algorithm, quota) = (limit.meter.algorithm, &limit.meter.quota);
                algorithm.charge(quota, state, outcome.at, UNIT, outcome.delay);
                let end = ends.entry(limit.key(1)).or_insert(0);
                *end = i64::max(*end, algorithm.fresh_at(quota, state, outcome.at).0);
            }
            fresh.extend(ends);
            for key in keys {
                let late = world.redis.text(&["PEXPIRETIME", &key]).number() - fresh[&key];
                assert!((0..=TTL_SLACK_MS).contains(&late), "{key} ends {late} ms after it is fresh");
            }
        }
    });
}

#[test]
fn a_digest_is_that_of_the_text() {
    with_server(|server| {
        let mut redis = server.connect();
        for algorithm in ALGORITHMS {
            let twin: Option<&Twin> = script::TWINS.iter().find(|twin| twin.name == algorithm.name());
            assert!(twin.is_some_and(|twin| !twin.files.is_empty()));
            for purpose in [Purpose::Acquire, Purpose::Settle] {
                let script = Script::of(purpose, Shape::of([(*algorithm, &plain(*algorithm, 1, 1000))]));
                assert_eq!(
                    redis.text(&["SCRIPT", "LOAD", &script.text]),
                    Answer::Bytes(script.sha1.clone().into_bytes())
                );
            }
        }
    });
}
