//! Names that point at something else: tiers and upstreams, looked up once, the nearest valid name told when there
//! is none.

use super::limit::TierIndex;
use crate::config::Problem;
use crate::config::model::{Located, Name, Upstream};
use crate::config::problem::nearest;

/// The tier of that name.
pub fn tier(name: &Located<String>, tiers: &[Name], problems: &mut Vec<Problem>) -> Option<TierIndex> {
    let found = tiers.iter().position(|tier| **tier == *name.value);
    if found.is_none() {
        problems.push(undefined("tier", "[tiers.NAME]", name, tiers.iter().map(|tier| &**tier)));
    }
    found
}

/// The tiers of those names; unknown ones are problems.
pub fn tiers(
    names: Option<&Vec<Located<String>>>,
    tiers: &[Name],
    problems: &mut Vec<Problem>,
) -> Option<Vec<TierIndex>> {
    names.map(|names| names.iter().filter_map(|name| tier(name, tiers, problems)).collect())
}

/// The upstream of that name.
pub fn upstream(name: &Located<String>, upstreams: &[Upstream], problems: &mut Vec<Problem>) -> Option<usize> {
    let found = upstreams.iter().position(|upstream| upstream.name.value == name.value);
    if found.is_none() {
        let known = upstreams.iter().map(|upstream| upstream.name.value.as_str());
        problems.push(undefined("upstream", "[upstreams.NAME]", name, known));
    }
    found
}

fn undefined<'a>(
    kind: &str,
    table: &str,
    name: &Located<String>,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Problem {
    let problem = Problem::error(name.at, format!("there is no {kind} \"{}\"", name.value));
    match nearest(&name.value, known) {
        Some(near) => problem.hint(format!("did you mean \"{near}\"?")),
        None => problem.hint(format!("define it as {table}")),
    }
}
