//! `[headers]` and `[log]`: what clients and operators are told.

use super::model::{AccessLog, Dialect, Headers, Log, LogFormat, Reset};
use super::problem::{Problem, choices, nearest, quote};
use super::tree::{Node, Reader, Table};
use tracing::Level;

const DIALECTS: &[(&str, Dialect)] =
    &[("classic", Dialect::Classic), ("ietf", Dialect::Ietf), ("both", Dialect::Both), ("off", Dialect::Off)];
const RESETS: &[(&str, Reset)] = &[("epoch", Reset::Epoch), ("delta", Reset::Delta)];
const LEVELS: &[(&str, Level)] = &[
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
    ("trace", Level::TRACE),
];
const FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(super) fn read_headers(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Headers {
    let dialect = table.option(reader, "dialect", |reader, node| reader.word(node, DIALECTS));
    let x_ratelimit = table.option(reader, "x_ratelimit", Reader::boolean);
    let reset = table.option(reader, "reset", |reader, node| reader.word(node, RESETS));
    Headers {
        dialect: dialect.unwrap_or(Dialect::Classic),
        x_ratelimit: x_ratelimit.unwrap_or(true),
        reset: reset.unwrap_or(Reset::Epoch),
    }
}

pub(super) fn read_log(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Log {
    let level = table.option(reader, "level", |reader, node| reader.word(node, LEVELS));
    let format = table.option(reader, "format", |reader, node| reader.word(node, FORMATS));
    let access = table.option(reader, "access", access);
    Log {
        level: level.unwrap_or(Level::INFO),
        format: format.unwrap_or(LogFormat::Auto),
        access: access.unwrap_or(AccessLog::Stdout),
    }
}

/// A word, or a file; a file's name has a `/` or a `.`, so that a mistyped word is not written to disk.
fn access(reader: &mut Reader<'_>, node: Node<'_>) -> Option<AccessLog> {
    let text = reader.text(node)?.value;
    match text.as_str() {
        "off" => Some(AccessLog::Off),
        "stdout" => Some(AccessLog::Stdout),
        _ if text.contains(['/', '.']) => reader.path(node).map(|path| AccessLog::File(path.value)),
        _ => {
            reader.problem(no_target(node, &text));
            None
        }
    }
}

fn no_target(node: Node<'_>, text: &str) -> Problem {
    const WORDS: [&str; 2] = ["off", "stdout"];
    let message = format!("`{}` must be {} or a file, not {}", node.key, choices(WORDS, quote), quote(text));
    let problem = Problem::error(node.at, message);
    match nearest(text, WORDS) {
        Some(near) => problem.hint(format!("did you mean {}?", quote(near))),
        None => problem.hint(format!("a file in this directory is {}", quote(&format!("./{text}")))),
    }
}
