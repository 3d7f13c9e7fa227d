//! A replay as plain data with names in it: what `--json` prints, and what the text and the page are written from.
//!
//! Members are API: they are added to, never renamed.

use super::Replayed;
use super::callers::Callers;
use super::condition::{Condition, Part, Quantity};
use super::difference::{Change, Difference};
use super::judge::Caller;
use super::order::Read;
use super::tally::{Count, LimitCount};
use super::timeline::Bucket;
use crate::algorithm::UNIT;
use crate::algorithm::calendar::rfc3339;
use crate::config::model::Mode;
use crate::metrics::UNMATCHED;
use crate::time::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub configuration: String,
    /// The configuration that it is compared with.
    pub compared_with: Option<String>,
    pub logs: Vec<String>,
    pub read: Read,
    pub from: Option<String>,
    pub to: Option<String>,
    pub total: Row,
    pub held: u64,
    pub longest_hold_ms: i64,
    pub limits: Vec<LimitRow>,
    pub tiers: Vec<Row>,
    pub routes: Vec<Row>,
    pub callers: CallerRows,
    /// Requests refused for another reason than a limit, by `error` word.
    pub rejections: BTreeMap<&'static str, u64>,
    pub compared: Option<DifferenceRows>,
    pub recorded: Option<DifferenceRows>,
    pub timeline: Times,
    pub notes: Vec<String>,
    /// The conditions that hold, so that the replay failed.
    pub failed: Vec<String>,
}

/// Requests of one name.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub requests: u64,
    pub accepted: u64,
    /// By a limit.
    pub refused: u64,
    /// For another reason.
    pub rejected: u64,
    pub first_refused: Option<First>,
}

/// The first refusal.
#[derive(Debug, Serialize)]
pub struct First {
    pub at: String,
    pub limit: String,
}

#[derive(Debug, Serialize)]
pub struct LimitRow {
    pub name: String,
    pub layer: &'static str,
    pub rate: String,
    pub shadow: bool,
    /// Requests that drew on it.
    pub asked: u64,
    /// Requests that did not fit.
    pub over: u64,
    /// Requests that were refused and whose answer names it.
    pub refused: u64,
    pub first_over: Option<String>,
    /// Whose request that was.
    pub first_caller: Option<String>,
    /// The least that was left after an accepted request, in whole requests.
    pub lowest_left: Option<i64>,
    /// What can be left at most.
    pub capacity: i64,
}

#[derive(Debug, Serialize)]
pub struct CallerRows {
    /// Callers that were seen, or kept when there were too many.
    pub seen: u64,
    pub refused: u64,
    /// Callers that were forgotten, because there were too many: the numbers of the others may be too low.
    pub dropped: u64,
    pub hardest_hit: Vec<CallerRow>,
}

#[derive(Debug, Serialize)]
pub struct CallerRow {
    pub name: String,
    pub kind: &'static str,
    pub tier: Option<String>,
    pub requests: u64,
    pub refused: u64,
    pub first_refused: Option<First>,
    pub by_limit: Vec<NamedCount>,
}

#[derive(Debug, Serialize)]
pub struct NamedCount {
    pub name: String,
    pub requests: u64,
}

#[derive(Debug, Serialize)]
pub struct DifferenceRows {
    pub compared: u64,
    /// Refused by both, by limits of different names.
    pub other_limit: u64,
    pub newly_refused: ChangeRows,
    pub freed: ChangeRows,
}

#[derive(Debug, Serialize)]
pub struct ChangeRows {
    pub requests: u64,
    pub by_limit: Vec<NamedCount>,
    pub callers: CallerRows,
}

#[derive(Debug, Serialize)]
pub struct Times {
    /// The start of the first span, in seconds since the epoch.
    pub start: i64,
    pub span_seconds: i64,
    /// The names of `by_limit`.
    pub limits: Vec<String>,
    pub spans: Vec<Bucket>,
}

/// What a report is made of besides the replay.
pub struct Titles {
    pub configuration: String,
    pub compared_with: Option<String>,
    pub logs: Vec<String>,
    /// Callers that are listed.
    pub top: usize,
}

impl Report {
    pub fn new(replayed: &Replayed, titles: Titles, conditions: &[Condition]) -> Self {
        let names = Names { replayed, top: titles.top };
        let tally = &replayed.tally;
        let timeline = &tally.timeline;
        let mut report = Self {
            configuration: titles.configuration,
            compared_with: titles.compared_with,
            logs: titles.logs,
            read: replayed.read.clone(),
            from: tally.from.map(rfc3339),
            to: tally.to.map(rfc3339),
            total: names.row("total", &tally.total),
            held: tally.held,
            longest_hold_ms: tally.longest_hold.0,
            limits: names.limits(),
            tiers: names.tiers(),
            routes: names.routes(),
            callers: names.callers(&tally.callers, |limit| names.limit(limit)),
            rejections: tally.rejections.clone(),
            compared: replayed.compared.as_ref().map(|difference| names.difference(difference)),
            recorded: replayed.recorded.as_ref().map(|difference| names.difference(difference)),
            timeline: Times {
                start: timeline.start().seconds(),
                span_seconds: timeline.length().0 / 1000,
                limits: timeline.series.iter().map(|limit| names.limit(*limit)).collect(),
                spans: timeline.buckets.clone(),
            },
            notes: notes(replayed),
            failed: Vec::new(),
        };
        report.failed = conditions.iter().filter(|each| report.holds(each)).map(ToString::to_string).collect();
        report
    }

    /// Whether nothing at all could be read.
    pub fn is_unreadable(&self) -> bool {
        self.read.lines > 0 && self.read.unreadable == self.read.lines
    }

    fn holds(&self, condition: &Condition) -> bool {
        let total = &self.total;
        let change = |of: fn(&DifferenceRows) -> u64| (self.compared.as_ref().map_or(0, of), total.requests);
        let (count, whole) = match (condition.quantity, &condition.part) {
            (Quantity::Unreadable, _) => (self.read.unreadable, self.read.lines),
            (Quantity::Held, _) => (self.held, total.requests),
            (Quantity::NewlyRefused, _) => change(|difference| difference.newly_refused.requests),
            (Quantity::Freed, _) => change(|difference| difference.freed.requests),
            (quantity, Part::All) => total.share(quantity),
            (quantity, Part::Tier(name)) => share_of(&self.tiers, name, quantity),
            (quantity, Part::Route(name)) => share_of(&self.routes, name, quantity),
            (quantity, Part::Limit(name)) => {
                let limit = self.limits.iter().find(|limit| limit.name == *name);
                limit.map_or((0, 0), |limit| match quantity {
                    Quantity::Accepted => (limit.asked - limit.over, limit.asked),
                    Quantity::Refused => (limit.refused, limit.asked),
                    _ => (0, limit.asked),
                })
            }
        };
        condition.holds(count, whole)
    }
}

fn share_of(rows: &[Row], name: &str, quantity: Quantity) -> (u64, u64) {
    rows.iter().find(|row| row.name == name).map_or((0, 0), |row| row.share(quantity))
}

impl Row {
    fn share(&self, quantity: Quantity) -> (u64, u64) {
        let count = match quantity {
            Quantity::Accepted => self.accepted,
            Quantity::Refused => self.refused,
            _ => self.rejected,
        };
        (count, self.requests)
    }
}

/// Turns indices into names.
struct Names<'r> {
    replayed: &'r Replayed,
    top: usize,
}

impl Names<'_> {
    fn limit(&self, limit: usize) -> String {
        self.replayed.judge.policy.limits[limit].name.to_string()
    }

    fn row(&self, name: &str, count: &Count) -> Row {
        Row {
            name: name.to_owned(),
            requests: count.requests(),
            accepted: count.accepted,
            refused: count.refused,
            rejected: count.rejected,
            first_refused: count.first.map(|(at, limit)| first(at, self.limit(limit))),
        }
    }

    fn limits(&self) -> Vec<LimitRow> {
        let policy = &self.replayed.judge.policy;
        let rows = policy.limits.iter().zip(&self.replayed.tally.limits);
        let asked = rows.filter(|(_, count)| count.asked > 0);
        asked.map(|(limit, count)| self.limit_row(limit, count)).collect()
    }

    fn limit_row(&self, limit: &crate::policy::limit::Limit, count: &LimitCount) -> LimitRow {
        LimitRow {
            name: limit.name.to_string(),
            layer: limit.layer.name(),
            rate: limit.text.rate.to_string(),
            shadow: limit.mode == Mode::Shadow,
            asked: count.asked,
            over: count.over,
            refused: count.refused,
            first_over: count.first.map(|(at, _)| rfc3339(at)),
            first_caller: count.first.map(|(_, caller)| self.replayed.judge.name_of(caller)),
            lowest_left: count.lowest.map(|units| units.max(0) / UNIT),
            capacity: limit.capacity(),
        }
    }

    fn tiers(&self) -> Vec<Row> {
        let tiers = self.replayed.judge.policy.tiers.iter().zip(&self.replayed.tally.tiers);
        tiers.map(|(tier, count)| self.row(&tier.name, count)).collect()
    }

    fn routes(&self) -> Vec<Row> {
        let routes = self.replayed.judge.policy.routes.iter().map(|route| &*route.name);
        let rows = routes.chain([UNMATCHED]).zip(&self.replayed.tally.routes);
        rows.filter(|(name, count)| *name != UNMATCHED || count.requests() > 0)
            .map(|(name, count)| self.row(name, count))
            .collect()
    }

    fn callers(&self, callers: &Callers, limit_name: impl Fn(usize) -> String) -> CallerRows {
        let policy = &self.replayed.judge.policy;
        let row = |(caller, hits): (Caller, &super::callers::Hits)| CallerRow {
            name: self.replayed.judge.name_of(caller),
            kind: match caller {
                Caller::Consumer(_) => "consumer",
                Caller::Address(_) => "address",
            },
            tier: match caller {
                Caller::Consumer(index) => Some(policy.tiers[policy.consumers[index].tier].name.to_string()),
                Caller::Address(_) => None,
            },
            requests: hits.requests,
            refused: hits.refused,
            first_refused: hits.first.map(|(at, limit)| first(at, limit_name(limit))),
            by_limit: by_count(hits.limits.iter().map(|(limit, count)| (limit_name(*limit as usize), *count))),
        };
        CallerRows {
            seen: callers.len(),
            refused: callers.refused(),
            dropped: callers.dropped,
            hardest_hit: callers.hardest_hit(self.top).into_iter().map(row).collect(),
        }
    }

    fn difference(&self, difference: &Difference) -> DifferenceRows {
        let name = |limit: usize| difference.name(limit).to_owned();
        let change = |change: &Change| ChangeRows {
            requests: change.requests,
            by_limit: by_count(change.limits.iter().map(|(limit, count)| (name(*limit), *count))),
            callers: self.callers(&change.callers, name),
        };
        DifferenceRows {
            compared: difference.compared,
            other_limit: difference.other_limit,
            newly_refused: change(&difference.newly_refused),
            freed: change(&difference.freed),
        }
    }
}

fn first(at: Timestamp, limit: String) -> First {
    First { at: rfc3339(at), limit }
}

fn by_count(counts: impl Iterator<Item = (String, u64)>) -> Vec<NamedCount> {
    let mut counts: Vec<_> = counts.map(|(name, requests)| NamedCount { name, requests }).collect();
    counts.sort_by(|one, other| (other.requests, &one.name).cmp(&(one.requests, &other.name)));
    counts
}

/// What makes the numbers less than exact.
fn notes(replayed: &Replayed) -> Vec<String> {
    let mut notes = Vec::new();
    let read = &replayed.read;
    if read.late > 0 {
        notes.push(format!(
            "{} requests came too late to be put in order and were decided later than they were made",
            read.late
        ));
    }
    let blind = replayed.judge.blind_limits();
    if !blind.is_empty() {
        let names = blind.join(", ");
        notes.push(format!(
            "the log does not tell the headers that these limits look at, which count as absent: {names}"
        ));
    }
    if replayed.judge.evictions() > 0 {
        let evictions = replayed.judge.evictions();
        notes.push(format!(
            "{evictions} counters were forgotten early, because more than store.max_entries were in use"
        ));
    }
    if replayed.tally.callers.dropped > 0 {
        notes.push("there were more callers than are kept, so the numbers of single callers may be too low".into());
    }
    notes
}
