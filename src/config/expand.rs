//! `${NAME}`, `${NAME:-default}` and `$$` in string values.
//!
//! Done on the parsed value, never on the file's text, so that a variable can change a value but not add a key, a
//! table or a comment. A variable that is not set is an error: an empty text in its place could mean anything.
//! Defaults are taken as they stand; nothing in them is expanded again.

use super::problem::{Complaint, name, quote};
use std::borrow::Cow;

/// Longer names are not looked up.
const MAX_NAME: usize = 128;

/// The value with its variables replaced.
pub(super) fn expand<'t>(
    text: &'t str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'t, str>, Complaint> {
    if !text.contains('$') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let Some((inside, after)) = after.split_once('}') else {
                return Err(Complaint::new(format!("{} has a `${{` that no `}}` closes", quote(text)))
                    .hint("write `${NAME}` or `${NAME:-default}`; for a dollar sign write `$$`"));
            };
            out.push_str(&variable(inside, environment)?);
            rest = after;
        } else {
            return Err(Complaint::new(format!("{} has a `$` that starts no `${{NAME}}`", quote(text)))
                .hint("for a dollar sign write `$$`"));
        }
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

fn variable(inside: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, Complaint> {
    let (variable, default) = match inside.split_once(":-") {
        Some((variable, default)) => (variable, Some(default)),
        None => (inside, None),
    };
    let is_name = variable.len() <= MAX_NAME
        && variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(Complaint::new(format!("{} is not a variable's name", name(variable)))
            .hint("a name has letters, digits and `_`, as in `${NAME}`; for a dollar sign write `$$`"));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(Complaint::new(format!("the default of `${{{variable}}}` holds a variable itself"))
            .hint("a default is plain text"));
    }
    match (environment(variable), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Complaint::new(format!("the environment variable `{variable}` is not set"))
            .hint(format!("set it, or give a default: `${{{variable}:-…}}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("api.internal".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("${HOST} $$".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_defaults_and_dollars_are_replaced_once() {
        let vectors = [
            ("plain", "plain"),
            ("${HOST}:9000", "api.internal:9000"),
            ("a$$b$$$$", "a$b$$"),
            ("${PORT:-9000}", "9000"),
            ("${HOST:-other}", "api.internal"),
            ("${EMPTY:-filled}", "filled"),
            ("[${EMPTY}]", "[]"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("$${HOST}", "${HOST}"),
            ("${TRICKY}", "${HOST} $$"),
        ];
        for (text, expected) in vectors {
            assert_eq!(expand(text, &environment).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_variable_is_refused_with_advice() {
        let vectors = [
            ("${NOPE}", "`NOPE` is not set", "`${NOPE:-…}`"),
            ("${HOST", "no `}` closes", "`$$`"),
            ("5$", "starts no `${NAME}`", "`$$`"),
            ("$HOST", "starts no `${NAME}`", "`$$`"),
            ("${}", "`` is not a variable's name", "`${NAME}`"),
            ("${A B}", "`A B` is not a variable's name", "`${NAME}`"),
            ("${1A}", "`1A` is not", "`${NAME}`"),
            ("${A:-${HOST}}", "holds a variable itself", "plain text"),
        ];
        for (text, message, hint) in vectors {
            let complaint = expand(text, &environment).unwrap_err();
            assert!(complaint.message.contains(message), "{text}: {}", complaint.message);
            assert!(complaint.hint.as_ref().unwrap().contains(hint), "{text}: {:?}", complaint.hint);
        }
    }
}
