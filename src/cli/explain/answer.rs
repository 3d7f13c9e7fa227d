//! What a request would be answered at once, and the reason that a client is not told.

use super::route::{self, Asked};
use crate::config::model::{Config, RouteAuth};
use crate::limiter::assess::Assessment;
use crate::limiter::decide;
use crate::limiter::rejection::Rejection;
use crate::policy::{ANONYMOUS, Policy};
use crate::request::client::contains;
use crate::store::memory::MemoryStore;
use crate::time::Timestamp;
use futures_util::FutureExt;
use serde::Serialize;

/// Counters of the store that one request is tried on: more than any request has.
const COUNTERS: usize = 100_000;

/// The gateway's answer, or that there is none.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// False when the request goes on, as long as no limit is spent.
    pub refused: bool,
    pub status: Option<u16>,
    /// The `error` of the body.
    pub error: Option<&'static str>,
    /// Of the refusing limit, when one does.
    pub limit: Option<String>,
    pub why: String,
}

/// Decides on fresh counters.
pub fn of(
    config: &Config,
    policy: &Policy,
    assessment: &Assessment<'_>,
    asked: Option<Asked<'_>>,
    now: Timestamp,
) -> Answer {
    let store = MemoryStore::new(COUNTERS);
    let decided = decide(policy, &assessment.facts, assessment.draw, &store, now).now_or_never();
    let decision = decided.and_then(Result::ok).map(|(decision, _)| decision);
    if let Some(decision) = decision.filter(|decision| !decision.admitted) {
        let verdict = decision.verdict(policy);
        let limit = verdict.refusing().map(|status| status.limit);
        let why = limit.map_or_else(String::new, |limit| {
            format!("the cost is more than the limit \"{}\" can ever hold, {}", limit.name, limit.capacity())
        });
        return refused(decision.rejection(policy), limit.map(|limit| limit.name.to_string()), why);
    }
    match assessment.rejection {
        Some(rejection) => refused(rejection, None, why(config, policy, assessment, rejection, asked)),
        None => Answer {
            refused: false,
            status: None,
            error: None,
            limit: None,
            why: "nothing but a spent limit would refuse it".to_owned(),
        },
    }
}

fn refused(rejection: Rejection, limit: Option<String>, why: String) -> Answer {
    let (status, error, ..) = rejection.parts();
    Answer { refused: true, status: Some(status), error: Some(error), limit, why }
}

fn why(
    config: &Config,
    policy: &Policy,
    assessment: &Assessment<'_>,
    rejection: Rejection,
    asked: Option<Asked<'_>>,
) -> String {
    let facts = &assessment.facts;
    let route = facts.route.map(|route| &policy.routes[route]);
    match rejection {
        Rejection::BadRequest(reason) => reason.to_owned(),
        Rejection::MissingKey if route.is_some_and(|route| route.auth == RouteAuth::Required) => {
            "the route requires a key, and there is none".to_owned()
        }
        Rejection::MissingKey => "there is no key, and [auth] denies anonymous callers".to_owned(),
        Rejection::InvalidKey => {
            let reason = assessment.auth_failure.unwrap_or("invalid");
            format!("the key is {}; the client is told only that it is not valid", reason.replace('_', " "))
        }
        Rejection::Forbidden if contains(&policy.deny, facts.address) => {
            format!("{} is in `deny` of [client_ip]", facts.address)
        }
        Rejection::Forbidden if !policy.admits_address(facts.address) => {
            format!("{} is not in `allow` of [client_ip]", facts.address)
        }
        Rejection::Forbidden if assessment.auth_failure.is_some() => {
            "the key may not be used for this route, or not from this address".to_owned()
        }
        Rejection::Forbidden => {
            let may = route.and_then(|route| route.tiers.as_ref()).into_iter().flatten();
            let names: Vec<&str> = may.map(|tier| &*policy.tiers[*tier].name).collect();
            let caller = if facts.tier == ANONYMOUS && facts.consumer.is_none() {
                "a caller without a key"
            } else {
                "the caller"
            };
            format!("{caller} is of the tier {}; the route is for {}", policy.tiers[facts.tier].name, names.join(", "))
        }
        Rejection::RouteNotFound => {
            let near = asked.map(|asked| route::near_misses(config, asked)).unwrap_or_default();
            match near.as_slice() {
                [] => "no route takes this path, and there is no route \"*\"".to_owned(),
                near => format!("no route takes this method and host; the path is taken by {}", near.join("; ")),
            }
        }
        other => other.parts().2.to_owned(),
    }
}
