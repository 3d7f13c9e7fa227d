//! The operator's own body of a refusal: text with `{{ member }}` in it.
//!
//! A template is checked when the configuration is read, so that rendering cannot fail. It has no conditions, no
//! loops and no way to leave out the escaping, which follows from the content type.

use super::members::{Member, Members, Value, write_json_string};
use crate::config::problem::nearest;

/// The longest template that is taken, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 64 * 1024;

/// How values are made harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaping {
    /// As the inside of a JSON string; the quotes are the template's.
    Json,
    /// HTML and XML, in text and in quoted attributes.
    Markup,
    /// Any other content type: control characters are left out.
    Plain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(Box<str>),
    /// `in_string`: within a JSON string, where an absent number is nothing rather than `null`.
    Member {
        member: Member,
        in_string: bool,
    },
}

/// A checked template.
#[derive(Clone, Debug)]
pub struct Template {
    segments: Vec<Segment>,
    escaping: Escaping,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    pub message: String,
    /// The byte of the text where the offending placeholder begins.
    pub offset: usize,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Template {
    /// Reads a template for bodies of `content_type`.
    pub fn parse(text: &str, content_type: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE_BYTES {
            let message = format!("the template has {} bytes; at most {MAX_TEMPLATE_BYTES} are taken", text.len());
            return Err(TemplateError { message, offset: MAX_TEMPLATE_BYTES, hint: None });
        }
        let mut segments = Vec::new();
        let mut json = JsonStrings::default();
        let mut position = 0;
        while let Some(found) = text[position..].find("{{") {
            let open = position + found;
            let inner = &text[open + 2..];
            let Some(close) = inner.find("}}") else { return Err(unclosed(open)) };
            let member = member_named(inner[..close].trim_ascii(), open)?;
            push_literal(&mut segments, &mut json, &text[position..open]);
            segments.push(Segment::Member { member, in_string: json.inside });
            position = open + 2 + close + 2;
        }
        push_literal(&mut segments, &mut json, &text[position..]);
        Ok(Self { segments, escaping: Escaping::of(content_type) })
    }

    /// The body for these values. What is absent is empty, but a number of a JSON template, outside of strings, is
    /// `null`.
    pub fn render(&self, members: &Members<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Segment::Member { member, in_string } => {
                    let value = members.get(*member);
                    if *value != Value::Absent {
                        self.escaping.write(&mut out, &value.plain());
                    } else if self.escaping == Escaping::Json && member.is_number() && !in_string {
                        out.extend_from_slice(b"null");
                    }
                }
            }
        }
        out
    }
}

fn push_literal(segments: &mut Vec<Segment>, json: &mut JsonStrings, text: &str) {
    json.pass(text);
    if !text.is_empty() {
        segments.push(Segment::Literal(text.into()));
    }
}

fn unclosed(offset: usize) -> TemplateError {
    TemplateError { message: "`{{` without a `}}` after it".to_owned(), offset, hint: None }
}

fn member_named(name: &str, offset: usize) -> Result<Member, TemplateError> {
    Member::by_name(name).ok_or_else(|| {
        let members = Member::ALL.map(Member::name);
        let hint = match nearest(name, members) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the members are {}", members.join(", ")),
        };
        let shown: String = name.chars().take(64).collect();
        TemplateError { message: format!("a template has no member `{shown}`"), offset, hint: Some(hint) }
    })
}

/// Follows the quotes of a JSON text, so as to know whether a place is within a string.
#[derive(Default)]
struct JsonStrings {
    inside: bool,
    escaped: bool,
}

impl JsonStrings {
    fn pass(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte == b'"' && !self.escaped {
                self.inside = !self.inside;
            }
            self.escaped = self.inside && byte == b'\\' && !self.escaped;
        }
    }
}

/// Whether a content type is JSON: `…/json` or `…+json`.
pub fn is_json(content_type: &str) -> bool {
    Escaping::of(content_type) == Escaping::Json
}

impl Escaping {
    fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let kind = essence.rsplit(['/', '+']).next().unwrap_or_default();
        match kind {
            "json" => Self::Json,
            "html" | "xml" | "xhtml" => Self::Markup,
            _ => Self::Plain,
        }
    }

    fn write(self, out: &mut Vec<u8>, text: &str) {
        match self {
            Self::Json => {
                let start = out.len();
                write_json_string(out, text);
                out.pop();
                out.remove(start);
            }
            Self::Markup => {
                text.chars().filter(|character| !character.is_control()).for_each(|character| match character {
                    '&' => out.extend_from_slice(b"&amp;"),
                    '<' => out.extend_from_slice(b"&lt;"),
                    '>' => out.extend_from_slice(b"&gt;"),
                    '"' => out.extend_from_slice(b"&quot;"),
                    '\'' => out.extend_from_slice(b"&#39;"),
                    other => push_char(out, other),
                })
            }
            Self::Plain => {
                text.chars()
                    .filter(|character| !character.is_control())
                    .for_each(|character| push_char(out, character));
            }
        }
    }
}

fn push_char(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests;
