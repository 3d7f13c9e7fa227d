//! `check` and `-t`: every problem at once, for people or as JSON; opens no port.

use super::File;
use crate::config::Severity;
use crate::load::{self, Checked, Source};
use crate::policy::limit_text::counted;
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
            let counts = [
                (policy.routes.len(), "route"),
                (policy.tiers.len(), "tier"),
                (policy.consumers.len(), "consumer"),
                (policy.written_limits().count(), "limit"),
                (snapshot.upstreams.len(), "upstream"),
                (warnings.len(), "warning"),
            ];
            println!("{path}: ok: {}", counts.map(|(number, noun)| count(number, noun)).join(", "));
            for limit in policy.written_limits() {
                let algorithm = limit.meter.algorithm.name();
                println!("  {} ({}): {}, {algorithm}", limit.name, limit.layer.name(), limit.text.rate);
            }
        }
        (None, errors) => eprintln!("{path}: {}, {}", count(errors, "error"), count(warnings.len(), "warning")),
    }
}

fn count(number: usize, noun: &str) -> String {
    counted(i64::try_from(number).unwrap_or(i64::MAX), noun)
}
