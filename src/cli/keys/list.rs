//! `keys list`: what the keys file holds, as far as it is no secret.

use super::super::File;
use super::super::output::{self, report_problems};
use crate::algorithm::calendar::rfc3339;
use crate::config::model::{Consumer, Key};
use crate::load::{self, Source};
use crate::request::caller::EXPIRES_SOON;
use crate::time::{Clock, Timestamp};
use clap::Args;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Lists the keys of a configuration.
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    file: File,
    /// Print a JSON list of {id, consumer, tier, not_before, expires, state}
    #[arg(long)]
    json: bool,
}

/// One key, without its digest.
#[derive(serde::Serialize)]
struct Row<'c> {
    id: &'c str,
    consumer: &'c str,
    tier: &'c str,
    not_before: Option<String>,
    expires: Option<String>,
    state: &'static str,
}

impl List {
    pub fn run(self) -> ExitCode {
        let checked = load::check(&Source::File(self.file.path()), 1);
        let Some(config) = &checked.config else { return report_problems(&checked) };
        let now = Clock::wall();
        let keys = config.consumers.iter().flat_map(|consumer| consumer.keys.iter().map(move |key| (consumer, key)));
        let rows: Vec<Row<'_>> = keys.map(|(consumer, key)| row(consumer, key, now)).collect();
        if self.json { output::print_json(&rows) } else { output::print(&table(&rows)) }
    }
}

fn row<'c>(consumer: &'c Consumer, key: &'c Key, now: Timestamp) -> Row<'c> {
    Row {
        id: &key.id.value,
        consumer: &consumer.name.value,
        tier: &consumer.tier.value,
        not_before: key.not_before.map(rfc3339),
        expires: key.expires.map(rfc3339),
        state: state(key, now),
    }
}

/// In the order in which the gateway looks: what refuses the key comes first.
fn state(key: &Key, now: Timestamp) -> &'static str {
    let expires = key.expires.unwrap_or(Timestamp(i64::MAX));
    if key.disabled {
        "disabled"
    } else if key.not_before.is_some_and(|first| now < first) {
        "not yet valid"
    } else if now >= expires {
        "expired"
    } else if now + EXPIRES_SOON >= expires {
        "expires soon"
    } else {
        "valid"
    }
}

fn table(rows: &[Row<'_>]) -> String {
    const HEAD: [&str; 5] = ["ID", "CONSUMER", "TIER", "EXPIRES", "STATE"];
    let cells = |row: &Row<'_>| {
        let expires = row.expires.clone().unwrap_or_else(|| "never".to_owned());
        [row.id.to_owned(), row.consumer.to_owned(), row.tier.to_owned(), expires, row.state.to_owned()]
    };
    let mut widths = HEAD.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(cells(row)) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in std::iter::once(HEAD.map(str::to_owned)).chain(rows.iter().map(cells)) {
        let padded: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "{}", padded.join("  ").trim_end());
    }
    text
}
