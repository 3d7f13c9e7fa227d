//! A limit that moves from one owner to another keeps its counters, as long as it keeps its name, algorithm and window.

use super::scene::START;
use super::stores::Opened;
use http::HeaderMap;
use sluicegate::algorithm::{ALGORITHMS, UNIT};
use sluicegate::config::load_text;
use sluicegate::limiter::decide;
use sluicegate::policy::facts::{Draw, Facts};
use sluicegate::policy::{ANONYMOUS, Policy, compile};
use sluicegate::request::route::Parameters;
use sluicegate::time::Timestamp;
use std::net::IpAddr;

const COUNT: i64 = 10;

/// Where a limit can stand, with the limit in place of `LIMIT`: the main file and the keys file.
const OF_AN_ADDRESS: &[[&str; 2]] = &[
    ["[client_ip]\nlimits = [{ LIMIT }]", ""],
    ["[tiers.anonymous]\nlimits = [{ LIMIT }]", ""],
    [
        "[[limits]]\nname = \"other\"\nper = \"ip\"\nrate = \"9/s\"\n[tiers.anonymous]\nlimits = [{ LIMIT, per = \"ip\" }]",
        "",
    ],
    ["[[routes]]\nmatch = \"/a\"\nlimits = [{ LIMIT, per = \"ip\" }]", ""],
    ["[[routes]]\nmatch = \"/b\"\nlimits = [{ LIMIT, per = \"subject\" }]", ""],
];
const OF_A_CONSUMER: &[[&str; 2]] = &[
    ["[tiers.pro]\nlimits = [{ LIMIT }]", "tier = \"pro\""],
    ["[tiers.free]\nlimits = [{ LIMIT }]", "tier = \"free\""],
    ["[tiers.free]", "tier = \"free\"\nlimits = [{ LIMIT }]"],
    ["[tiers.free]\n[[routes]]\nmatch = \"/a\"\nlimits = [{ LIMIT, per = \"consumer\" }]", "tier = \"free\""],
];
const OF_ALL: &[[&str; 2]] = &[
    ["[client_ip]\nlimits = [{ LIMIT, per = \"global\" }]", ""],
    ["[tiers.anonymous]\nlimits = [{ LIMIT, per = \"global\" }]", ""],
    ["[[routes]]\nmatch = \"/a\"\nlimits = [{ LIMIT, per = \"global\" }]", ""],
];

fn policy(main: &str, consumer: &str) -> Policy {
    let route = if main.contains("[[routes]]") { "" } else { "[[routes]]\nmatch = \"*\"" };
    // Where the store can fail, a limit has what stands in for it.
    let store = "[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"redis://127.0.0.1:1\"]";
    let main = format!("{main}\n{route}\n{store}\n[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n");
    let digest = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9";
    let consumer = if consumer.is_empty() {
        String::new()
    } else {
        format!("[consumers.acme]\n{consumer}\n[[consumers.acme.keys]]\nid = \"k\"\nsha256 = \"{digest}\"\n")
    };
    let loaded = load_text("test.toml", &main, Some(&consumer), &|_| None);
    let (policy, problems) = compile(&loaded.config.expect("valid TOML"));
    policy.unwrap_or_else(|| panic!("{:?} {problems:?}\n{main}{consumer}", loaded.problems))
}

/// What is left of the limit after one request.
fn left(store: &Opened, policy: &Policy, limit: &str, now: i64) -> i64 {
    let (headers, address) = (HeaderMap::new(), IpAddr::from([203, 0, 113, 7]));
    let consumer = (!policy.consumers.is_empty()).then_some(0);
    let facts = Facts {
        address,
        group: address,
        method: "GET",
        host: "",
        route: Some(0),
        parameters: Parameters::new(),
        consumer,
        tier: consumer.map_or(ANONYMOUS, |consumer| policy.consumers[consumer].tier),
        headers: &headers,
    };
    let deciding = decide(policy, &facts, Draw::Everything, &*store.store, Timestamp(now));
    let (decision, _) = store.runtime.block_on(deciding).expect("the store answers");
    let statuses = decision.verdict(policy).statuses;
    let status = statuses.iter().find(|status| *status.limit.name == *limit);
    status.expect("the limit applies").remaining / UNIT
}

pub fn limits_keep_their_counters_with_every_owner(store: &Opened) {
    for algorithm in ALGORITHMS {
        for (set, owners) in [OF_AN_ADDRESS, OF_A_CONSUMER, OF_ALL].iter().enumerate() {
            let name = format!("moved-{set}-{}", algorithm.name());
            let limit = format!("name = \"{name}\", rate = \"{COUNT}/h\", algorithm = \"{}\"", algorithm.name());
            for (moves, owner) in (1..).zip(*owners) {
                let [main, consumer] = owner.map(|text| text.replace("LIMIT", &limit));
                let left = left(store, &policy(&main, &consumer), &name, START);
                assert_eq!(left, COUNT - moves, "{:?}, {}, {main} {consumer}", store.kind, algorithm.name());
            }
        }
    }
}
