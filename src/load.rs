//! From files to a snapshot, or to every problem that keeps them from being one.
//!
//! The one way in: `run`, `check`, `demo` and a reload all read their configuration here, so that what `check` accepts
//! is what runs, as soon as the names of its upstreams can be found.

use crate::config::model::Config;
use crate::config::{self, Problem, Severity, Sources};
use crate::policy::Policy;
use crate::proxy::snapshot::Snapshot;
use crate::request::caller::EXPIRES_SOON;
use crate::time::Clock;
use std::path::PathBuf;

/// Ids that a line of the log names.
const MAX_NAMED: usize = 5;

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, which may name others.
    File(PathBuf),
    /// Text in the program: a main file and a keys file.
    Embedded { main: String, keys: String },
}

impl Source {
    fn load(&self) -> config::Loaded {
        match self {
            Self::File(path) => config::load(path, &|name| std::env::var(name).ok()),
            Self::Embedded { main, keys } => config::load_text("demo", main, Some(keys), &|_| None),
        }
    }
}

/// What came of a configuration.
pub struct Checked {
    /// Absent when there is any error.
    pub config: Option<Config>,
    pub snapshot: Option<Snapshot>,
    pub problems: Vec<Problem>,
    pub sources: Sources,
}

/// As [`check`], and finds the servers of the upstreams, by their names too. `in_force` is what a reload replaces.
pub fn load(source: &Source, generation: u64, in_force: Option<&Snapshot>) -> Checked {
    let mut checked = check(source, generation);
    if let Some(snapshot) = &checked.snapshot {
        let problems = snapshot.resolve(in_force);
        if !problems.is_empty() {
            checked.problems.extend(problems);
            checked.snapshot = None;
            checked.config = None;
        }
    }
    checked
}

/// Reads and compiles; opens no port and asks no name server.
pub fn check(source: &Source, generation: u64) -> Checked {
    let config::Loaded { config, mut problems, sources } = source.load();
    let snapshot = config.as_ref().and_then(|config| {
        let (snapshot, found) = Snapshot::compile(config, generation);
        // Of a configuration that is refused as it was read, compiling knows too little to warn.
        let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
        let matters = |problem: &Problem| problem.severity == Severity::Error || !refused;
        let news: Vec<_> =
            found.into_iter().filter(|problem| matters(problem) && !is_told(problem, &problems)).collect();
        problems.extend(news);
        snapshot
    });
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    problems.sort_by_key(|problem| problem.place.map_or((0, 0), |place| (place.file, place.start)));
    Checked { config: config.filter(|_| !failed), snapshot: snapshot.filter(|_| !failed), problems, sources }
}

/// Whether a mistake that compiling found was told when its file was read: there it has a place, and a better text.
fn is_told(found: &Problem, told: &[Problem]) -> bool {
    let mut errors = told.iter().filter(|problem| problem.severity == Severity::Error);
    errors.any(|error| found.place.is_none() || found.place == error.place)
}

impl Checked {
    /// The files that were read.
    pub fn files(&self) -> Vec<PathBuf> {
        self.sources.names().map(PathBuf::from).collect()
    }

    /// Takes every warning for an error: then there is no configuration either.
    pub fn warnings_are_errors(&mut self) {
        for problem in &mut self.problems {
            problem.severity = Severity::Error;
        }
        if !self.problems.is_empty() {
            self.config = None;
            self.snapshot = None;
        }
    }

    /// The errors, as an operator reads them.
    pub fn rendered_errors(&self) -> Vec<String> {
        self.rendered(Severity::Error)
    }

    /// The warnings, as an operator reads them.
    pub fn rendered_warnings(&self) -> Vec<String> {
        self.rendered(Severity::Warning)
    }

    fn rendered(&self, severity: Severity) -> Vec<String> {
        let wanted = self.problems.iter().filter(|problem| problem.severity == severity);
        wanted.map(|problem| self.sources.render(problem)).collect()
    }
}

/// One line in the log when keys expire soon. Called when a policy is put in force.
pub fn tell_expiring(policy: &Policy) {
    let now = Clock::wall();
    let count = policy.keys.expiring(now);
    if count == 0 {
        return;
    }
    let soon = policy.keys.records().filter(|record| record.expires_soon(now));
    let ids: Vec<&str> = soon.map(|record| record.id()).take(MAX_NAMED).collect();
    tracing::warn!(count, within_days = EXPIRES_SOON.0 / 86_400_000, ids = ids.join(", "), "keys expire soon");
}
