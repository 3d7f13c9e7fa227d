//! `replay`: what a configuration would have done to the traffic of an access log.

use super::File;
use crate::load::{self, Source};
use crate::replay::condition::Condition;
use crate::replay::fields::{Format, Map};
use crate::replay::judge::{Assumed, Judge, tier_of};
use crate::replay::report::{Report, Titles};
use crate::replay::{self, MAX_LOGS, Plan, text};
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Wrong usage that only the configuration shows.
const EXIT_USAGE: u8 = 2;

/// Replays access logs through a configuration: who would have been accepted and who refused.
///
/// Logs may be the gateway's own (JSON or text), nginx or Apache in the combined format, or of any form that --fields
/// describes; plain, gzip or zstd. Nothing is served and no store is asked.
#[derive(Args)]
pub struct Replay {
    #[command(flatten)]
    file: File,
    /// Access logs, in any order; `-` is standard input.
    #[arg(value_name = "LOG", default_value = "-")]
    logs: Vec<String>,
    /// Shows who would newly be refused or freed, compared with this configuration.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Where a line has what: ip=1,time=4,request=5 by column or ip=client.addr,time=ts,path=url by name. Known are ip,
    /// time, method, path, request, host, status, consumer, key_id, duration_s, duration_ms and header:NAME.
    #[arg(long, value_name = "MAP")]
    fields: Option<Map>,
    /// The host of requests whose line has none.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The tier of callers that a line does not name; each is counted by its address.
    #[arg(long, value_name = "TIER")]
    assume_tier: Option<String>,
    /// Exit with 1 if this holds: 'refused > 1%', 'refused[tier=pro] > 0', 'newly_refused > 0'. May be repeated.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Writes the report as one page with plots over time.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    /// How many callers are listed.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    top: u16,
}

/// Why there is no report.
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn new(message: impl ToString) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    fn usage(message: impl ToString) -> Self {
        Self { code: EXIT_USAGE, message: message.to_string() }
    }
}

impl Replay {
    /// Exit code 1 when a condition holds, a configuration is refused or no line can be read.
    pub fn run(self) -> ExitCode {
        match self.report() {
            Ok(code) => code,
            Err(failure) => {
                eprintln!("sluicegate: {}", failure.message);
                ExitCode::from(failure.code)
            }
        }
    }

    fn report(self) -> Result<ExitCode, Failure> {
        if self.compare.is_none()
            && let Some(condition) = self.fail_if.iter().find(|condition| condition.needs_comparison())
        {
            return Err(Failure::usage(format!("`{condition}` needs --compare")));
        }
        if self.logs.len() > MAX_LOGS {
            return Err(Failure::usage(format!("more than {MAX_LOGS} logs")));
        }
        if self.logs.iter().any(|log| log == "-") && io::stdin().is_terminal() {
            return Err(Failure::usage("name an access log, or send one to standard input"));
        }
        let path = self.file.path();
        let format = self.fields.map_or_else(Format::known, Format::Given);
        let options = Options { host: self.host, tier: self.assume_tier, format: &format };
        let judge = options.judge(&path, true)?;
        let unknown = self.fail_if.iter().find_map(|condition| Some((condition, judge.unknown_name(&condition.part)?)));
        if let Some((condition, name)) = unknown {
            return Err(Failure::usage(format!("`{condition}`: there is no {name}")));
        }
        let old = self.compare.as_deref().map(|path| options.judge(path, false)).transpose()?;
        let titles = Titles {
            configuration: path.display().to_string(),
            compared_with: self.compare.as_ref().map(|path| path.display().to_string()),
            logs: self.logs.clone(),
            top: usize::from(self.top),
        };
        let replayed = replay::run(Plan { logs: self.logs, format, judge, old }).map_err(Failure::new)?;
        let report = Report::new(&replayed, titles, &self.fail_if);
        if let Some(page) = &self.html {
            let named = |error: io::Error| Failure::new(format!("{}: {error}", page.display()));
            std::fs::write(page, replay::page(&report)).map_err(named)?;
        }
        print(&report, self.json)?;
        if report.is_unreadable() {
            return Err(Failure::new("no line could be read; see --fields"));
        }
        Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(report: &Report, json: bool) -> Result<(), Failure> {
    let mut text =
        if json { serde_json::to_string_pretty(report).expect("a report is plain data") } else { text::render(report) };
    if json {
        text.push('\n');
    }
    match io::stdout().write_all(text.as_bytes()) {
        // Who reads only the beginning (`| head`) has what was wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(error)),
        _ => Ok(()),
    }
}

/// What holds for both policies.
struct Options<'f> {
    host: Option<String>,
    tier: Option<String>,
    format: &'f Format,
}

impl Options<'_> {
    /// The policy of a file. Only the new one must have the assumed tier.
    fn judge(&self, path: &Path, must_have_tier: bool) -> Result<Judge, Failure> {
        let checked = load::check(&Source::File(path.to_owned()), 1);
        for problem in checked.rendered_errors() {
            eprintln!("{problem}");
        }
        let (Some(config), Some(snapshot)) = (checked.config, checked.snapshot) else {
            return Err(Failure::new(format!("{}: the configuration is refused", path.display())));
        };
        let policy = snapshot.policy;
        let tier = self.tier.as_deref().and_then(|name| tier_of(&policy, name));
        if let Some(name) = self.tier.as_ref().filter(|_| must_have_tier && tier.is_none()) {
            return Err(Failure::usage(format!("{}: there is no tier {name}", path.display())));
        }
        let assumed = Assumed { host: self.host.clone(), tier };
        Ok(Judge::new(policy, &config, self.format.headers(), assumed))
    }
}
