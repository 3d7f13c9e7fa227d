//! Why a route takes a request: which patterns could have had it, and what the winner has over each.
//!
//! Who wins is asked of the router; only the reason is put together here.

use crate::config::model::{Config, PatternSegment, RoutePattern};
use crate::request::route::{RouteSpec, Router};
use serde::Serialize;

/// Patterns that are told to have lost; a file may have thousands.
const MAX_BEATEN: usize = 20;

/// What the request looked like to the router.
#[derive(Clone, Copy)]
pub struct Asked<'r> {
    pub host: &'r str,
    pub method: &'r str,
    /// In its matching form.
    pub path: &'r str,
}

/// A pattern that takes the request too.
#[derive(Debug, Serialize)]
pub struct Beaten {
    pub pattern: String,
    pub route: String,
    pub why: &'static str,
}

/// One pattern under the hosts of its route.
struct Candidate<'c> {
    route: usize,
    hosts: Vec<&'c str>,
    pattern: &'c RoutePattern,
}

impl Candidate<'_> {
    /// Whether the pattern would take the request if it were alone.
    fn takes(&self, asked: Asked<'_>) -> bool {
        let spec = RouteSpec { hosts: self.hosts.clone(), patterns: vec![self.pattern] };
        Router::build(&[spec]).is_ok_and(|router| router.find(asked.host, asked.method, asked.path).is_some())
    }

    /// How narrow its hosts are for this request: an exact one, then the longest wildcard, then any.
    fn host_rank(&self, host: &str) -> usize {
        let rank = |pattern: &&str| match pattern.strip_prefix("*.") {
            Some(domain) if host.ends_with(domain) => domain.len(),
            None if *pattern == host => usize::MAX,
            _ => 0,
        };
        self.hosts.iter().map(rank).max().unwrap_or(0)
    }
}

/// The pattern that wins, and those it beats, in the order of the file.
pub fn winner(config: &Config, asked: Asked<'_>) -> Option<(String, Vec<Beaten>)> {
    let candidates = candidates(config);
    let specs: Vec<RouteSpec<'_>> =
        candidates.iter().map(|each| RouteSpec { hosts: each.hosts.clone(), patterns: vec![each.pattern] }).collect();
    let router = Router::build(&specs).ok()?;
    let index = router.find(asked.host, asked.method, asked.path)?.route;
    let winner = &candidates[index];
    let others = candidates.iter().enumerate().filter(|(other, candidate)| *other != index && candidate.takes(asked));
    let beaten = others.take(MAX_BEATEN).map(|(_, loser)| Beaten {
        pattern: loser.pattern.text.clone(),
        route: config.routes[loser.route].name.value.clone(),
        why: why(winner, loser, asked.host),
    });
    Some((winner.pattern.text.clone(), beaten.collect()))
}

/// Patterns that would take the request if its method or host were theirs.
pub fn near_misses(config: &Config, asked: Asked<'_>) -> Vec<String> {
    let takes = |candidate: &Candidate<'_>| {
        let method = candidate.pattern.method.as_deref().unwrap_or(asked.method);
        let named = candidate.hosts.first().copied().unwrap_or(asked.host);
        let host = named.replace("*.", "any.");
        candidate.takes(Asked { host: &host, method, path: asked.path })
    };
    candidates(config).iter().filter(|each| takes(each)).take(MAX_BEATEN).map(described).collect()
}

fn described(candidate: &Candidate<'_>) -> String {
    match candidate.hosts.as_slice() {
        [] => candidate.pattern.text.clone(),
        hosts => format!("{} on {}", candidate.pattern.text, hosts.join(", ")),
    }
}

fn candidates(config: &Config) -> Vec<Candidate<'_>> {
    let of_route = |(route, written): (usize, &'_ crate::config::model::Route)| (route, written.matches.len());
    let mut found = Vec::with_capacity(config.routes.iter().enumerate().map(of_route).map(|(_, count)| count).sum());
    for (route, written) in config.routes.iter().enumerate() {
        let hosts: Vec<&str> = written.hosts.iter().map(|host| host.value.as_str()).collect();
        let each = written.matches.iter();
        found.extend(each.map(|pattern| Candidate { route, hosts: hosts.clone(), pattern: &pattern.value }));
    }
    found
}

fn why(winner: &Candidate<'_>, loser: &Candidate<'_>, host: &str) -> &'static str {
    if winner.host_rank(host) > loser.host_rank(host) {
        return "a named host beats a wider one";
    }
    let (Some(better), Some(worse)) = (&winner.pattern.path, &loser.pattern.path) else {
        return "a path beats `*`";
    };
    let different = better.iter().zip(worse).find(|(better, worse)| rank(better) != rank(worse));
    match different.map(|(better, _)| better) {
        Some(PatternSegment::Literal(_)) => "a literal segment beats a parameter",
        Some(PatternSegment::Parameter(_)) => "a parameter beats a rest",
        _ if better.len() != worse.len() => "a path that ends here beats a rest",
        _ => "a named method beats any",
    }
}

fn rank(segment: &PatternSegment) -> u8 {
    match segment {
        PatternSegment::Literal(_) => 0,
        PatternSegment::Parameter(_) => 1,
        PatternSegment::Rest(_) => 2,
    }
}
