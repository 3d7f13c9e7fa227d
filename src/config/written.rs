//! The configuration as it was written, all files together, for an operator to look at: what would be a secret is masked.
//!
//! Variables stay as they are written, since what they stand for may be a secret. The keys file is left out: it is long, and
//! of its consumers the gateway tells by name. Nothing here decides: a value that is wrong is shown as it stands.

use super::tree::Node;
use serde_json::{Map, Value, json};
use toml::de::DeValue;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Keys whose text is never shown.
const SECRET_KEYS: [&str; 4] = ["password", "token", "secret", "sha256"];

/// Adds the top level of one file. Tables of one name become one, lists follow each other.
pub(super) fn add(into: &mut Map<String, Value>, entries: &[Node<'_>]) {
    for entry in entries {
        merge(into.entry(entry.key).or_insert(Value::Null), shown(entry.key, entry.value));
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(more)) => into.extend(more),
        (into, more) => *into = more,
    }
}

/// A value as JSON. `key` is what it belongs to, a list's for its elements.
fn shown(key: &str, value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(shown_text(key, text)),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or_else(|_| json!(digits), |number| json!(number))
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, |number| json!(number)),
        DeValue::Boolean(value) => json!(value),
        DeValue::Datetime(datetime) => json!(datetime.to_string()),
        DeValue::Array(values) => values.iter().map(|value| shown(key, value.get_ref())).collect(),
        DeValue::Table(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let key = key.get_ref().to_string();
                let value = shown(&key, value.get_ref());
                (key, value)
            });
            Value::Object(entries.collect())
        }
    }
}

fn shown_text(key: &str, text: &str) -> String {
    // The value of a header that a limit asks for may be known to a few callers alone.
    if SECRET_KEYS.contains(&key) || key.starts_with("header:") {
        return MASK.to_owned();
    }
    if let Some((path, _)) = text.split_once('?').filter(|_| key == "path") {
        return format!("{path}?{MASK}");
    }
    without_password(text)
}

/// `redis://user:***@host`: what stands between `://` and the last `@` may be a password, with a user's name before it.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    // A password that was not escaped may hold a slash.
    let Some(at) = rest.rfind('@') else { return text.to_owned() };
    let user = authority[..at.min(authority.len())].split(':').next().unwrap_or_default();
    let is_whole = rest[..at] == *user;
    let user = if is_whole { MASK.to_owned() } else { format!("{user}:{MASK}") };
    format!("{scheme}://{user}@{}", &rest[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    fn of(text: &str) -> Value {
        let root = DeTable::parse(text).unwrap();
        shown("", &DeValue::Table(root.into_inner()))
    }

    #[test]
    fn secrets_are_masked_and_the_rest_is_as_written() {
        let text = "[store.redis]\nurls = [\"redis://me:pw@h:1/0\", \"redis://:p/w@h\", \"redis://tok@h\", \"redis://h:1\"]\n\
                    password = \"${X}\"\nprefix = \"a\"\n[[limits]]\nrate = \"1/s\"\nburst = 1_000\n\
                    when = { \"header:x-dev\" = \"hush\" }\n[upstreams.a.health]\npath = \"/up?token=hush\"\n";
        let shown = of(text);
        let urls = ["redis://me:***@h:1/0", "redis://:***@h", "redis://***@h", "redis://h:1"];
        assert_eq!(shown["store"]["redis"]["urls"], json!(urls));
        assert_eq!(shown["store"]["redis"]["password"], MASK);
        assert_eq!(shown["store"]["redis"]["prefix"], "a");
        assert_eq!(shown["limits"], json!([{"rate": "1/s", "burst": 1000, "when": {"header:x-dev": MASK}}]));
        assert_eq!(shown["upstreams"]["a"]["health"]["path"], "/up?***");
        assert!(!shown.to_string().contains("hush") && !shown.to_string().contains("pw"));
    }

    #[test]
    fn several_files_are_one() {
        let mut all = json!({"tiers": {"a": 1}, "limits": [1], "log": 1});
        merge(&mut all, json!({"tiers": {"b": 2}, "limits": [2]}));
        assert_eq!(all, json!({"tiers": {"a": 1, "b": 2}, "limits": [1, 2], "log": 1}));
    }
}
