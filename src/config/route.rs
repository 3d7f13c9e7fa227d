//! `[[routes]]`: what is matched, what it costs and where it goes.

use super::host;
use super::limit::{self, tier_names};
use super::model::{Layer, Located, Route, RouteAuth, RoutePattern};
use super::pattern::{self, KNOWN_METHODS};
use super::problem::{Complaint, Problem, name, nearest, quote};
use super::responses;
use super::server::{MAX_TIMEOUT, MIN_TIMEOUT};
use super::tree::{Node, Reader, Table};
use super::units;
use crate::algorithm::{UNIT, Units};

/// Bytes of a route's name.
const MAX_NAME: usize = 256;

/// The name of the route that matches `*`.
const DEFAULT_NAME: &str = "default";

const AUTH: &[(&str, RouteAuth)] =
    &[("optional", RouteAuth::Optional), ("required", RouteAuth::Required), ("none", RouteAuth::None)];

/// Limits of `[[limits]]` say themselves where they apply, so that layer cannot be skipped.
const SKIP: &[(&str, Layer)] = &[("ip", Layer::Ip), ("key", Layer::Key), ("endpoint", Layer::Endpoint)];

/// All elements of one `routes` list.
pub(super) fn read_all(reader: &mut Reader<'_>, node: Node<'_>) -> Vec<Route> {
    if node.is_table() {
        let problem = Problem::error(node.at, "`routes` must be a list of routes, not a table");
        reader.problem(problem.hint("each is a table of its own: [[routes]]"));
        return Vec::new();
    }
    let elements = reader.list(node).unwrap_or_default();
    elements.into_iter().filter_map(|element| reader.table(element, read).flatten()).collect()
}

/// Absent when it matches nothing that is valid.
fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<Route> {
    let matches = matches(reader, table);
    let name = route_name(reader, table, &matches);
    let hosts = table.option(reader, "host", hosts);
    let upstream = table.option(reader, "upstream", Reader::text);
    let cost = table.option(reader, "cost", cost);
    let auth = table.option(reader, "auth", |reader, node| reader.word(node, AUTH));
    let tiers = table.option(reader, "tiers", tier_names);
    let limits = table.option(reader, "limits", |reader, node| limit::list(reader, node, Layer::Endpoint));
    let skip = table.option(reader, "skip", skip);
    let timeout = table.option(reader, "timeout", |reader, node| reader.span(node, MIN_TIMEOUT..=MAX_TIMEOUT));
    let strip_prefix = table
        .option(reader, "strip_prefix", |reader, node| reader.parsed(node, "a path such as \"/api\"", pattern::prefix));
    let rate_limited = responses::inside(reader, table);
    Some(Route {
        at: table.at,
        name: name?,
        matches,
        hosts: hosts.unwrap_or_default(),
        upstream,
        cost: cost.unwrap_or(Located { value: UNIT, at: table.at }),
        auth: auth.unwrap_or(RouteAuth::Optional),
        tiers,
        limits: limits.unwrap_or_default(),
        skip: skip.unwrap_or_default(),
        timeout,
        strip_prefix,
        rate_limited,
    })
}

fn matches(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Vec<Located<RoutePattern>> {
    let Some(node) = table.take("match") else {
        reader.missing(
            table.at,
            "the route has no `match`",
            "such as match = \"GET /api/users/:id\", or \"*\" for all else",
        );
        return Vec::new();
    };
    let mut matches: Vec<Located<RoutePattern>> = Vec::new();
    for element in reader.one_or_more(node).unwrap_or_default() {
        let Some(pattern) = reader.parsed(element, "a pattern such as \"GET /api\"", pattern::route) else { continue };
        if let Some(method) = &pattern.value.method
            && !KNOWN_METHODS.contains(&method.as_str())
        {
            let problem = Problem::warning(element.at, format!("{} is not a method in common use", name(method)));
            reader.problem(match nearest(method, KNOWN_METHODS.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean {}?", name(near))),
                None => problem,
            });
        }
        matches.push(pattern);
    }
    reader.filled(matches, node, "name at least one pattern").unwrap_or_default()
}

/// The name given, else the first match as written. Names are the labels of metrics, so they are unique.
fn route_name(
    reader: &mut Reader<'_>,
    table: &mut Table<'_>,
    matches: &[Located<RoutePattern>],
) -> Option<Located<String>> {
    let given = table.take("name").map(|node| reader.parsed(node, "a name", parse_name));
    let name = match (given, matches.first()) {
        (Some(given), _) => given,
        (None, Some(first)) if first.value.path.is_none() => {
            Some(Located { value: DEFAULT_NAME.to_owned(), at: first.at })
        }
        (None, Some(first)) => Some(Located { value: first.value.text.clone(), at: first.at }),
        (None, None) => None,
    };
    if let Some(name) = &name {
        reader.unique("route", &name.value, name.at);
    }
    name.filter(|_| !matches.is_empty())
}

fn parse_name(text: &str) -> Result<String, Complaint> {
    let is_valid = !text.is_empty()
        && text.len() <= MAX_NAME
        && text.trim() == text
        && text.chars().all(|character| !character.is_control());
    is_valid.then(|| text.to_owned()).ok_or_else(|| {
        let message = format!("expected 1 to {MAX_NAME} bytes without controls and outer blanks, not {}", quote(text));
        Complaint::new(message)
    })
}

fn hosts(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Located<String>>> {
    let mut hosts: Vec<Located<String>> = Vec::new();
    for element in reader.one_or_more(node)? {
        let Some(host) = reader.parsed(element, "a host such as \"api.example.com\"", host::host) else { continue };
        if hosts.iter().any(|known| known.value == host.value) {
            reader.problem(Complaint::new(format!("{} is named twice", quote(&host.value))).of(node.key, element.at));
        } else {
            hosts.push(host);
        }
    }
    reader.filled(hosts, node, "for any host leave it out")
}

fn cost(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Located<Units>> {
    if node.is_table() {
        reader.unavailable(node.at, "a cost known late (`reserve`, `actual`, `refund`)");
        return None;
    }
    let text = reader.number(node)?;
    match units::cost(text) {
        Ok(value) => Some(Located { value, at: node.at }),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            None
        }
    }
}

fn skip(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<Layer>> {
    let mut layers = Vec::new();
    for element in reader.list(node)? {
        let Some(layer) = reader.word(element, SKIP) else { continue };
        if layers.contains(&layer) {
            reader.problem(Complaint::new(format!("\"{}\" is named twice", layer.name())).of(node.key, element.at));
        } else {
            layers.push(layer);
        }
    }
    Some(layers)
}
