//! Reading one value: text, word, number, span, size, list, path.
//!
//! Each is `None` after its problem was noted, with what was expected and what stands there. Types are never
//! converted: a number in quotes is a mistake, not a number.

use super::expand::expand;
use super::model::Located;
use super::problem::{Complaint, Problem, choices, name, nearest, quote};
use super::tree::{Node, Reader};
use super::units;
use crate::time::Millis;
use ipnet::IpNet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use toml::de::DeValue;

impl Reader<'_> {
    /// The value is of another TOML type than expected.
    pub fn wrong_type(&mut self, node: Node<'_>, expected: &str) {
        if self.is_broken(node.at.file) && node.at.start == node.at.end {
            return;
        }
        let problem =
            Problem::error(node.at, format!("{} must be {expected}, not {}", name(node.key), node.described()));
        let unquoted = match node.value {
            DeValue::String(text) if expected.contains("integer") || expected.contains("true") => Some(text),
            _ => None,
        };
        let bare = unquoted.filter(|text| text.parse::<i64>().is_ok() || matches!(text.as_ref(), "true" | "false"));
        self.problem(match bare {
            Some(text) => problem.hint(format!("without quotes: {text}")),
            None => problem,
        });
    }

    /// A string, its variables replaced.
    pub fn text(&mut self, node: Node<'_>) -> Option<Located<String>> {
        self.text_as(node, "a string")
    }

    fn text_as(&mut self, node: Node<'_>, expected: &str) -> Option<Located<String>> {
        let DeValue::String(text) = node.value else {
            self.wrong_type(node, expected);
            return None;
        };
        match expand(text, self.environment) {
            Ok(text) => Some(Located { value: text.into_owned(), at: node.at }),
            Err(complaint) => {
                self.problem(complaint.of(node.key, node.at));
                None
            }
        }
    }

    /// A string that may hold a password: as [`Reader::text`], but no message quotes it and its line is shown masked.
    pub fn secret(&mut self, node: Node<'_>, expected: &str) -> Option<Located<String>> {
        self.sources.mask(node.at);
        let DeValue::String(text) = node.value else {
            self.problem(Problem::error(node.at, format!("{} must be {expected}", name(node.key))));
            return None;
        };
        let Ok(text) = expand(text, self.environment) else {
            let message = format!("{}: a `$` in it begins no `${{NAME}}` of a variable that is set", name(node.key));
            self.problem(Problem::error(node.at, message).hint("for a dollar sign write `$$`"));
            return None;
        };
        Some(Located { value: text.into_owned(), at: node.at })
    }

    /// A string that `parse` understands; `expected` names it where the type is wrong.
    pub fn parsed<T>(
        &mut self,
        node: Node<'_>,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, Complaint>,
    ) -> Option<Located<T>> {
        let text = self.text_as(node, expected)?;
        match parse(&text.value) {
            Ok(value) => Some(Located { value, at: text.at }),
            Err(complaint) => {
                self.problem(complaint.of(node.key, node.at));
                None
            }
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, node: Node<'_>, words: &[(&str, T)]) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        self.parsed(node, &choices(names(), quote), |text| one_of(text, words)).map(|word| word.value)
    }

    pub fn boolean(&mut self, node: Node<'_>) -> Option<bool> {
        let DeValue::Boolean(value) = node.value else {
            self.wrong_type(node, "true or false");
            return None;
        };
        Some(*value)
    }

    /// A whole number in a range.
    pub fn integer(&mut self, node: Node<'_>, range: RangeInclusive<i64>) -> Option<i64> {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        let DeValue::Integer(number) = node.value else {
            self.wrong_type(node, &expected);
            return None;
        };
        let value = i64::from_str_radix(number.as_str(), number.radix()).ok().filter(|value| range.contains(value));
        if value.is_none() {
            self.problem(Problem::error(node.at, format!("{} must be {expected}, not {number}", name(node.key))));
        }
        value
    }

    /// As written in the file: an integer or a float, for exact decimal arithmetic.
    pub fn number<'t>(&mut self, node: Node<'t>) -> Option<&'t str> {
        match node.value {
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => {
                self.wrong_type(node, "a decimal number");
                None
            }
        }
    }

    /// A span in a range.
    pub fn span(&mut self, node: Node<'_>, range: RangeInclusive<Millis>) -> Option<Millis> {
        if let DeValue::Integer(number) = node.value {
            let message = format!("{} must be a span such as \"30s\", not the bare number {number}", name(node.key));
            self.problem(Problem::error(node.at, message).hint(format!("seconds are \"{number}s\"")));
            return None;
        }
        let span = self.parsed(node, "a span such as \"30s\"", units::span)?.value;
        if range.contains(&span) {
            return Some(span);
        }
        let message = format!(
            "{} must be from {} ms to {} ms, not {} ms",
            name(node.key),
            range.start().0,
            range.end().0,
            span.0
        );
        self.problem(Problem::error(node.at, message));
        None
    }

    /// A number of bytes in a range.
    pub fn size(&mut self, node: Node<'_>, range: RangeInclusive<u64>) -> Option<u64> {
        if let DeValue::Integer(number) = node.value {
            let message = format!("{} must be a size such as \"32KiB\", not the bare number {number}", name(node.key));
            self.problem(Problem::error(node.at, message).hint(format!("bytes are \"{number}B\"")));
            return None;
        }
        let size = self.parsed(node, "a size such as \"32KiB\"", units::size)?.value;
        if range.contains(&size) {
            return Some(size);
        }
        let message = format!("{} must be from {} to {} bytes, not {size}", name(node.key), range.start(), range.end());
        self.problem(Problem::error(node.at, message));
        None
    }

    /// The elements of a list.
    pub fn list<'t>(&mut self, node: Node<'t>) -> Option<Vec<Node<'t>>> {
        let DeValue::Array(elements) = node.value else {
            self.wrong_type(node, "a list");
            return None;
        };
        let origin = self.origin(node.at.file);
        Some(elements.iter().map(|element| node.element(origin, element)).collect())
    }

    /// The elements of a list, or the one value that stands for a list of one.
    pub fn one_or_more<'t>(&mut self, node: Node<'t>) -> Option<Vec<Node<'t>>> {
        match node.value {
            DeValue::Array(_) => self.list(node),
            DeValue::String(_) => Some(vec![node]),
            _ => {
                self.wrong_type(node, "a string or a list of strings");
                None
            }
        }
    }

    /// Networks; an empty list is a list of none.
    pub fn networks(&mut self, node: Node<'_>) -> Option<Vec<IpNet>> {
        let elements = self.list(node)?;
        Some(self.each_network(elements))
    }

    pub fn each_network(&mut self, elements: Vec<Node<'_>>) -> Vec<IpNet> {
        let parse = |node| self.parsed(node, "a network such as \"10.0.0.0/8\"", units::network);
        elements.into_iter().filter_map(parse).map(|network| network.value).collect()
    }

    /// What was read of a list that must have elements: where an empty one would mean nobody, it is a problem and
    /// `hint` says what to write instead.
    pub fn filled<T>(&mut self, list: Vec<T>, node: Node<'_>, hint: &str) -> Option<Vec<T>> {
        if matches!(node.value, DeValue::Array(elements) if elements.is_empty()) {
            self.problem(Problem::error(node.at, format!("{} must not be empty", name(node.key))).hint(hint));
        }
        (!list.is_empty()).then_some(list)
    }

    /// A path, relative to the file that holds it; `None` for "".
    pub fn path(&mut self, node: Node<'_>) -> Option<Located<PathBuf>> {
        let text = self.text(node)?;
        if text.value.contains('\0') {
            self.problem(Problem::error(node.at, format!("{} is not a path", name(node.key))));
            return None;
        }
        let directory = &self.files.get(usize::from(node.at.file))?.directory;
        (!text.value.is_empty()).then(|| Located { value: directory.join(&text.value), at: text.at })
    }
}

/// The value of a word, or which words there are.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Complaint> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let names = || words.iter().map(|(word, _)| *word);
    let complaint = Complaint::new(format!("expected {}, not {}", choices(names(), quote), quote(text)));
    Err(match nearest(text, names()) {
        Some(near) => complaint.hint(format!("did you mean {}?", quote(near))),
        None => complaint,
    })
}
