//! What splits a limit into counters (`per`), and when it applies (`when`).

use super::host;
use super::model::{Scope, When};
use super::names::{header_name, token};
use super::pattern;
use super::problem::{Complaint, Problem, choices, name, nearest, quote};
use super::tree::{Node, Reader, Table};

/// Scopes that are one word.
const WORDS: &[(&str, Scope)] = &[
    ("ip", Scope::Ip),
    ("consumer", Scope::Consumer),
    ("subject", Scope::Subject),
    ("route", Scope::Route),
    ("tier", Scope::Tier),
    ("host", Scope::Host),
    ("method", Scope::Method),
    ("global", Scope::Global),
];

/// Scopes and conditions that name a header or a parameter.
const NAMED: [&str; 2] = ["header:NAME", "param:NAME"];

/// `ip`, `consumer`, … `header:x-tenant`, `param:id`.
pub fn scope(text: &str) -> Result<Scope, Complaint> {
    if let Some((_, scope)) = WORDS.iter().find(|(word, _)| *word == text) {
        return Ok(scope.clone());
    }
    let named = text.split_once(':').and_then(|(kind, name)| match kind {
        "header" => header_name(name).ok().map(Scope::Header),
        "param" => token(name).map(|name| Scope::Param(name.to_owned())),
        _ => None,
    });
    named.ok_or_else(|| {
        let all = || WORDS.iter().map(|(word, _)| *word).chain(NAMED);
        let complaint = Complaint::new(format!("expected {}, not {}", choices(all(), quote), quote(text)));
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let synonym = match kind.to_lowercase().as_str() {
            "key" | "apikey" | "api_key" | "user" | "client" => Some("consumer"),
            "path" | "endpoint" | "url" => Some("route"),
            "address" | "remote_addr" => Some("ip"),
            "all" | "none" => Some("global"),
            _ => None,
        };
        match nearest(kind, WORDS.iter().map(|(word, _)| *word).chain(["header", "param"])).or(synonym) {
            Some(kind @ ("header" | "param")) if token(name).is_some() => {
                complaint.hint(format!("did you mean \"{kind}:{name}\"?"))
            }
            Some(kind @ ("header" | "param")) => complaint.hint(format!("name it: \"{kind}:NAME\"")),
            Some(word) => complaint.hint(format!("did you mean {}?", quote(word))),
            None => complaint,
        }
    })
}

/// The conditions of a limit, all of which must hold.
pub(super) fn when(reader: &mut Reader<'_>, node: Node<'_>) -> Option<When> {
    reader.table(node, |reader, table| {
        if table.rest().is_empty() {
            reader.missing(table.at, "`when` names no condition", "a limit that always applies has no `when`");
        }
        let mut when = When {
            headers: Vec::new(),
            ip: table.option(reader, "ip", |reader, node| {
                let elements = reader.one_or_more(node)?;
                let networks = reader.each_network(elements);
                reader.filled(networks, node, "for every address leave it out")
            }),
            method: table.option(reader, "method", |reader, node| words(reader, node, "a method", pattern::method)),
            host: table.option(reader, "host", |reader, node| words(reader, node, "a host", host::host)),
        };
        headers(reader, table, &mut when);
        when
    })
}

fn words(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    expected: &str,
    parse: fn(&str) -> Result<String, Complaint>,
) -> Option<Vec<String>> {
    let elements = reader.one_or_more(node)?;
    let read = |element| reader.parsed(element, expected, parse).map(|word| word.value);
    let words = elements.into_iter().filter_map(read).collect();
    reader.filled(words, node, "leave it out to take all")
}

/// The keys `"header:NAME"`, which only their values limit in number.
fn headers(reader: &mut Reader<'_>, table: &mut Table<'_>, when: &mut When) {
    for entry in table.take_all() {
        let Some(header) = entry.key.strip_prefix("header:") else {
            let words = ["ip", "method", "host", "header:NAME"];
            let message = format!("unknown key {} in `when`; expected {}", name(entry.key), choices(words, name));
            let problem = Problem::error(entry.key_at, message);
            let kind = entry.key.split_once(':').map_or(entry.key, |(kind, _)| kind);
            reader.problem(match nearest(kind, ["ip", "method", "host", "header"]) {
                Some("header") => problem.hint("did you mean `\"header:NAME\" = \"value\"`?"),
                Some(near) => problem.hint(format!("did you mean {}?", name(near))),
                None => problem,
            });
            continue;
        };
        let value = reader.text(entry);
        match (header_name(header), value) {
            (Ok(header), _) if when.headers.iter().any(|(known, _)| *known == header) => {
                reader.problem(Problem::error(entry.key_at, format!("the header {} is named twice", name(&header))));
            }
            (Ok(header), Some(value)) => when.headers.push((header, value.value)),
            (Ok(_), None) => {}
            (Err(complaint), _) => reader.problem(complaint.of(entry.key, entry.key_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_words_or_named_headers_and_parameters() {
        for (word, expected) in WORDS {
            assert_eq!(scope(word).as_ref(), Ok(expected));
        }
        assert_eq!(scope("header:X-Tenant"), Ok(Scope::Header("x-tenant".to_owned())));
        assert_eq!(scope("param:id"), Ok(Scope::Param("id".to_owned())));
        let refusals = [
            ("IP", "\"ip\""),
            ("consumers", "\"consumer\""),
            ("header", "\"header:NAME\""),
            ("headers:x-a", "\"header:x-a\""),
            ("param:", "\"param:NAME\""),
            ("key", "\"consumer\""),
            ("path", "\"route\""),
        ];
        for (text, hint) in refusals {
            let complaint = scope(text).unwrap_err();
            assert!(complaint.hint.as_ref().is_some_and(|given| given.contains(hint)), "{text}: {complaint:?}");
        }
        assert!(scope("").is_err() && scope("header:a b").is_err());
    }
}
