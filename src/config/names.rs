//! The forms of names: of limits, tiers, upstreams, consumers, keys and headers.

use super::problem::{Complaint, quote};
use http::HeaderName;

/// Characters of a limit's, a tier's or an upstream's name.
pub const MAX_NAME: usize = 64;

/// Characters of a consumer's name or of a key's id.
const MAX_ID: usize = 128;

/// A limit's: it is part of the names of counters, of metrics and of header fields.
pub fn limit(text: &str) -> Result<String, Complaint> {
    let is_valid = text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte));
    if is_valid {
        return Ok(text.to_owned());
    }
    let message =
        format!("expected 1 to {MAX_NAME} of a-z, 0-9, `_`, `.` and `-`, beginning with a letter, not {}", quote(text));
    let complaint = Complaint::new(message);
    let lower = text.trim().to_lowercase().replace([' ', '/', ':'], "-");
    Err(if lower != text && limit(&lower).is_ok() {
        complaint.hint(format!("such as {}", quote(&lower)))
    } else {
        complaint
    })
}

/// A tier's or an upstream's.
pub fn plain(text: &str) -> Result<String, Complaint> {
    let is_valid = text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    is_valid.then(|| text.to_owned()).ok_or_else(|| {
        let allowed = format!("1 to {MAX_NAME} of A-Z, a-z, 0-9, `_`, `.` and `-`");
        Complaint::new(format!("a name has {allowed}, and begins with a letter or a digit; {} is none", quote(text)))
    })
}

/// A consumer's name or a key's id: any visible ASCII, so that account numbers and e-mail addresses will do.
pub fn id(text: &str) -> Result<String, Complaint> {
    let is_valid = !text.is_empty() && text.len() <= MAX_ID && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_valid.then(|| text.to_owned()).ok_or_else(|| {
        Complaint::new(format!("expected 1 to {MAX_ID} visible ASCII characters without blanks, not {}", quote(text)))
    })
}

/// A header's, in lower case.
pub fn header_name(text: &str) -> Result<String, Complaint> {
    HeaderName::from_bytes(text.as_bytes())
        .map(|name| name.as_str().to_owned())
        .map_err(|_| Complaint::new(format!("expected a header's name such as \"x-api-key\", not {}", quote(text))))
}

/// What follows the colon of `header:x-api-key`, `param:id`, `cookie:session`: a token of HTTP.
pub fn token(text: &str) -> Option<&str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!text.is_empty() && text.len() <= MAX_ID && text.bytes().all(is_token)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_form_of_their_kind() {
        for text in ["a", "free-minute", "a_b.c-9"] {
            assert!(limit(text).is_ok(), "{text}");
        }
        for text in ["", "9a", "A", "a b", "-a", "é", &"a".repeat(65)] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert_eq!(limit("Free Minute").unwrap_err().hint.as_deref(), Some("such as \"free-minute\""));
        for text in ["Pro", "9", "a.b_c-d"] {
            assert!(plain(text).is_ok(), "{text}");
        }
        for text in ["", "-a", "a b", "a:b", "a/b", &"a".repeat(65)] {
            assert!(plain(text).is_err(), "{text}");
        }
    }

    #[test]
    fn b65_b137_ids_are_any_visible_ascii() {
        for text in ["127.0.0.1", "a:b", "a", "ip", "{user}", "a{b}c", "me@example.com", &"a".repeat(128)] {
            assert!(id(text).is_ok(), "{text}");
        }
        for text in ["", "a b", "é", "a\n", &"a".repeat(129)] {
            assert!(id(text).is_err(), "{text}");
        }
    }
}
