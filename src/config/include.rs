//! `include`: which files the main file adds.
//!
//! A pattern may have `*` in its last part only. Files come in the order of their names, so what is loaded does not
//! depend on the file system; names that begin with a dot (editors' copies) are matched only by a pattern that
//! begins with one.

use super::problem::{Complaint, quote};
use std::path::{Path, PathBuf};

/// Files that one configuration may include.
pub(super) const MAX_FILES: usize = 1000;

/// Names looked at in one directory.
const MAX_NAMES: usize = 100_000;

/// The files that a pattern names, in order. A pattern with `*` may name none.
pub(super) fn files(pattern: &Path, written: &str) -> Result<Vec<PathBuf>, Complaint> {
    let refused = |why: &str| Complaint::new(format!("{} {why}", quote(written)));
    let (Some(last), parent) = (pattern.file_name().and_then(|last| last.to_str()), pattern.parent()) else {
        return Err(refused("names no file"));
    };
    let parent = parent.unwrap_or(Path::new(""));
    let stray = |part: &Path| part.to_str().is_some_and(|part| part.contains(['*', '?', '[']));
    let in_parts = Path::new(written).parent().is_some_and(stray);
    if in_parts || last.contains(['?', '[']) || last.contains("**") {
        return Err(
            refused("is a pattern that is not supported").hint("`*` may stand in the last part: \"conf.d/*.toml\"")
        );
    }
    if !last.contains('*') {
        return Ok(vec![pattern.to_owned()]);
    }
    let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let unreadable = |error: std::io::Error| {
        Complaint::new(format!("cannot read the directory {} of {}: {error}", directory.display(), quote(written)))
    };
    let mut names = Vec::new();
    for (index, entry) in std::fs::read_dir(directory).map_err(unreadable)?.enumerate() {
        if index >= MAX_NAMES {
            return Err(refused(&format!("looks through a directory of more than {MAX_NAMES} files")));
        }
        let name = entry.map_err(unreadable)?.file_name();
        names.extend(name.into_string().ok().filter(|name| matches(last, name)));
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| parent.join(name)).collect())
}

/// Whether a name fits a pattern in which `*` is any text. Takes no longer than their lengths multiplied.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or("");
    for part in parts {
        let Some(found) = name.find(part) else { return false };
        name = &name[found + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_but_never_a_leading_dot() {
        let vectors = [
            ("*.toml", "a.toml", true),
            ("*.toml", ".a.toml", false),
            (".*", ".a.toml", true),
            ("*.toml", "a.toml~", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("*", "anything", true),
            ("10-*.toml", "10-limits.toml", true),
            ("10-*.toml", "11-limits.toml", false),
        ];
        for (pattern, name, expected) in vectors {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
