//! Names of limits: the default ones, and that no two are equal.
//!
//! A limit's name identifies its counters, so two limits of one name would share them; that is always a mistake.

use crate::config::Problem;
use crate::config::model::Limit;
use crate::config::names::MAX_NAME;
use std::collections::HashMap;

/// The names given so far, and whether the operator wrote them.
pub struct Names {
    taken: HashMap<String, bool>,
}

impl Names {
    /// Only the names that the gateway's own limits have are taken.
    pub fn new(reserved: &[&str]) -> Self {
        Self { taken: reserved.iter().map(|name| ((*name).to_owned(), false)).collect() }
    }

    /// The name of a limit of `owner`: as written, or the owner's slug and the window as written.
    /// A name already taken, or a default one that is too long, is a problem. Of two that were both written the
    /// configuration has told already.
    pub fn name(&mut self, limit: &Limit, owner: &str, problems: &mut Vec<Problem>) -> String {
        let is_written = limit.name.is_some();
        let (name, at) = match &limit.name {
            Some(name) => (name.value.clone(), name.at),
            None => (format!("{}-{}", slug(owner), limit.rate.value.window_text), limit.at),
        };
        if name.len() > MAX_NAME {
            let message = format!("the default name \"{name}\" of this limit is over {MAX_NAME} characters");
            problems.push(Problem::error(at, message).hint("give the limit a `name`"));
        }
        if self.taken.insert(name.clone(), is_written).is_some_and(|was_written| !(was_written && is_written)) {
            problems.push(
                Problem::error(at, format!("there is already a limit named \"{name}\""))
                    .hint("give each of these limits a `name` of its own: it identifies their counters"),
            );
        }
        name
    }
}

/// `GET /api/users/:id` as `get-api-users-id`; always begins with a letter.
fn slug(owner: &str) -> String {
    let mut slug = String::with_capacity(owner.len());
    for character in owner.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '.') {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    match slug.chars().next() {
        Some(first) if first.is_ascii_lowercase() => slug.to_owned(),
        _ => format!("x{slug}"),
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn slugs_are_the_route_in_lower_case_words() {
        let vectors = [
            ("GET /api/users/:id", "get-api-users-id"),
            ("POST /api/export", "post-api-export"),
            ("default", "default"),
            ("/files/*rest", "files-rest"),
            ("/a/{id}", "a-id"),
            ("ip", "ip"),
            ("3scale", "x3scale"),
        ];
        for (owner, expected) in vectors {
            assert_eq!(slug(owner), expected);
        }
    }
}
