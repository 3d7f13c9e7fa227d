//! The generic part of reading: a file's spanned TOML tree, and a [`Reader`] that turns its nodes into values.
//!
//! Every value knows where it stands, so every complaint can point at it. Nothing stops at the first complaint: a
//! value that cannot be read is `None` after its problem was noted, and the sections go on. A [`Table`] is only ever
//! seen inside [`Reader::table`], which afterwards complains of each key that nobody asked for; so a mistyped key
//! cannot be passed over, and the list of valid names in that message is never out of date.
//!
//! Of a file that is not valid TOML the rest is still read, for its own problems, but nothing is called missing in
//! it: what is missing may stand in the part that was lost.

use super::misplaced::belongs;
use super::model::Place;
use super::problem::{Problem, Sources, choices, floor_boundary, name, nearest, quote};
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Problems beyond these are counted, not kept.
const MAX_PROBLEMS: usize = 1000;

/// Syntax errors shown of one file; one fault often causes a trail of them.
const MAX_SYNTAX_ERRORS: usize = 10;

/// Valid names listed in one message.
const MAX_LISTED: usize = 40;

/// Reads nodes, and keeps what the whole load shares: texts, problems, names already taken.
pub(super) struct Reader<'e> {
    pub sources: Sources,
    pub problems: Vec<Problem>,
    dropped: usize,
    /// Where in its file the text begins that is being read.
    pub(super) base: u32,
    pub(super) environment: &'e dyn Fn(&str) -> Option<String>,
    /// For each file of `sources`.
    pub(super) files: Vec<FileState>,
    taken: HashMap<(&'static str, String), Place>,
}

pub(super) struct FileState {
    /// What relative paths in this file are relative to.
    pub(super) directory: PathBuf,
    /// Whether it is not valid TOML.
    broken: bool,
}

/// A key and its value, or one element of a list (then `key` is the list's).
#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    pub key: &'t str,
    pub key_at: Place,
    pub at: Place,
    pub(super) value: &'t DeValue<'t>,
}

/// A table whose keys are being asked for.
pub(super) struct Table<'t> {
    label: &'t str,
    pub at: Place,
    entries: Vec<Node<'t>>,
    known: Vec<&'static str>,
}

impl<'e> Reader<'e> {
    pub fn new(environment: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            sources: Sources::default(),
            problems: Vec::new(),
            dropped: 0,
            base: 0,
            environment,
            files: Vec::new(),
            taken: HashMap::new(),
        }
    }

    /// Keeps a text; relative paths in it are relative to `directory`.
    pub fn add_file(&mut self, name: &str, text: String, directory: &Path) -> u16 {
        self.files.push(FileState { directory: directory.to_owned(), broken: false });
        self.sources.add(name, text)
    }

    /// Parses a file and hands its top-level table to `read`. Returns whether it is valid TOML.
    pub fn document(&mut self, file: u16, read: impl FnOnce(&mut Self, &mut Table<'_>)) -> bool {
        let text = self.sources.text(file).expect("a file is added before it is parsed");
        let (root, errors) = DeTable::parse_recoverable(&text);
        let broken_lines = self.syntax_errors(file, &text, &errors);
        self.files[usize::from(file)].broken = !errors.is_empty();
        let first = self.problems.len();
        self.with_table("the top level", Place { file, start: 0, end: 0 }, root.get_ref(), read);
        let rest = self.problems.split_off(first);
        let is_trail = |problem: &Problem| {
            problem.place.is_some_and(|place| {
                place.file == file && broken_lines.iter().any(|line| line.contains(&(place.start as usize)))
            })
        };
        self.problems.extend(rest.into_iter().filter(|problem| !is_trail(problem)));
        errors.is_empty()
    }

    /// Reads a file part by part, each as a document of its own, as far as all of it is plain. False when anything is not: then
    /// nothing of it was noted, and what `read` has gathered is to be forgotten.
    pub fn parts(
        &mut self,
        file: u16,
        parts: &[Range<usize>],
        mut read: impl FnMut(&mut Self, &mut Table<'_>),
    ) -> bool {
        let text = self.sources.text(file).expect("a file is added before it is parsed");
        let known = (self.problems.len(), self.dropped);
        let mut read_part = |reader: &mut Self, part: &Range<usize>| {
            let (root, errors) = DeTable::parse_recoverable(&text[part.clone()]);
            reader.base = offset(part.start);
            reader.with_table("the top level", Place { file, start: 0, end: 0 }, root.get_ref(), &mut read);
            reader.base = 0;
            errors.is_empty() && known == (reader.problems.len(), reader.dropped)
        };
        let is_plain = parts.iter().all(|part| read_part(self, part));
        if !is_plain {
            self.forget(file, known);
        }
        is_plain
    }

    /// Takes back the problems after the first so many, and the names that were taken in a file.
    pub fn forget(&mut self, file: u16, (problems, dropped): (usize, usize)) {
        self.problems.truncate(problems);
        self.dropped = dropped;
        self.taken.retain(|_, place| place.file != file);
    }

    /// What [`Reader::forget`] goes back to.
    pub fn noted(&self) -> (usize, usize) {
        (self.problems.len(), self.dropped)
    }

    /// Notes the syntax errors, one a line; returns the ranges of those lines.
    fn syntax_errors(&mut self, file: u16, text: &str, errors: &[toml::de::Error]) -> Vec<RangeInclusive<usize>> {
        let mut lines: Vec<RangeInclusive<usize>> = Vec::new();
        for error in errors {
            let span = error.span().unwrap_or(text.len()..text.len());
            if lines.len() >= MAX_SYNTAX_ERRORS || lines.iter().any(|line| line.contains(&span.start)) {
                continue;
            }
            let start = floor_boundary(text, span.start);
            let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
            lines.push(line_start..=line_end);
            let offending = text.get(span.clone()).unwrap_or("").trim();
            let message = match (error.message(), offending) {
                (message, "") => format!("not valid TOML: {message}"),
                ("duplicate key", key) => format!("{} is defined twice", name(key)),
                (message, offending) => format!("not valid TOML: {message}, at {}", name(offending)),
            };
            self.problem(Problem::error(place(file, &span), message));
        }
        lines
    }

    pub fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.dropped += 1;
        }
    }

    /// All problems in the order of the files, those of no place first, and the texts to show them with.
    pub fn finish(mut self) -> (Vec<Problem>, Sources) {
        self.problems.sort_by_key(|problem| problem.place.map(|place| (place.file, place.start)));
        if self.dropped > 0 {
            let message = format!("{} more problems are not shown", self.dropped);
            self.problems.push(Problem::unplaced(message));
        }
        (self.problems, self.sources)
    }

    pub(super) fn is_broken(&self, file: u16) -> bool {
        self.files.get(usize::from(file)).is_some_and(|file| file.broken)
    }

    /// Something required is not there; unsaid in a file that is not valid TOML.
    pub fn missing(&mut self, at: Place, message: impl Into<String>, hint: impl Into<String>) {
        if !self.is_broken(at.file) {
            self.problem(Problem::error(at, message).hint(hint));
        }
    }

    /// A feature of the format that this version does not have.
    pub fn unavailable(&mut self, at: Place, what: &str) {
        self.problem(Problem::error(at, format!("{what} is not available yet")).hint("remove it"));
    }

    /// Takes a name of a kind; taken before is a problem that names both places.
    pub fn unique(&mut self, kind: &'static str, text: &str, at: Place) -> bool {
        let Some(first) = self.taken.get(&(kind, text.to_owned())).copied() else {
            self.taken.insert((kind, text.to_owned()), at);
            return true;
        };
        if self.problems.len() >= MAX_PROBLEMS {
            // Finding lines in a large file takes time, and nobody would see the answer.
            self.dropped += 1;
            return false;
        }
        let first = self.sources.describe(first);
        let message = format!("{kind} {} is defined twice", name(text));
        self.problem(Problem::error(at, message).hint(format!("it is first defined at {first}")));
        false
    }

    /// Reads a table; every key that `read` did not ask for is a problem.
    pub fn table<'t, T>(&mut self, node: Node<'t>, read: impl FnOnce(&mut Self, &mut Table<'t>) -> T) -> Option<T> {
        let DeValue::Table(entries) = node.value else {
            self.wrong_type(node, "a table");
            return None;
        };
        Some(self.with_table(node.key, node.at, entries, read))
    }

    /// Reads a table that was not written: every value takes its default.
    pub fn absent_table<T>(&mut self, at: Place, read: impl FnOnce(&mut Self, &mut Table<'_>) -> T) -> T {
        self.with_table("", at, &DeTable::new(), read)
    }

    fn with_table<'t, T>(
        &mut self,
        label: &'t str,
        at: Place,
        entries: &'t DeTable<'t>,
        read: impl FnOnce(&mut Self, &mut Table<'t>) -> T,
    ) -> T {
        let mut entries: Vec<Node<'t>> = entries
            .iter()
            .map(|(key, value)| Node::new(self.origin(at.file), key.get_ref(), &key.span(), value))
            .collect();
        entries.sort_by_key(|entry| entry.key_at.start);
        let mut table = Table { label, at, entries, known: Vec::new() };
        let value = read(self, &mut table);
        for entry in table.entries {
            self.unknown(entry, table.label, &table.known);
        }
        value
    }

    /// Where the text that is being read begins.
    pub(super) fn origin(&self, file: u16) -> Place {
        Place { file, start: self.base, end: self.base }
    }

    fn unknown(&mut self, entry: Node<'_>, label: &str, known: &[&'static str]) {
        let mut listed: Vec<&str> = known.iter().copied().take(MAX_LISTED).collect();
        listed.sort_unstable();
        let label = if label == "the top level" { label.to_owned() } else { name(label) };
        let expected = choices(listed.iter().copied(), name);
        let message = format!("unknown key {} in {label}; expected {expected}", name(entry.key));
        let problem = Problem::error(entry.key_at, message);
        let problem = match (nearest(entry.key, known.iter().copied()), belongs(entry.key)) {
            (Some(near), _) => problem.hint(format!("did you mean {}?", name(near))),
            (None, Some(elsewhere)) => problem.hint(elsewhere),
            (None, None) => problem,
        };
        self.problem(problem);
    }
}

fn place(file: u16, span: &Range<usize>) -> Place {
    Place { file, start: offset(span.start), end: offset(span.end) }
}

/// The place of a span in the text that begins at `origin`.
fn within(origin: Place, span: &Range<usize>) -> Place {
    let Place { file, start, end } = place(origin.file, span);
    Place { file, start: start.saturating_add(origin.start), end: end.saturating_add(origin.start) }
}

fn offset(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

impl<'t> Node<'t> {
    fn new(origin: Place, key: &'t str, key_span: &Range<usize>, value: &'t Spanned<DeValue<'t>>) -> Self {
        Self { key, key_at: within(origin, key_span), at: within(origin, &value.span()), value: value.get_ref() }
    }

    /// An element of the list that this is; `origin` as [`Reader::origin`] gives it.
    pub(super) fn element(self, origin: Place, value: &'t Spanned<DeValue<'t>>) -> Self {
        let at = within(origin, &value.span());
        Self { key: self.key, key_at: at, at, value: value.get_ref() }
    }

    pub fn is_table(self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub fn is_text(self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    pub fn as_datetime(self) -> Option<toml::value::Datetime> {
        match self.value {
            DeValue::Datetime(datetime) => Some(*datetime),
            _ => None,
        }
    }

    /// The value for a message; a text is quoted.
    pub fn described(self) -> String {
        match self.value {
            DeValue::String(text) => format!("the string {}", quote(text)),
            DeValue::Integer(number) => format!("the integer {number}"),
            DeValue::Float(number) => format!("the float {number}"),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(datetime) => format!("the time {datetime}"),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        }
    }
}

impl<'t> Table<'t> {
    /// The node of a key, which is thereby known.
    pub fn take(&mut self, key: &'static str) -> Option<Node<'t>> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// The value of a key, if it is there and `read` understands it.
    pub fn option<'e, T>(
        &mut self,
        reader: &mut Reader<'e>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'e>, Node<'t>) -> Option<T>,
    ) -> Option<T> {
        let node = self.take(key)?;
        read(reader, node)
    }

    /// A table inside this one; absent, it is read as an empty one.
    pub fn section<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        read: impl Fn(&mut Reader<'_>, &mut Table<'_>) -> T,
    ) -> T {
        match self.take(key).and_then(|node| reader.table(node, &read)) {
            Some(value) => value,
            None => reader.absent_table(self.at, read),
        }
    }

    /// All entries, in the order of the file: for tables whose keys are names.
    pub fn take_all(&mut self) -> Vec<Node<'t>> {
        std::mem::take(&mut self.entries)
    }

    /// Entries nobody has asked for so far.
    pub fn rest(&self) -> &[Node<'t>] {
        &self.entries
    }
}
