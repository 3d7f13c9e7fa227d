//! `health` of an upstream: how its servers are checked.

use crate::config::model::HealthCheck;
use crate::config::problem::{Complaint, quote};
use crate::config::server::{MAX_TIMEOUT, MIN_TIMEOUT};
use crate::config::tree::{Node, Reader, Table};
use crate::time::Millis;

/// A server is not asked more often than this.
const MIN_INTERVAL: Millis = Millis(50);

/// Checks in a row that a change of the verdict may need at most.
const MAX_IN_A_ROW: i64 = 1000;

/// Bytes of path and query.
const MAX_PATH: usize = 2048;

pub fn read(reader: &mut Reader<'_>, node: Node<'_>) -> Option<HealthCheck> {
    reader.table(node, fields).flatten()
}

fn fields(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Option<HealthCheck> {
    let path = table.take("path");
    let mut span = |reader: &mut Reader<'_>, key, least, default_s| {
        let span = table.option(reader, key, |reader, node| reader.span(node, least..=MAX_TIMEOUT));
        span.unwrap_or(Millis::from_seconds(default_s))
    };
    let interval = span(reader, "interval", MIN_INTERVAL, 5);
    let timeout = span(reader, "timeout", MIN_TIMEOUT, 1);
    let mut in_a_row = |reader: &mut Reader<'_>, key, default| {
        let number = table.option(reader, key, |reader, node| reader.integer(node, 1..=MAX_IN_A_ROW));
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
    };
    let fall = in_a_row(reader, "fall", 3);
    let rise = in_a_row(reader, "rise", 1);
    let Some(path) = path else {
        reader.missing(table.at, "`health` has no `path`", "such as health = { path = \"/healthz\" }");
        return None;
    };
    let path = reader.parsed(path, "a path such as \"/healthz\"", self::path)?.value;
    Some(HealthCheck { path, interval, timeout, fall, rise })
}

fn path(text: &str) -> Result<String, Complaint> {
    let is_target = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if text.starts_with('/') && text.len() <= MAX_PATH && is_target {
        return Ok(text.to_owned());
    }
    let complaint = Complaint::new(format!("expected a path such as \"/healthz\", not {}", quote(text)));
    Err(if text.starts_with('/') { complaint } else { complaint.hint("it begins with a slash") })
}
