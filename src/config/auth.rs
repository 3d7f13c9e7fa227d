//! `[auth]` of the main file: where keys are looked for and what their absence means.

use super::model::{Auth, KeySource, Located};
use super::names::{header_name, token};
use super::problem::{Complaint, nearest, quote};
use super::tree::{Node, Reader, Table};
use super::units;
use std::path::PathBuf;

/// The rate of wrong keys when none is written.
const DEFAULT_FAILURES: &str = "10/min";

/// The section, and the keys file it names.
pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> (Auth, Option<Located<PathBuf>>) {
    let keys_file = table.option(reader, "keys_file", Reader::path);
    let sources = table.option(reader, "sources", sources);
    let anonymous =
        table.option(reader, "anonymous", |reader, node| reader.word(node, &[("allow", true), ("deny", false)]));
    let failures =
        table.option(reader, "failures", |reader, node| reader.parsed(node, "a rate such as \"10/min\"", units::rate));
    let forward_credentials = table.option(reader, "forward_credentials", Reader::boolean);
    let default_failures =
        || Located { value: units::rate(DEFAULT_FAILURES).expect("the default is a valid rate"), at: table.at };
    let auth = Auth {
        sources: sources.unwrap_or_else(|| vec![KeySource::Bearer, KeySource::Header("x-api-key".to_owned())]),
        anonymous: anonymous.unwrap_or(true),
        failures: failures.unwrap_or_else(default_failures),
        forward_credentials: forward_credentials.unwrap_or(false),
    };
    (auth, keys_file)
}

fn sources(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<KeySource>> {
    let mut sources: Vec<KeySource> = Vec::new();
    for element in reader.list(node)? {
        let Some(source) = reader.parsed(element, "a source such as \"bearer\"", source) else { continue };
        if sources.contains(&source.value) {
            reader.problem(Complaint::new("the source is named twice").of(node.key, element.at));
        } else {
            sources.push(source.value);
        }
    }
    reader.filled(sources, node, "the default is [\"bearer\", \"header:x-api-key\"]")
}

fn source(text: &str) -> Result<KeySource, Complaint> {
    let expected = "expected \"bearer\", \"header:NAME\", \"query:NAME\" or \"cookie:NAME\"";
    let complaint = || Complaint::new(format!("{expected}, not {}", quote(text)));
    let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
    let source = match (kind, name) {
        ("bearer", None) => Some(KeySource::Bearer),
        ("header", Some(name)) => header_name(name).ok().map(KeySource::Header),
        ("query", Some(name)) => token(name).map(|name| KeySource::Query(name.to_owned())),
        ("cookie", Some(name)) => token(name).map(|name| KeySource::Cookie(name.to_owned())),
        _ => None,
    };
    source.ok_or_else(|| match (nearest(kind, ["bearer", "header", "query", "cookie"]), name) {
        (Some("bearer"), _) => complaint().hint("did you mean \"bearer\"?"),
        (Some(kind), Some(name)) if token(name).is_some() => {
            complaint().hint(format!("did you mean \"{kind}:{name}\"?"))
        }
        (Some(kind), _) => complaint().hint(format!("name it, such as \"{kind}:x-api-key\"")),
        (None, _) => complaint(),
    })
}
