//! `[responses.rate_limited]`, global, of a tier and of a route: what a refused client reads.

use super::file::{self, MAX_BODY_BYTES};
use super::model::{Located, RateLimited};
use super::problem::{Complaint, Problem, name, quote};
use super::tree::{Node, Reader, Table};
use http::{HeaderName, HeaderValue};

/// Fields that frame the message, or that the gateway writes itself.
const RESERVED: &[&str] = &[
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "content-encoding",
    "content-range",
    "date",
    "retry-after",
    "retry-after-ms",
    "cache-control",
    "www-authenticate",
    "x-request-id",
    "vary",
];

/// The same for whole families of fields.
const RESERVED_PREFIXES: &[&str] = &["ratelimit", "x-ratelimit-", "grpc-", "access-control-", "proxy-"];

/// Fields that a response may get from here.
const MAX_HEADERS: usize = 64;

/// The `responses` table of a tier or a route, if it is written.
pub(super) fn inside(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<RateLimited> {
    let node = table.take("responses")?;
    reader.table(node, read)
}

/// A `responses` table.
pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> RateLimited {
    table.section(reader, "rate_limited", rate_limited)
}

fn rate_limited(reader: &mut Reader<'_>, table: &mut Table<'_>) -> RateLimited {
    let documentation_url = table.option(reader, "documentation_url", url);
    let upgrade_url = table.option(reader, "upgrade_url", url);
    let content_type = table.option(reader, "content_type", |reader, node| {
        reader.parsed(node, "a media type such as \"application/json\"", content_type)
    });
    let body_node = table.take("body");
    let body = body_node.and_then(|node| reader.text(node)).filter(|body| !body.value.is_empty());
    let file_node = table.take("body_file");
    let body_file = file_node.and_then(|node| template(reader, node));
    if let (Some(_), Some(node), Some(_)) = (&body, file_node, &body_file) {
        let problem = Problem::error(node.key_at, "`body` and `body_file` are both given");
        reader.problem(problem.hint("remove one of them"));
    }
    let headers = table.option(reader, "headers", headers);
    RateLimited {
        documentation_url,
        upgrade_url,
        content_type: content_type.map(|content_type| content_type.value),
        body: body.or(body_file.flatten()),
        headers: headers.unwrap_or_default(),
    }
}

/// A link; "" is none.
fn url(reader: &mut Reader<'_>, node: Node<'_>) -> Option<String> {
    let parse = |text: &str| {
        let is_url = text.parse::<http::Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        });
        if text.is_empty() || is_url {
            return Ok(text.to_owned());
        }
        Err(Complaint::new(format!("expected a link such as \"https://docs.example.com/limits\", not {}", quote(text))))
    };
    reader
        .parsed(node, "a link such as \"https://docs.example.com\"", parse)
        .map(|url| url.value)
        .filter(|url| !url.is_empty())
}

fn content_type(text: &str) -> Result<String, Complaint> {
    let media = text.split(';').next().unwrap_or("").trim();
    let is_type = media
        .split_once('/')
        .is_some_and(|(kind, sub)| super::names::token(kind).is_some() && super::names::token(sub).is_some());
    if is_type && HeaderValue::from_str(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(Complaint::new(format!("expected a media type such as \"application/json\", not {}", quote(text))))
}

/// The template in a file. `Some(None)`: the file was named and could not be read.
fn template(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Option<Located<String>>> {
    let path = reader.path(node)?;
    match file::read_text(&path.value, MAX_BODY_BYTES) {
        Ok(value) => Some(Some(Located { value, at: node.at })),
        Err(complaint) => {
            reader.problem(complaint.of(node.key, node.at));
            Some(None)
        }
    }
}

fn headers(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<(String, String)>> {
    reader.table(node, |reader, table| {
        let mut headers: Vec<(String, String)> = Vec::new();
        let entries = table.take_all();
        if entries.len() > MAX_HEADERS {
            reader.problem(Problem::error(node.at, format!("`headers` has more than {MAX_HEADERS} fields")));
        }
        for entry in entries.into_iter().take(MAX_HEADERS) {
            let value = reader.parsed(entry, "a string", |text| {
                let is_valid = HeaderValue::from_str(text).is_ok() && text.is_ascii() && text.trim() == text;
                is_valid.then(|| text.to_owned()).ok_or_else(|| {
                    Complaint::new(format!("expected visible ASCII without outer blanks, not {}", quote(text)))
                })
            });
            let Some(header) = header(reader, entry) else { continue };
            if headers.iter().any(|(known, _)| *known == header) {
                reader.problem(Problem::error(entry.key_at, format!("the header {} is named twice", name(&header))));
            } else if let Some(value) = value {
                headers.push((header, value.value));
            }
        }
        headers
    })
}

fn header(reader: &mut Reader<'_>, entry: Node<'_>) -> Option<String> {
    let Ok(header) = HeaderName::from_bytes(entry.key.as_bytes()) else {
        reader.problem(Problem::error(entry.key_at, format!("{} is not a header's name", name(entry.key))));
        return None;
    };
    let header = header.as_str().to_owned();
    let is_reserved =
        RESERVED.contains(&header.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| header.starts_with(prefix));
    if header == "content-type" {
        let problem = Problem::error(entry.key_at, "`content-type` is not set among `headers`");
        reader.problem(problem.hint("write content_type = \"…\" beside `headers`"));
    } else if is_reserved {
        let problem = Problem::error(entry.key_at, format!("the header {} is the gateway's own", name(&header)));
        reader.problem(problem.hint("it frames the response or tells the limit; choose another name"));
    } else {
        return Some(header);
    }
    None
}
