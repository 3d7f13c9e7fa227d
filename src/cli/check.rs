//! `check` and `-t`: every problem at once, for people or as JSON; opens no port.

use super::File;
use crate::config::Severity;
use crate::load::{self, Checked, Source};
use clap::Args;
use std::process::ExitCode;

/// Reports every problem of a configuration.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    file: File,
    /// Print a JSON list of {severity, file, line, column, message, hint}.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn of(file: File) -> Self {
        Self { file, json: false }
    }

    /// Exit code 1 when there is any error.
    pub fn run(self) -> ExitCode {
        let path = self.file.path();
        let checked = load::check(&Source::File(path.clone()), 1);
        if self.json {
            let records: Vec<_> = checked.problems.iter().map(|problem| checked.sources.record(problem)).collect();
            println!("{}", serde_json::to_string_pretty(&records).expect("records are plain data"));
        } else {
            print(&checked, &path.display().to_string());
        }
        let failed = checked.problems.iter().any(|problem| problem.severity == Severity::Error);
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn print(checked: &Checked, path: &str) {
    let errors = checked.rendered_errors();
    let warnings = checked.rendered_warnings();
    for problem in errors.iter().chain(&warnings) {
        eprintln!("{problem}");
    }
    match (&checked.snapshot, errors.len()) {
        (Some(snapshot), _) => {
            let policy = &snapshot.policy;
            println!(
                "{path}: ok: {} routes, {} tiers, {} consumers, {} limits, {} upstreams, {} warnings",
                policy.routes.len(),
                policy.tiers.len(),
                policy.consumers.len(),
                policy.limits.len(),
                snapshot.upstreams.len(),
                warnings.len(),
            );
        }
        (None, errors) => eprintln!("{path}: {errors} errors, {} warnings", warnings.len()),
    }
}
