//! Limits, wherever they are written.

use super::model::{Counts, Layer, Limit, Located, Mode, OnStoreError, Rate, Scope};
use super::names;
use super::problem::{Complaint, Problem, choices, nearest, quote};
use super::scope;
use super::server::MAX_TIMEOUT;
use super::tree::{Node, Reader, Table};
use super::units;
use crate::algorithm::{self, ALGORITHMS, Algorithm, MAX_COUNT, SlidingWindow};
use crate::time::Millis;

/// The algorithm of a limit that names none.
static DEFAULT_ALGORITHM: &dyn Algorithm = &SlidingWindow;

/// A word of the format that no algorithm of this version answers to.
const CONCURRENCY: &str = "concurrency";

const COUNTS: &[(&str, Counts)] = &[("cost", Counts::Cost), ("requests", Counts::Requests)];
const MODES: &[(&str, Mode)] = &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
const ON_STORE_ERROR: &[(&str, OnStoreError)] =
    &[("local", OnStoreError::Local), ("open", OnStoreError::Open), ("closed", OnStoreError::Closed)];

/// What `algorithm` and `max` say.
enum Choice {
    Known(Located<&'static dyn Algorithm>),
    /// No algorithm of that name.
    Unknown,
    /// `concurrency`, which has `max` instead of a rate.
    Unavailable,
}

/// A list of limits of one layer.
pub(super) fn list(reader: &mut Reader<'_>, node: Node<'_>, layer: Layer) -> Option<Vec<Limit>> {
    if node.is_table() {
        let hint = match layer {
            Layer::Custom => "each is a table of its own: [[limits]]",
            Layer::Ip | Layer::Key | Layer::Endpoint => "such as limits = [{ rate = \"100/min\" }]",
        };
        reader.problem(Problem::error(node.at, "`limits` must be a list of limits, not a table").hint(hint));
        return None;
    }
    let mut limits = Vec::new();
    for element in reader.list(node)? {
        limits.extend(reader.table(element, |reader, table| read(reader, table, layer)).flatten());
    }
    Some(limits)
}

/// Absent when what it cannot be without is not there or not valid; all else is read all the same, for its problems.
fn read(reader: &mut Reader<'_>, table: &mut Table<'_>, layer: Layer) -> Option<Limit> {
    let name = table.option(reader, "name", |reader, node| reader.parsed(node, "a name", names::limit));
    if let Some(name) = &name {
        reader.unique("limit", &name.value, name.at);
    }
    let choice = choice(reader, table);
    let rate = rate(reader, table, &choice);
    let burst = bucket(reader, table, "burst", "token_bucket", &choice, capacity);
    let queue = bucket(reader, table, "queue", "leaky_bucket", &choice, capacity);
    let max_wait = bucket(reader, table, "max_wait", "leaky_bucket", &choice, wait);
    let per = per(reader, table, layer);
    let counts = table.option(reader, "counts", |reader, node| reader.word(node, COUNTS));
    let tiers = table.option(reader, "tiers", tier_names);
    let mode = table.option(reader, "mode", |reader, node| reader.word(node, MODES));
    let on_store_error = table.option(reader, "on_store_error", |reader, node| reader.word(node, ON_STORE_ERROR));
    let expose = table.option(reader, "expose", Reader::boolean);
    let when = table.option(reader, "when", scope::when);
    let Choice::Known(algorithm) = choice else { return None };
    Some(Limit {
        at: table.at,
        name,
        algorithm,
        rate: rate?,
        burst,
        queue,
        max_wait,
        per,
        counts: counts.unwrap_or(Counts::Cost),
        tiers,
        mode: mode.unwrap_or(Mode::Enforce),
        on_store_error,
        expose: expose.unwrap_or(true),
        when,
    })
}

fn choice(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Choice {
    let max = table.take("max");
    if let Some(max) = max {
        reader.unavailable(max.key_at, "`max`, requests in flight at once,");
    }
    let Some(node) = table.take("algorithm") else {
        let default = Choice::Known(Located { value: DEFAULT_ALGORITHM, at: table.at });
        return if max.is_some() { Choice::Unavailable } else { default };
    };
    let Some(text) = reader.text(node) else { return Choice::Unknown };
    if text.value == CONCURRENCY {
        reader.unavailable(node.at, "the algorithm \"concurrency\"");
        return Choice::Unavailable;
    }
    if let Some(value) = algorithm::by_name(&text.value) {
        return Choice::Known(Located { value, at: node.at });
    }
    let names = || ALGORITHMS.iter().map(|algorithm| algorithm.name());
    let complaint = Complaint::new(format!("expected {}, not {}", choices(names(), quote), quote(&text.value)));
    let complaint = match nearest(&text.value, names()) {
        Some(near) => complaint.hint(format!("did you mean {}?", quote(near))),
        None => complaint,
    };
    reader.problem(complaint.of(node.key, node.at));
    Choice::Unknown
}

fn rate(reader: &mut Reader<'_>, table: &mut Table<'_>, choice: &Choice) -> Option<Located<Rate>> {
    match table.take("rate") {
        Some(node) => reader.parsed(node, "a rate such as \"100/min\"", units::rate),
        None if matches!(choice, Choice::Unavailable) => None,
        None => {
            reader.missing(table.at, "the limit has no `rate`", "such as rate = \"100/min\"");
            None
        }
    }
}

/// A key that only one algorithm has. With an algorithm that is unknown itself, nothing is said of it.
fn bucket<T>(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    key: &'static str,
    wanted: &str,
    choice: &Choice,
    read: fn(&mut Reader<'_>, Node<'_>) -> Option<Located<T>>,
) -> Option<Located<T>> {
    let node = table.take(key)?;
    let value = read(reader, node);
    if let Choice::Known(algorithm) = choice
        && algorithm.value.name() != wanted
    {
        let message = format!("`{key}` is for `{wanted}` only; this limit's algorithm is `{}`", algorithm.value.name());
        reader.problem(
            Problem::error(node.key_at, message).hint(format!("remove it, or write algorithm = \"{wanted}\"")),
        );
        return None;
    }
    value
}

fn capacity(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Located<i64>> {
    reader.integer(node, 1..=MAX_COUNT).map(|value| Located { value, at: node.at })
}

fn wait(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Located<Millis>> {
    reader.span(node, Millis(0)..=MAX_TIMEOUT).map(|value| Located { value, at: node.at })
}

fn per(reader: &mut Reader<'_>, table: &mut Table<'_>, layer: Layer) -> Option<Located<Vec<Scope>>> {
    let Some(node) = table.take("per") else {
        if layer == Layer::Custom {
            let hint = "what has a counter of its own, such as per = \"consumer\", or per = \"global\" for one counter";
            reader.missing(table.at, "a limit in [[limits]] needs `per`", hint);
        }
        return None;
    };
    let mut scopes: Vec<Scope> = Vec::new();
    for element in reader.one_or_more(node)? {
        let Some(scope) = reader.parsed(element, "a scope such as \"ip\"", scope::scope) else { continue };
        if scopes.contains(&scope.value) {
            reader.problem(Complaint::new("the scope is named twice").of(node.key, element.at));
        } else {
            scopes.push(scope.value);
        }
    }
    let scopes = reader.filled(scopes, node, "one counter for all is per = \"global\"")?;
    Some(Located { value: scopes, at: node.at })
}

/// The `tiers` of a limit or a route; whether they are defined is the policy's question.
pub(super) fn tier_names(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Located<String>>> {
    let mut tiers: Vec<Located<String>> = Vec::new();
    for element in reader.list(node)? {
        let Some(tier) = reader.text(element) else { continue };
        if tiers.iter().any(|known| known.value == tier.value) {
            reader.problem(Complaint::new(format!("{} is named twice", quote(&tier.value))).of(node.key, element.at));
        } else {
            tiers.push(tier);
        }
    }
    reader.filled(tiers, node, "for every tier leave it out")
}
