//! What the operator wrote: the TOML files read, checked for form and turned into [`model`] types.
//!
//! Nothing is derived here and nothing is guessed: an unknown key, a wrong type or a bare number for a span is a
//! [`Problem`], and all problems are collected. Meaning (which tier a name is, whether a cost fits) is
//! `policy::compile`'s part.
//!
//! A file is parsed to a tree that knows its places (`tree`, `values`), variables are replaced in its string values
//! (`expand`), and one module a section turns it into the model. `docs/configuration.md` is the reference.

mod auth;
mod client_ip;
mod datetime;
mod draft;
mod expand;
mod file;
pub mod host;
mod include;
mod key_parts;
mod keys;
mod limit;
mod misplaced;
pub mod model;
pub mod names;
mod output;
pub mod pattern;
mod pem;
pub mod problem;
mod redis;
mod responses;
mod route;
pub mod scope;
mod server;
mod store;
mod tier;
mod tls;
mod tree;
pub mod units;
mod upstream;
mod values;
mod written;

use draft::Draft;
use file::{MAX_CONFIG_BYTES, MAX_KEYS_BYTES};
use std::path::{Path, PathBuf};
use tree::{Reader, Table};

pub use model::{Config, Located, Place};
pub use problem::{Problem, Severity, Sources};
pub use server::DEFAULT_RUNTIME_DIR;
pub use upstream::{MAX_RETRIES, host_of};

/// What came of reading a configuration.
#[derive(Debug)]
pub struct Loaded {
    /// Absent when the main file or an included one could not be read or is not valid TOML: then the rest would be
    /// full of false complaints. Otherwise present even beside errors, so that later checks can add theirs.
    pub config: Option<Config>,
    /// In the order of the files; warnings among them.
    pub problems: Vec<Problem>,
    pub sources: Sources,
}

impl Loaded {
    /// Whether the configuration is refused.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Reads the main file, what it includes, and its keys file. `environment` looks up a variable.
pub fn load(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Loaded {
    let mut reader = Reader::new(environment);
    let main = open(&mut reader, path, MAX_CONFIG_BYTES, None);
    let config = main.and_then(|main| read(&mut reader, main, path, None));
    let (problems, sources) = reader.finish();
    Loaded { config, problems, sources }
}

/// Reads a configuration that is in memory: `keys` stands in for the keys file. Files it names are relative to the
/// working directory. `name` is what problems call it.
pub fn load_text(name: &str, text: &str, keys: Option<&str>, environment: &dyn Fn(&str) -> Option<String>) -> Loaded {
    let mut reader = Reader::new(environment);
    let main = reader.add_file(name, text.to_owned(), Path::new(""));
    let config = read(&mut reader, main, Path::new(name), keys);
    let (problems, sources) = reader.finish();
    Loaded { config, problems, sources }
}

/// What is wrong with the text of a keys file that stands alone.
pub fn problems_of_keys(text: &str) -> Vec<Problem> {
    let mut reader = Reader::new(&|_| None);
    let file = reader.add_file("keys", text.to_owned(), Path::new(""));
    keys::read_file(&mut reader, file);
    reader.finish().0
}

/// Reads the main file that was opened as `main`, and the others.
fn read(reader: &mut Reader<'_>, main: u16, path: &Path, keys: Option<&str>) -> Option<Config> {
    let mut draft = Draft::default();
    let mut included = Vec::new();
    let mut is_whole = reader.document(main, |reader, root| {
        written::add(&mut draft.written, root.rest());
        included = includes(reader, root, path);
        draft.read(reader, root);
    });
    for include in included {
        let file = include.and_then(|include| open(reader, &include.value, MAX_CONFIG_BYTES, Some(include.at)));
        is_whole &= file.is_some_and(|file| {
            reader.document(file, |reader, root| {
                written::add(&mut draft.written, root.rest());
                draft.read(reader, root);
            })
        });
    }
    let keys_file = match (keys, draft.keys_file().cloned()) {
        (Some(text), _) => Some(reader.add_file("keys", text.to_owned(), Path::new(""))),
        (None, Some(path)) => open(reader, &path.value, MAX_KEYS_BYTES, Some(path.at)),
        (None, None) => None,
    };
    if let Some(file) = keys_file {
        draft.consumers = keys::read_file(reader, file);
    }
    let config = draft.finish(reader, Place { file: main, start: 0, end: 0 });
    is_whole.then_some(config)
}

/// The files that `include` names, each once, in order; `None` for what it should have named and did not.
fn includes(reader: &mut Reader<'_>, root: &mut Table<'_>, main: &Path) -> Vec<Option<Located<PathBuf>>> {
    let identity = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut seen = vec![identity(main)];
    let mut found: Vec<Option<Located<PathBuf>>> = Vec::new();
    let elements = root.option(reader, "include", Reader::list).unwrap_or_default();
    for node in elements {
        let at = node.at;
        let Some(written) = reader.text(node) else { continue };
        let files = match reader.path(node) {
            Some(pattern) => include::files(&pattern.value, &written.value),
            None => Err(problem::Complaint::new("\"\" names no file")),
        };
        let files = files.unwrap_or_else(|complaint| {
            reader.problem(complaint.of("include", at));
            found.push(None);
            Vec::new()
        });
        for file in files {
            let identity = identity(&file);
            if identity == seen[0] {
                let problem =
                    Problem::error(at, format!("{} includes the main file itself", problem::quote(&written.value)));
                reader.problem(problem.hint("keep included files in a directory of their own: \"conf.d/*.toml\""));
            } else if !seen.contains(&identity) {
                seen.push(identity);
                found.push(Some(Located { value: file, at }));
            }
        }
    }
    if found.len() > include::MAX_FILES {
        let message = format!("`include` names {} files; at most {} are read", found.len(), include::MAX_FILES);
        reader.problem(Problem::error(root.at, message));
        found.truncate(include::MAX_FILES);
    }
    found
}

/// Reads a file's text; `named_at` is where it is named.
fn open(reader: &mut Reader<'_>, path: &Path, limit: u64, named_at: Option<Place>) -> Option<u16> {
    let name = path.display().to_string();
    let directory = path.parent().unwrap_or(Path::new(""));
    let bytes = match file::read_bytes(path, limit) {
        Ok(bytes) => bytes,
        Err(complaint) => {
            let problem = Problem { place: named_at, ..Problem::unplaced(complaint.message) };
            reader.problem(problem);
            return None;
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(reader.add_file(&name, text, directory)),
        Err(error) => {
            let start = u32::try_from(error.utf8_error().valid_up_to()).unwrap_or(u32::MAX);
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let file = reader.add_file(&name, text, directory);
            reader.problem(Problem::error(Place { file, start, end: start }, "the file is not UTF-8 from here on"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
