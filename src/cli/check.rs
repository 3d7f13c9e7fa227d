//! `check` and `-t`: every problem at once, for people or as JSON; opens no port.

use super::File;
use super::output;
use crate::config::Severity;
use crate::load::{self, Checked, Source};
use crate::policy::limit_text::counted;
use clap::Args;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Reports every problem of a configuration.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    file: File,
    /// Print a JSON list of {severity, file, line, column, message, hint}
    #[arg(long)]
    json: bool,
    /// Take every warning for an error
    #[arg(long)]
    strict: bool,
}

impl Check {
    pub fn of(file: File) -> Self {
        Self { file, json: false, strict: false }
    }

    /// Exit code 1 when there is any error.
    pub fn run(self) -> ExitCode {
        let path = self.file.path();
        let mut checked = load::check(&Source::File(path.clone()), 1);
        if self.strict {
            checked.warnings_are_errors();
        }
        let printed = if self.json {
            let records: Vec<_> = checked.problems.iter().map(|problem| checked.sources.record(problem)).collect();
            output::print_json(&records)
        } else {
            print(&checked, &path.display().to_string())
        };
        let failed = checked.problems.iter().any(|problem| problem.severity == Severity::Error);
        if failed { ExitCode::FAILURE } else { printed }
    }
}

fn print(checked: &Checked, path: &str) -> ExitCode {
    output::print_problems(checked);
    let number = |severity| checked.problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    let Some(snapshot) = &checked.snapshot else {
        eprintln!("{path}: {}, {}", count(errors, "error"), count(warnings, "warning"));
        return ExitCode::FAILURE;
    };
    let policy = &snapshot.policy;
    let counts = [
        (policy.routes.len(), "route"),
        (policy.tiers.len(), "tier"),
        (policy.consumers.len(), "consumer"),
        (policy.written_limits().count(), "limit"),
        (snapshot.upstreams.len(), "upstream"),
        (warnings, "warning"),
    ];
    let mut text = format!("{path}: ok: {}\n", counts.map(|(number, noun)| count(number, noun)).join(", "));
    for limit in policy.written_limits() {
        let algorithm = limit.meter.algorithm.name();
        let _ = writeln!(text, "  {} ({}): {}, {algorithm}", limit.name, limit.layer.name(), limit.text.rate);
    }
    output::print(&text)
}

fn count(number: usize, noun: &str) -> String {
    counted(i64::try_from(number).unwrap_or(i64::MAX), noun)
}
