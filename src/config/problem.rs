//! A located complaint, for an operator: what is wrong, where, and what to do.
//!
//! Loading a configuration collects every [`Problem`] it can find before it gives up, so that one run of `check`
//! shows them all.

use super::model::Place;
use std::fmt::Write as _;

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

/// The texts that were read, so that a [`Place`] can be shown as file, line and column.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<(String, String)>,
}

impl Sources {
    /// Keeps a file's text; the index goes into every `Place` of it.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u16 {
        self.files.push((name.into(), text.into()));
        u16::try_from(self.files.len() - 1).expect("the number of included files is bounded far below 65536")
    }

    /// File name, line and column (both from 1; the column counts characters), and the line's text.
    pub fn locate(&self, place: Place) -> Option<(&str, usize, usize, &str)> {
        let (name, text) = self.files.get(usize::from(place.file))?;
        let start = text.floor_char_boundary(place.start as usize);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[..line_start].matches('\n').count() + 1;
        let column = text[line_start..start].chars().count() + 1;
        let line_text = text[line_start..].lines().next().unwrap_or("");
        Some((name, line, column, line_text))
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
            let _ = writeln!(out, "{:gutter$}--> {file}:{line}:{column}", "");
            let _ = writeln!(out, "{line} | {text}");
            let _ = writeln!(out, "{:gutter$} | {:pad$}{carets}", "", "", pad = column - 1);
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(out, "  help: {hint}");
        }
        out
    }
}
