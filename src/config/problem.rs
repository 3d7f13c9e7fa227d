//! A located complaint, for an operator: what is wrong, where, and what to do.
//!
//! Loading a configuration collects every [`Problem`] it can find before it gives up, so that one run of `check`
//! shows them all.

use super::model::Place;
use std::fmt::Write as _;
use std::sync::Arc;

/// Longer texts are not compared with valid names: nobody mistypes that much.
const MAX_COMPARED: usize = 64;

/// Texts of at least this many characters are compared with the starts of longer names too.
const MIN_START: usize = 6;

/// Longer values are cut where a message quotes them.
const MAX_QUOTED: usize = 80;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It works, but hardly as meant.
    Warning,
}

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub place: Option<Place>,
    /// What is wrong, naming the offending text and what was expected.
    pub message: String,
    /// What to do, where that can be said: often the nearest valid name.
    pub hint: Option<String>,
}

impl Problem {
    pub fn error(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place: Some(place), message: message.into(), hint: None }
    }

    pub fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    /// A problem of no place in a file, such as a file that cannot be read.
    pub fn unplaced(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place: None, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What is wrong with a text, before it is known where the text stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub message: String,
    pub hint: Option<String>,
}

impl Complaint {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same complaint about the value of `key` at `place`.
    pub fn of(self, key: &str, place: Place) -> Problem {
        let message = format!("{}: {}", name(key), self.message);
        Problem { severity: Severity::Error, place: Some(place), message, hint: self.hint }
    }
}

/// The candidate that `text` was most likely meant to be, if any is near enough, a start of it included. Case and `-` for `_` do not count.
///
/// ```
/// use sluicegate::config::problem::nearest;
/// assert_eq!(nearest("burts", ["rate", "burst"]), Some("burst"));
/// assert_eq!(nearest("tokn_buckt", ["leaky_bucket", "token_bucket"]), Some("token_bucket"));
/// assert_eq!(nearest("sliding_windw", ["fixed_window", "sliding_window_log"]), Some("sliding_window_log"));
/// assert_eq!(nearest("colour", ["rate", "burst"]), None);
/// ```
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if text.len() > MAX_COMPARED {
        return None;
    }
    let fold = |text: &str| text.trim().to_lowercase().replace('-', "_");
    let wanted = fold(text);
    let length = wanted.chars().count();
    let allowed = if length <= 2 { 0 } else { (length / 3).max(1) };
    let distance = |candidate: &str| {
        let folded = fold(candidate);
        let shorter = length.min(folded.len());
        if shorter >= 3 && (folded.starts_with(&wanted) || wanted.starts_with(&folded)) {
            return usize::from(folded != wanted);
        }
        let whole = strsim::osa_distance(&wanted, &folded);
        if shorter < MIN_START {
            return whole;
        }
        let start: String = folded.chars().take(length + 1).collect();
        whole.min(strsim::osa_distance(&wanted, &start) + 1)
    };
    let ranked = candidates.into_iter().map(|candidate| (distance(candidate), candidate));
    ranked.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// A key's name in a message: in backticks, controls escaped, cut when long.
pub fn name(text: &str) -> String {
    format!("`{}`", shorten(text))
}

/// A text value in a message: as TOML would write it, controls escaped, cut when long.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", shorten(text))
}

fn shorten(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(MAX_QUOTED)
        .flat_map(|c| c.is_control().then(|| c.escape_default()).map_or_else(|| vec![c], Iterator::collect))
        .collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}

/// `a`, `b` or `c`, each in the form that `show` gives it.
pub fn choices<'a>(names: impl IntoIterator<Item = &'a str>, show: fn(&str) -> String) -> String {
    let mut shown: Vec<String> = names.into_iter().map(show).collect();
    let Some(last) = shown.pop() else { return "nothing".to_owned() };
    if shown.is_empty() { last } else { format!("{} or {last}", shown.join(", ")) }
}

/// A problem as `check --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Record {
    pub severity: Severity,
    pub file: Option<String>,
    /// From 1.
    pub line: Option<usize>,
    /// From 1, in characters.
    pub column: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

/// The texts that were read, so that a [`Place`] can be shown as file, line and column.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<(String, Arc<str>)>,
    /// Ranges that [`Sources::render`] never shows, such as what stands where a key's digest should.
    masked: Vec<Place>,
}

impl Sources {
    /// Keeps a file's text; the index goes into every `Place` of it.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> u16 {
        self.files.push((name.into(), text.into()));
        u16::try_from(self.files.len() - 1).expect("the number of included files is bounded far below 65536")
    }

    /// File name, line and column (both from 1; the column counts characters), and the line's text.
    pub fn locate(&self, place: Place) -> Option<(&str, usize, usize, &str)> {
        let (name, text) = self.files.get(usize::from(place.file))?;
        let start = floor_boundary(text, place.start as usize);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[..line_start].matches('\n').count() + 1;
        let column = text[line_start..start].chars().count() + 1;
        let line_text = text[line_start..].lines().next().unwrap_or("");
        Some((name, line, column, line_text))
    }

    /// The names of all files, in the order in which they were read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// A file's whole text.
    pub fn text(&self, file: u16) -> Option<Arc<str>> {
        self.files.get(usize::from(file)).map(|(_, text)| Arc::clone(text))
    }

    /// `file:line:column`, for a message that names a second place.
    pub fn describe(&self, place: Place) -> String {
        match self.locate(place) {
            Some((name, line, column, _)) => format!("{name}:{line}:{column}"),
            None => "an unknown place".to_owned(),
        }
    }

    /// Hides a range from every rendering: it may hold a secret.
    pub fn mask(&mut self, place: Place) {
        self.masked.push(place);
    }

    /// One problem with its place worked out.
    pub fn record(&self, problem: &Problem) -> Record {
        let located = problem.place.and_then(|place| self.locate(place));
        Record {
            severity: problem.severity,
            file: located.map(|(file, ..)| file.to_owned()),
            line: located.map(|(_, line, ..)| line),
            column: located.map(|(_, _, column, _)| column),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }

    /// One problem as an operator reads it.
    pub fn render(&self, problem: &Problem) -> String {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut out = format!("{severity}: {}\n", problem.message);
        if let Some((place, (file, line, column, text))) =
            problem.place.and_then(|place| Some((place, self.locate(place)?)))
        {
            let gutter = line.to_string().len();
            let width = (place.end.saturating_sub(place.start) as usize).clamp(1, text.len().max(1));
            let carets = "^".repeat(width.min(text.chars().count().saturating_sub(column - 1).max(1)));
            let shown = self.visible(place, column, text);
            let _ = writeln!(out, "{:gutter$}--> {file}:{line}:{column}", "");
            let _ = writeln!(out, "{line} | {shown}");
            let _ = writeln!(out, "{:gutter$} | {:pad$}{carets}", "", "", pad = column - 1);
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(out, "  help: {hint}");
        }
        out
    }

    /// A line as it may be printed: masked ranges as `*`, and a blank for each tab or control, so that the carets
    /// stand right and a file cannot steer the terminal.
    fn visible(&self, place: Place, column: usize, line: &str) -> String {
        let prefix: usize = line.chars().take(column - 1).map(char::len_utf8).sum();
        let line_start = (place.start as usize).saturating_sub(prefix);
        let line_end = line_start + line.len();
        let in_line = |mask: &&Place| {
            mask.file == place.file && (mask.start as usize) < line_end && mask.end as usize > line_start
        };
        let masks: Vec<&Place> = self.masked.iter().filter(in_line).collect();
        let masked = |at: usize| masks.iter().any(|mask| (mask.start as usize..mask.end as usize).contains(&at));
        let show = |(at, character): (usize, char)| match character {
            _ if masked(line_start + at) => '*',
            character if character.is_control() => ' ',
            character => character,
        };
        line.char_indices().map(show).collect()
    }
}

/// The nearest start of a character at or before `index`.
pub(super) fn floor_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
