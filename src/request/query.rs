//! The raw query: looked into for a parameter, freed of one, masked for the log. Never rewritten otherwise.
//!
//! Parameters are split at `&` alone, as browsers do; names are compared decoded (`api%5Fkey` is `api_key`), since a
//! backend would find them so. What is not touched goes upstream byte for byte and in order.

use super::path::escape;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Parameters that a masked query shows.
pub const MAX_SHOWN_PARAMETERS: usize = 32;

/// Longest parameter name that a masked query shows.
const MAX_SHOWN_NAME_BYTES: usize = 64;

const MASK: &str = "***";

/// The raw values of a parameter, in order: the first is what most servers take, and counting them shows duplicates.
/// A parameter without `=` has the empty value.
pub fn values<'a>(query: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    parameters(query).filter(move |(raw_name, _)| is_named(raw_name, name)).map(|(_, value)| value.unwrap_or_default())
}

/// A value without its escapes; none when an escape is broken. `+` stays `+`: the values read here are keys, which
/// hold no blank, and a key in base64 is often sent with a bare `+`.
pub fn decoded(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !value.contains(&b'%') {
        return Some(Cow::Borrowed(value));
    }
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = if byte == b'%' { escape(after)? } else { (byte, after) };
        out.push(byte);
        rest = after;
    }
    Some(Cow::Owned(out))
}

/// The query without the parameters of these names, the rest untouched and in order; none when there is nothing to
/// remove. An empty result means that no `?` is left to send either.
pub fn without(query: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let is_removed = |part: &&[u8]| {
        let (raw_name, _) = split(part);
        names.iter().any(|name| is_named(raw_name, name))
    };
    if !query.split(is_separator).any(|part| is_removed(&part)) {
        return None;
    }
    let kept: Vec<&[u8]> = query.split(is_separator).filter(|part| !is_removed(part)).collect();
    Some(kept.join(&b'&'))
}

/// A query as a log may show it: names that look like names, and no values at all, since a secret can be in any of
/// them. A parameter without `=` may be a secret as well.
pub fn masked(query: &[u8]) -> String {
    let mut out = String::new();
    for (index, (name, value)) in parameters(query).enumerate() {
        if index > 0 {
            out.push('&');
        }
        if index == MAX_SHOWN_PARAMETERS {
            out.push('…');
            break;
        }
        match (std::str::from_utf8(name), value) {
            (Ok(name), Some(_)) if is_showable(name) => {
                let _ = write!(out, "{name}={MASK}");
            }
            (Ok(""), None) => {}
            _ => out.push_str(MASK),
        }
    }
    out
}

fn is_showable(name: &str) -> bool {
    name.len() <= MAX_SHOWN_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~[]".contains(&byte))
}

fn parameters(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query.split(is_separator).map(split)
}

fn is_separator(byte: &u8) -> bool {
    *byte == b'&'
}

fn split(parameter: &[u8]) -> (&[u8], Option<&[u8]>) {
    match parameter.iter().position(|byte| *byte == b'=') {
        Some(equals) => (&parameter[..equals], Some(&parameter[equals + 1..])),
        None => (parameter, None),
    }
}

/// Whether a raw name is this name once decoded; in a name, `+` is a blank. A broken escape stands for itself.
fn is_named(raw: &[u8], name: &str) -> bool {
    let mut wanted = name.as_bytes().iter();
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match byte {
            b'%' => escape(after).unwrap_or((byte, after)),
            b'+' => (b' ', after),
            _ => (byte, after),
        };
        if wanted.next() != Some(&byte) {
            return false;
        }
        rest = after;
    }
    wanted.next().is_none()
}

#[cfg(test)]
mod tests;
