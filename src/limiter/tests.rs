//! The decision from end to end, on the memory store: which check speaks first, what is charged, what is shown.

use super::assess::{Assessment, Inputs, address, assess};
use super::*;
use crate::algorithm::UNIT;
use crate::charge::Part;
use crate::config::load_text;
use crate::policy::ANONYMOUS;
use crate::store::memory::MemoryStore;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const NOW: Timestamp = Timestamp(1_796_095_500_000);

/// The digest of the key `right`.
const RIGHT: &str = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9";

fn policy_with_keys(main: &str, keys: &str) -> Policy {
    let main = format!("{main}\n[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n");
    let loaded = load_text("test.toml", &main, Some(keys), &|_| None);
    let (policy, problems) = crate::policy::compile(&loaded.config.expect("valid TOML"));
    policy.unwrap_or_else(|| panic!("{:?} {problems:?}", loaded.problems))
}

fn policy(main: &str) -> Policy {
    policy_with_keys(main, "")
}

/// One route that takes everything, under these limits.
fn limited(limits: &[&str]) -> Policy {
    let limits = limits.iter().map(|limit| format!("{{ {limit} }}")).collect::<Vec<_>>().join(", ");
    policy(&format!("[[routes]]\nmatch = \"*\"\nlimits = [{limits}]"))
}

/// What a decision in memory gives: it never waits for anything.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

fn decided(policy: &Policy, store: &MemoryStore, now: Timestamp) -> (Decision, Option<Receipt>) {
    let headers = HeaderMap::new();
    let address = IpAddr::from([203, 0, 113, 7]);
    let facts = Facts {
        address,
        group: address,
        method: "GET",
        host: "",
        route: Some(0),
        parameters: SmallVec::new(),
        consumer: None,
        tier: ANONYMOUS,
        headers: &headers,
    };
    at_once(decide(policy, &facts, Draw::Everything, store, now)).expect("the memory store never fails")
}

/// A request as a client sends it.
#[derive(Clone, Copy)]
struct Sent {
    peer: [u8; 4],
    method: &'static str,
    target: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

impl Sent {
    const PLAIN: Self = Self { peer: [203, 0, 113, 7], method: "GET", target: "/open", lines: &[] };

    fn assessed<T>(self, policy: &Policy, look: impl FnOnce(&Assessment<'_>) -> T) -> T {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("example.com"));
        for (name, value) in self.lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let inputs = Inputs {
            peer: IpAddr::from(self.peer),
            method: self.method,
            version: Version::HTTP_11,
            target: self.target.as_bytes(),
            authority: None,
            headers: &headers,
        };
        let address = address(policy, &inputs);
        look(&assess(policy, &inputs, &address, NOW))
    }

    /// The `error` word of the rejection, what is drawn on, and the reason for the metric.
    fn outcome(self, policy: &Policy) -> (Option<&'static str>, Draw, Option<&'static str>) {
        self.assessed(policy, |found| {
            (found.rejection.map(|rejection| rejection.parts().1), found.draw, found.auth_failure)
        })
    }
}

/// Addresses 198.51.100/24 are denied, 192.0.2/24 exempt, and only these and 203.0.113/24 allowed.
fn gated() -> Policy {
    let main = "[client_ip]\ndeny = [\"198.51.100.0/24\"]\nexempt = [\"192.0.2.0/24\"]\n\
                allow = [\"198.51.100.0/24\", \"192.0.2.0/24\", \"203.0.113.0/24\"]\n[tiers.pro]\n[tiers.free]\n\
                [[routes]]\nmatch = [\"/open\", \"POST /posts\"]\n\
                [[routes]]\nmatch = \"/closed\"\nauth = \"required\"\n\
                [[routes]]\nmatch = \"/blind\"\nauth = \"none\"\n\
                [[routes]]\nmatch = \"/pro\"\ntiers = [\"pro\"]";
    let keys = format!(
        "[consumers.acme]\ntier = \"free\"\n[[consumers.acme.keys]]\nid = \"k\"\nsha256 = \"{RIGHT}\"\n\
         routes = [\"/open\", \"/pro\"]"
    );
    policy_with_keys(main, &keys)
}

const RIGHT_KEY: &[(&str, &str)] = &[("authorization", "Bearer right")];
const WRONG_KEY: &[(&str, &str)] = &[("x-api-key", "wrong")];
const TWO_KEYS: &[(&str, &str)] = &[("authorization", "Bearer right"), ("x-api-key", "other")];

#[test]
fn the_first_check_that_fails_is_the_one_that_speaks() {
    let policy = gated();
    // Each request has one fault less than the one before it.
    let denied = Sent { peer: [198, 51, 100, 1], target: "/%zz", lines: WRONG_KEY, ..Sent::PLAIN };
    let foreign = Sent { peer: [8, 8, 8, 8], ..denied };
    let malformed = Sent { peer: [203, 0, 113, 7], ..denied };
    let unknown = Sent { target: "/nowhere", ..malformed };
    let wrong = Sent { target: "/closed", ..unknown };
    let elsewhere = Sent { lines: RIGHT_KEY, ..wrong };
    let other_tier = Sent { target: "/pro", ..elsewhere };
    let fine = Sent { target: "/open", ..elsewhere };
    let vectors = [
        (denied, Some("forbidden"), Draw::Nothing, None),
        (foreign, Some("forbidden"), Draw::Address, None),
        (malformed, Some("bad_request"), Draw::Address, None),
        (unknown, Some("route_not_found"), Draw::Address, None),
        (wrong, Some("invalid_api_key"), Draw::WrongKey, Some("invalid")),
        (elsewhere, Some("forbidden"), Draw::Address, Some("forbidden")),
        (other_tier, Some("forbidden"), Draw::Address, None),
        (fine, None, Draw::Everything, None),
    ];
    for (index, (sent, error, draw, reason)) in vectors.into_iter().enumerate() {
        assert_eq!(sent.outcome(&policy), (error, draw, reason), "request {index}");
    }
}

#[test]
fn a_route_decides_whether_a_key_is_needed_and_looked_at() {
    let policy = gated();
    let on = |target, lines| Sent { target, lines, ..Sent::PLAIN }.outcome(&policy);
    assert_eq!(on("/open", &[]), (None, Draw::Everything, None));
    assert_eq!(on("/closed", &[]), (Some("missing_api_key"), Draw::Address, Some("missing")));
    assert_eq!(on("/blind", WRONG_KEY), (None, Draw::Everything, None));
    assert_eq!(on("/open", TWO_KEYS), (Some("bad_request"), Draw::Address, Some("ambiguous")));
    let denying = policy_with_keys("[auth]\nanonymous = \"deny\"\n[[routes]]\nmatch = \"/open\"", "");
    assert_eq!(Sent::PLAIN.outcome(&denying), (Some("missing_api_key"), Draw::Address, Some("missing")));
}

#[test]
fn a_known_key_tells_consumer_and_tier() {
    let policy = gated();
    let of = |sent: Sent| sent.assessed(&policy, |found| (found.facts.consumer, found.facts.tier, found.key));
    let free = policy.tiers.iter().position(|tier| *tier.name == *"free").expect("defined");
    assert_eq!(of(Sent { lines: RIGHT_KEY, ..Sent::PLAIN }), (Some(0), free, Some(0)));
    assert_eq!(of(Sent { lines: WRONG_KEY, ..Sent::PLAIN }), (None, ANONYMOUS, None));
}

#[test]
fn a_preflight_takes_the_route_of_its_request_and_needs_no_key() {
    let policy = gated();
    const FOR_POST: &[(&str, &str)] = &[("origin", "https://a.example"), ("access-control-request-method", "POST")];
    let preflight = Sent { method: "OPTIONS", target: "/posts", lines: FOR_POST, ..Sent::PLAIN };
    assert_eq!(preflight.outcome(&policy), (None, Draw::Address, None));
    assert_eq!(preflight.assessed(&policy, |found| found.facts.route), Some(0));
    assert_eq!(Sent { target: "/closed", ..preflight }.outcome(&policy), (None, Draw::Address, None));
    assert_eq!(Sent { target: "/nowhere", ..preflight }.outcome(&policy).0, Some("route_not_found"));
    let plain = Sent { lines: &FOR_POST[1..], target: "/closed", ..preflight };
    assert_eq!(plain.outcome(&policy).0, Some("missing_api_key"), "without an origin it is none");
}

#[test]
fn an_exempt_address_draws_on_nothing_and_is_checked_all_the_same() {
    let policy = gated();
    let exempt = Sent { peer: [192, 0, 2, 1], ..Sent::PLAIN };
    assert_eq!(exempt.outcome(&policy), (None, Draw::Nothing, None));
    let wrong = Sent { lines: WRONG_KEY, ..exempt };
    assert_eq!(wrong.outcome(&policy), (Some("invalid_api_key"), Draw::Nothing, Some("invalid")));
}

#[test]
fn a_later_rejection_never_replaces_the_first() {
    let policy = gated();
    let rejected = |sent: Sent| {
        sent.assessed(&policy, |found| {
            let mut found = Assessment { facts: Facts { parameters: SmallVec::new(), ..found.facts }, ..*found };
            found.reject(Rejection::PayloadTooLarge);
            (found.rejection, found.draw)
        })
    };
    assert_eq!(rejected(Sent::PLAIN), (Some(Rejection::PayloadTooLarge), Draw::Address));
    let wrong = Sent { lines: WRONG_KEY, ..Sent::PLAIN };
    assert_eq!(rejected(wrong), (Some(Rejection::InvalidKey), Draw::WrongKey));
    let exempt = Sent { peer: [192, 0, 2, 1], ..Sent::PLAIN };
    assert_eq!(rejected(exempt), (Some(Rejection::PayloadTooLarge), Draw::Nothing));
}

#[test]
fn a_request_under_no_limit_is_admitted_without_asking_the_store() {
    let (decision, receipt) = decided(&limited(&[]), &MemoryStore::new(10), NOW);
    assert!(decision.admitted && decision.is_unlimited() && receipt.is_none());
    assert_eq!((decision.at, decision.delay), (NOW, Millis(0)));
}

#[test]
fn a_decision_tells_each_limit_in_order_and_refuses_when_one_does() {
    let policy = limited(&["name = \"wide\", rate = \"9/h\"", "name = \"narrow\", rate = \"1/h\""]);
    let store = MemoryStore::new(10);
    let told = |decision: &Decision| {
        let verdict = decision.verdict(&policy);
        verdict.statuses.iter().map(|status| (status.limit.name.to_string(), status.remaining)).collect::<Vec<_>>()
    };
    let (first, receipt) = decided(&policy, &store, NOW);
    assert!(first.admitted && receipt.is_none(), "nothing is held");
    assert_eq!(told(&first), [("wide".to_owned(), 8 * UNIT), ("narrow".to_owned(), 0)]);
    let (second, _) = decided(&policy, &store, NOW);
    assert!(!second.admitted);
    assert_eq!(told(&second), told(&first), "a refusal takes nothing");
    assert_eq!(second.rejection(&policy), Rejection::RateLimited);
    assert_eq!(second.verdict(&policy).refusing().map(|status| &*status.limit.name), Some("narrow"));
}

#[test]
fn a_cost_that_never_fits_is_another_rejection() {
    let main = "[tiers.anonymous]\nlimits = [{ rate = \"2/s\" }]\n[[routes]]\nmatch = \"*\"\ncost = 3";
    let policy = policy(main);
    let (decision, _) = decided(&policy, &MemoryStore::new(10), NOW);
    assert_eq!(decision.rejection(&policy), Rejection::CostExceedsLimit);
}

/// A verdict in which the policy's limits, the budget of wrong keys left out, stand as told.
fn verdict<'p>(policy: &'p Policy, told: &[(Units, Wait)]) -> Verdict<'p> {
    let limits = policy.limits.iter().filter(|limit| *limit.name != *"auth-failures");
    let statuses: SmallVec<_> = limits
        .zip(told)
        .map(|(limit, (remaining, wait))| LimitStatus {
            limit,
            cost: UNIT,
            remaining: *remaining,
            wait: *wait,
            reset: Millis(7),
        })
        .collect();
    let admitted = !statuses.iter().any(LimitStatus::refuses);
    Verdict { statuses, admitted, at: NOW, delay: Millis(0) }
}

fn shown<'p>(policy: &'p Policy, told: &[(Units, Wait)]) -> Option<&'p str> {
    verdict(policy, told).shown().map(|status| &*status.limit.name)
}

#[test]
fn an_accepted_response_shows_the_lowest_remaining_and_of_two_the_longer_window() {
    let policy = limited(&[
        "name = \"minute\", rate = \"9/min\"",
        "name = \"day\", rate = \"9/day\"",
        "name = \"hour\", rate = \"9/h\"",
    ]);
    let now = |units| (units, Wait::Now);
    assert_eq!(shown(&policy, &[now(3000), now(5000), now(4000)]), Some("minute"));
    assert_eq!(shown(&policy, &[now(3000), now(3000), now(3000)]), Some("day"));
    assert_eq!(shown(&policy, &[now(3000), now(3999), now(4000)]), Some("day"), "whole requests are compared");
    assert_eq!(shown(&policy, &[now(-5000), now(0), now(4000)]), Some("day"), "less than nothing is nothing");
}

#[test]
fn a_refusal_shows_the_longest_wait_and_of_two_the_first() {
    let policy =
        limited(&["name = \"a\", rate = \"9/min\"", "name = \"b\", rate = \"9/day\"", "name = \"c\", rate = \"9/h\""]);
    let after = |ms| (0, Wait::After(Millis(ms)));
    assert_eq!(shown(&policy, &[after(5), after(9), (0, Wait::Now)]), Some("b"));
    assert_eq!(shown(&policy, &[after(5), after(5), after(4)]), Some("a"));
    assert_eq!(shown(&policy, &[after(i64::MAX - 1), (0, Wait::Never), after(5)]), Some("b"), "never is longest");
    assert_eq!(shown(&policy, &[(0, Wait::Now), (0, Wait::Now), (9000, Wait::Never)]), Some("c"));
}

#[test]
fn shadow_and_unexposed_limits_are_never_shown() {
    let policy = limited(&[
        "name = \"shadow\", rate = \"9/min\", mode = \"shadow\"",
        "name = \"secret\", rate = \"9/day\", expose = false",
        "name = \"open\", rate = \"9/h\"",
    ]);
    let told = |secret| verdict(&policy, &[(0, Wait::After(Millis(9))), secret, (8000, Wait::Now)]);
    let accepted = told((0, Wait::Now));
    assert!(accepted.admitted, "a shadow limit refuses nobody");
    assert_eq!(accepted.shown().map(|status| &*status.limit.name), Some("open"));
    assert_eq!(accepted.visible().count(), 1);
    let refused = told((0, Wait::After(Millis(5))));
    assert!(refused.shown().is_none(), "no other limit stands in for the one that refused");
    assert_eq!(refused.refusing().map(|status| &*status.limit.name), Some("secret"));
}

#[test]
fn a_status_tells_whole_requests_and_the_wait_of_a_refusal() {
    let policy = limited(&["name = \"l\", rate = \"9/min\""]);
    let one = |remaining, wait| verdict(&policy, &[(remaining, wait)]).statuses[0].clone();
    assert_eq!([1999, 1000, 999, -1].map(|units| one(units, Wait::Now).remaining_requests()), [1, 1, 0, 0]);
    assert_eq!(one(0, Wait::After(Millis(40))).reset_after(), Millis(40));
    assert_eq!(one(0, Wait::Now).reset_after(), Millis(7));
    assert_eq!(one(0, Wait::Never).reset_after(), Millis(7));
}

const QUEUE: &str = "name = \"queue\", rate = \"2/s\", algorithm = \"leaky_bucket\", queue = 10";

#[test]
fn a_held_request_has_a_receipt_of_all_it_took() {
    let shadow = "name = \"shadow\", rate = \"1/h\", mode = \"shadow\"";
    let policy = limited(&["name = \"window\", rate = \"9/h\"", shadow, QUEUE]);
    let store = MemoryStore::new(10);
    assert!(decided(&policy, &store, NOW).1.is_none(), "the first goes at once");
    let (decision, receipt) = decided(&policy, &store, NOW);
    let receipt = receipt.expect("the second is held");
    assert_eq!((decision.delay, receipt.delay, receipt.at), (Millis(500), Millis(500), NOW));
    let taken: Vec<_> = receipt.taken.iter().map(|taken| (&*policy.limits[taken.limit].name, taken.cost)).collect();
    assert_eq!(taken, [("window", UNIT), ("queue", UNIT)], "what did not fit the shadow limit was not taken");
    let subject = Part::Address(IpAddr::from([203, 0, 113, 7]));
    assert!(receipt.taken.iter().all(|taken| taken.parts.contains(&subject)));
}

#[test]
fn a_refund_gives_back_what_was_taken() {
    let policy = limited(&["name = \"window\", rate = \"9/h\"", QUEUE]);
    let store = MemoryStore::new(10);
    decided(&policy, &store, NOW);
    let before = decided(&policy, &store, NOW);
    let receipt = before.1.expect("held");
    at_once(store.settle(NOW, &receipt.refund(&policy, true)).resolve()).expect("the memory store never fails");
    let (again, _) = decided(&policy, &store, NOW);
    let remaining = |decision: &Decision| {
        decision.verdict(&policy).statuses.iter().map(|status| status.remaining).collect::<Vec<_>>()
    };
    assert_eq!(remaining(&again), remaining(&before.0));
}

#[test]
fn without_its_places_a_refund_gives_back_the_rest() {
    let other = "name = \"other\", rate = \"1/s\", algorithm = \"leaky_bucket\", queue = 5";
    let policy = limited(&["name = \"window\", rate = \"9/h\"", QUEUE, other]);
    let store = MemoryStore::new(10);
    decided(&policy, &store, NOW);
    let receipt = decided(&policy, &store, NOW).1.expect("held");
    assert_eq!(receipt.queues(&policy).count(), 2);
    let refunded: Vec<_> = receipt.refund(&policy, false).iter().map(|correction| correction.delta).collect();
    assert_eq!(refunded, [-UNIT], "the window alone");
}

#[test]
fn a_gateway_that_holds_too_many_refuses_as_the_bucket_does() {
    let shadow = QUEUE.replace("queue\"", "tried\"") + ", mode = \"shadow\"";
    let policy = limited(&["name = \"window\", rate = \"9/h\"", &shadow, QUEUE]);
    let store = MemoryStore::new(10);
    decided(&policy, &store, NOW);
    for expected_ms in [1000, 1000, 1500] {
        let (mut decision, _) = decided(&policy, &store, NOW);
        decision.refuse_held(&policy);
        assert!(!decision.admitted);
        assert_eq!(decision.rejection(&policy), Rejection::RateLimited);
        let waits: Vec<_> = decision.verdict(&policy).statuses.iter().map(|status| status.wait).collect();
        assert_eq!(waits, [Wait::Now, Wait::Now, Wait::After(Millis(expected_ms))]);
    }
}

#[test]
fn every_rejection_has_a_word_of_its_own_and_a_status_that_fits() {
    let all = [
        Rejection::BadRequest("why"),
        Rejection::MissingKey,
        Rejection::InvalidKey,
        Rejection::Forbidden,
        Rejection::RouteNotFound,
        Rejection::PayloadTooLarge,
        Rejection::HeadersTooLarge,
        Rejection::RateLimited,
        Rejection::CostExceedsLimit,
        Rejection::BadGateway,
        Rejection::UpstreamUnavailable,
        Rejection::LimiterUnavailable,
        Rejection::ShuttingDown,
        Rejection::UpstreamTimeout,
        Rejection::Internal,
    ];
    let mut words: Vec<_> = all.iter().map(|rejection| rejection.parts().1).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), all.len());
    assert!(all.iter().all(|rejection| (400..600).contains(&rejection.status()) && rejection.parts().3 > 0));
}
