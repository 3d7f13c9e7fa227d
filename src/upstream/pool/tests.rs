use super::*;
use crate::config::model::HashKey;
use crate::time::Millis;
use crate::upstream::health::{PASS_OVER_AFTER, PASS_OVER_FOR};
use crate::upstream::key_of;

const NOW: Timestamp = Timestamp(1_000_000);
const RULES: Thresholds = Thresholds { fall: 1, rise: 1 };

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn place(name: &str, weight: u32, ports: &[u16]) -> Place {
    Place { name: name.into(), weight, addresses: ports.iter().map(|port| address(*port)).collect() }
}

/// Servers `a`, `b`, … on the ports 1, 2, …
fn pool(balance: Balance, checked: bool, weights: &[u32]) -> Pool {
    let pool = Pool::new(balance, checked);
    let names = ["a", "b", "c", "d"];
    let places = (1..).zip(weights).zip(names).map(|((port, weight), name)| place(name, *weight, &[port]));
    pool.settle(&places.collect::<Vec<_>>(), &[]);
    pool
}

fn ports(pool: &Pool, count: usize, now: Timestamp) -> Vec<u16> {
    (0..count).map(|_| pool.choose(None, &[], now).expect("a server may be used").member().address.port()).collect()
}

fn member(pool: &Pool, port: u16) -> Arc<Member> {
    pool.members().into_iter().find(|member| member.address.port() == port).expect("the pool has it")
}

fn fail(pool: &Pool, port: u16, now: Timestamp) -> bool {
    (0..PASS_OVER_AFTER).any(|_| pool.failed(&member(pool, port), now))
}

#[test]
fn turns_are_taken_by_weight() {
    assert_eq!(ports(&pool(Balance::RoundRobin, false, &[1, 2]), 6, NOW), [2, 1, 2, 2, 1, 2]);
}

#[test]
fn the_addresses_of_a_name_share_its_weight() {
    let pool = Pool::new(Balance::RoundRobin, false);
    pool.settle(&[place("one", 1, &[1]), place("many", 3, &[2, 3, 4])], &[]);
    let chosen = ports(&pool, 40, NOW);
    assert_eq!([1, 2, 3, 4].map(|port| chosen.iter().filter(|each| **each == port).count()), [10; 4]);
}

#[test]
fn servers_that_checks_took_down_get_nothing_even_when_no_other_is_left() {
    let pool = pool(Balance::RoundRobin, true, &[1, 1]);
    assert!(member(&pool, 1).checked(false, RULES));
    assert_eq!(ports(&pool, 3, NOW), [2; 3]);
    assert!(pool.choose(None, &[address(2)], NOW).is_some_and(|attempt| attempt.member().address == address(2)));
    member(&pool, 2).checked(false, RULES);
    assert!(pool.choose(None, &[], NOW).is_none());
    assert!(!pool.is_used("a", NOW));
    member(&pool, 1).checked(true, RULES);
    assert_eq!(ports(&pool, 2, NOW), [1; 2]);
}

#[test]
fn a_server_that_fails_in_a_row_is_passed_over_until_one_request_tries_it() {
    let pool = pool(Balance::RoundRobin, false, &[1, 1]);
    assert!(fail(&pool, 1, NOW));
    assert_eq!(ports(&pool, 4, NOW), [2; 4]);
    assert!(!pool.is_used("a", NOW));
    let later = NOW + PASS_OVER_FOR;
    let chosen = ports(&pool, 8, later);
    assert_eq!(chosen.iter().filter(|port| **port == 1).count(), 1, "{chosen:?}");
    assert!(member(&pool, 1).answered());
    assert_eq!(ports(&pool, 8, later).iter().filter(|port| **port == 1).count(), 4);
}

#[test]
fn the_last_good_server_is_never_passed_over() {
    let pool = pool(Balance::RoundRobin, false, &[1, 1]);
    assert!(fail(&pool, 1, NOW));
    assert!(!fail(&pool, 2, NOW));
    assert_eq!(ports(&pool, 2, NOW), [2; 2]);
    let alone = self::pool(Balance::RoundRobin, false, &[1]);
    assert!(!fail(&alone, 1, NOW) && alone.is_used("a", NOW));
}

#[test]
fn a_retry_goes_to_another_server_if_there_is_one() {
    for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Hash(HashKey::Ip)] {
        let pool = pool(balance, false, &[9, 1]);
        let key = Some(key_of("ip", b"203.0.113.7"));
        let first = pool.choose(key, &[], NOW).expect("there is a server").member().address;
        let second = pool.choose(key, &[first], NOW).expect("there is another").member().address;
        assert_ne!(first, second);
        assert!(fail(&pool, second.port(), NOW));
        let again = pool.choose(key, &[first], NOW).expect("there is another").member().address;
        assert_eq!(again, second, "one that is passed over is better than the one that just failed");
        assert!(pool.choose(key, &[first, second], NOW).is_some(), "rather the same one than none");
    }
}

#[test]
fn the_fewest_requests_in_flight_decide_and_are_given_back_when_they_end() {
    let pool = pool(Balance::LeastConnections, false, &[1, 2]);
    let mut open: Vec<_> = (0..6).map(|_| pool.choose(None, &[], NOW).expect("there is a server")).collect();
    assert_eq!((member(&pool, 1).in_flight(), member(&pool, 2).in_flight()), (2, 4));
    open.retain(|attempt| attempt.member().address.port() == 1);
    assert_eq!((member(&pool, 1).in_flight(), member(&pool, 2).in_flight()), (2, 0));
    assert_eq!(pool.choose(None, &[], NOW).expect("there is a server").member().address.port(), 2);
}

#[test]
fn a_key_stays_with_its_server_and_comes_back_to_it() {
    let pool = pool(Balance::Hash(HashKey::Ip), true, &[1, 1, 1]);
    let choose = |key: u64| pool.choose(Some(key), &[], NOW).expect("a server may be used").member().address.port();
    let keys: Vec<u64> = (0..300_u32).map(|number| key_of("ip", &number.to_le_bytes())).collect();
    let before: Vec<u16> = keys.iter().map(|key| choose(*key)).collect();
    member(&pool, 2).checked(false, RULES);
    for (key, server) in keys.iter().zip(&before) {
        assert!(if *server == 2 { choose(*key) != 2 } else { choose(*key) == *server });
    }
    member(&pool, 2).checked(true, RULES);
    assert_eq!(keys.iter().map(|key| choose(*key)).collect::<Vec<_>>(), before);
}

#[test]
fn what_is_known_of_an_address_outlives_the_pool() {
    let old = pool(Balance::RoundRobin, true, &[1, 1]);
    member(&old, 1).checked(false, RULES);
    let open = old.choose(None, &[], NOW).expect("b is good");
    let new = Pool::new(Balance::LeastConnections, true);
    new.settle(&[place("a", 5, &[1, 3]), place("b", 1, &[2]), place("c", 1, &[1])], &old.members());
    let known: Vec<_> = new.members().iter().map(|member| (member.standing(true, NOW), member.in_flight())).collect();
    assert_eq!(known, [(Standing::Down, 0), (Standing::Good, 0), (Standing::Good, 1), (Standing::Good, 0)]);
    drop(open);
    assert_eq!(new.members()[2].in_flight(), 0);
}

#[test]
fn new_addresses_keep_the_turns_of_the_old_ones() {
    let pool = pool(Balance::RoundRobin, false, &[1, 1]);
    assert_eq!(ports(&pool, 1, NOW), [1]);
    pool.settle(&[place("a", 1, &[1]), place("b", 1, &[2])], &pool.members());
    assert_eq!(ports(&pool, 2, NOW + Millis(1)), [2, 1]);
}
