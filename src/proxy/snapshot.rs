//! One generation of everything a request reads: the policy and what the rim derived from the same configuration.
//!
//! It is swapped whole ([`Live`]); a request takes it once, so that it never sees half a reload.

use super::connection::Certificates;
use super::headers::Style;
use super::page::ResponsePage;
use super::upstream::Upstream;
use crate::config::model::{Config, RateLimited, Secret, Server};
use crate::config::{Problem, Severity};
use crate::metrics::{CheckCounters, LimitCounters, Metrics, UNMATCHED};
use crate::policy::{self, Policy};
use arc_swap::ArcSwap;
use http::HeaderValue;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// The snapshot in force.
pub type Live = ArcSwap<Snapshot>;

/// One generation.
pub struct Snapshot {
    /// 1 for the first, one more for each reload that succeeded.
    pub generation: u64,
    pub policy: Policy,
    pub server: Server,
    /// What is shown to clients of each TLS listener.
    pub certificates: BTreeMap<SocketAddr, Certificates>,
    /// What the admin port asks for.
    pub admin_token: Option<Secret>,
    /// The configuration as the admin port shows it.
    pub written: Arc<serde_json::Value>,
    pub style: Style,
    pub upstreams: Vec<Arc<Upstream>>,
    /// The name of each tier, as requests carry it upstream.
    tier_headers: Vec<HeaderValue>,
    pages: Vec<ResponsePage>,
    /// By tier and route; where neither has its own the global page, which is the first.
    page_of: HashMap<(usize, Option<usize>), usize>,
    limit_counters: Vec<OnceLock<LimitCounters>>,
    check_counters: Vec<OnceLock<CheckCounters>>,
}

impl Snapshot {
    /// Compiles a configuration; absent when any problem is an error.
    pub fn compile(config: &Config, generation: u64) -> (Option<Self>, Vec<Problem>) {
        let (policy, mut problems) = policy::compile(config);
        let compile = |written| Arc::new(Upstream::compile(written, &mut problems));
        let upstreams = config.upstreams.iter().map(compile).collect();
        let (pages, page_of) = pages(config, policy.as_ref(), &mut problems);
        let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
        let snapshot = policy.filter(|_| !failed).map(|policy| Self {
            generation,
            limit_counters: policy.limits.iter().map(|_| OnceLock::new()).collect(),
            check_counters: (0..policy.tiers.len() * (policy.routes.len() + 1)).map(|_| OnceLock::new()).collect(),
            tier_headers: policy.tiers.iter().map(|tier| tier_header(&tier.name)).collect(),
            policy,
            server: config.server.clone(),
            certificates: Certificates::by_listener(&config.server.tls),
            admin_token: config.admin.token.clone(),
            written: config.written.clone(),
            style: Style::new(&config.headers),
            upstreams,
            pages,
            page_of,
        });
        (snapshot, problems)
    }

    /// Finds the servers of the upstreams, which may ask name servers and so blocks. What the snapshot in force knows of
    /// them is taken over.
    pub fn resolve(&self, in_force: Option<&Self>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for upstream in &self.upstreams {
            let mut known = in_force.iter().flat_map(|snapshot| &snapshot.upstreams);
            upstream.resolve(known.find(|known| known.name == upstream.name).map(|known| &**known), &mut problems);
        }
        problems
    }

    /// The page for a refusal of a caller of `tier` on `route`.
    pub fn page(&self, tier: usize, route: Option<usize>) -> &ResponsePage {
        let page = self.page_of.get(&(tier, route)).or_else(|| self.page_of.get(&(tier, None)));
        &self.pages[page.copied().unwrap_or(0)]
    }

    /// The tier's name as a header value.
    pub fn tier_header(&self, tier: usize) -> &HeaderValue {
        &self.tier_headers[tier]
    }

    /// The route's label.
    pub fn route_name(&self, route: Option<usize>) -> &str {
        route.map_or(UNMATCHED, |route| &self.policy.routes[route].name)
    }

    pub fn limit_counters(&self, limit: usize, metrics: &Metrics) -> &LimitCounters {
        let named = &self.policy.limits[limit];
        self.limit_counters[limit].get_or_init(|| metrics.limit_counters(&named.name, named.layer.name()))
    }

    pub fn check_counters(&self, tier: usize, route: Option<usize>, metrics: &Metrics) -> &CheckCounters {
        let column = route.map_or(0, |route| route + 1);
        self.check_counters[tier * (self.policy.routes.len() + 1) + column]
            .get_or_init(|| metrics.check_counters(&self.policy.tiers[tier].name, self.route_name(route)))
    }
}

fn tier_header(name: &str) -> HeaderValue {
    HeaderValue::from_str(name).expect("the configuration allows letters, digits and `_.-` in a tier's name")
}

type PageIndex = HashMap<(usize, Option<usize>), usize>;

/// The global page, and one for each tier and each pair of tier and route that override it: route over tier over
/// global, field by field.
fn pages(config: &Config, policy: Option<&Policy>, problems: &mut Vec<Problem>) -> (Vec<ResponsePage>, PageIndex) {
    let mut pages = Vec::new();
    let mut page_of = HashMap::new();
    let mut add = |layers: &[&RateLimited], pages: &mut Vec<ResponsePage>| {
        match ResponsePage::compile(layers) {
            Ok(page) => pages.push(page),
            Err(found) => {
                // A wider table's mistake comes up again with each narrower one.
                for problem in found.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>() {
                    problems.push(problem);
                }
                pages.push(ResponsePage::default());
            }
        }
        pages.len() - 1
    };
    add(&[&config.rate_limited], &mut pages);
    let Some(policy) = policy else { return (pages, page_of) };
    for (tier, named) in policy.tiers.iter().enumerate() {
        let written = config.tiers.iter().find(|tier| *tier.name.value == *named.name);
        let own = written.and_then(|tier| tier.rate_limited.as_ref());
        if let Some(own) = own {
            page_of.insert((tier, None), add(&[&config.rate_limited, own], &mut pages));
        }
        for (route, written) in config.routes.iter().enumerate() {
            let Some(of_route) = &written.rate_limited else { continue };
            let layers: Vec<_> = std::iter::once(&config.rate_limited).chain(own).chain([of_route]).collect();
            page_of.insert((tier, Some(route)), add(&layers, &mut pages));
        }
    }
    (pages, page_of)
}
