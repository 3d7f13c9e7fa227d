//! Who is refused by one decision and not by the other: against another policy, or against what the log recorded.
//!
//! Only refusals by a limit count. Limits are known by name, since those of a log belong to no policy at hand.

use super::callers::{Callers, Share};
use super::judge::Caller;
use crate::time::Timestamp;
use std::collections::HashMap;

/// Names that are told apart; those of further limits are one.
const MAX_NAMES: usize = 4096;

/// One side: whether a limit refused, and which; an empty name is one that nobody knows.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub refused: bool,
    pub limit: &'a str,
}

/// Requests that fare otherwise.
#[derive(Debug, Default)]
pub struct Change {
    pub requests: u64,
    /// By the limit that refuses, an index of [`Difference::name`].
    pub limits: HashMap<usize, u64>,
    pub callers: Callers,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Difference {
    /// Requests of which both sides are known.
    pub compared: u64,
    pub newly_refused: Change,
    pub freed: Change,
    /// Refused by both, but by limits of different names.
    pub other_limit: u64,
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, usize>,
}

impl Difference {
    pub fn add(&mut self, at: Timestamp, caller: Caller, then: Side<'_>, now: Side<'_>) {
        self.compared += 1;
        match (then.refused, now.refused) {
            (false, true) => {
                let limit = self.index(now.limit);
                self.newly_refused.add(at, caller, limit);
            }
            (true, false) => {
                let limit = self.index(then.limit);
                self.freed.add(at, caller, limit);
            }
            (true, true) if then.limit != now.limit && !then.limit.is_empty() => self.other_limit += 1,
            _ => {}
        }
    }

    /// A limit's name.
    pub fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("(others)", |name| name)
    }

    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        if self.names.len() == MAX_NAMES {
            return MAX_NAMES;
        }
        let shown = if name.is_empty() { "(not recorded)" } else { name };
        self.names.push(shown.into());
        self.by_name.insert(name.into(), self.names.len() - 1);
        self.names.len() - 1
    }
}

impl Change {
    fn add(&mut self, at: Timestamp, caller: Caller, limit: usize) {
        self.requests += 1;
        *self.limits.entry(limit).or_default() += 1;
        self.callers.add(caller, Share::Refused, at, Some(limit));
    }
}
