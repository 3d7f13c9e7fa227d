//! `[store]`: where counters live.

use super::model::Store;
use super::problem::Problem;
use super::redis;
use super::tree::{Reader, Table};

const MAX_ENTRIES: i64 = 1_000_000_000;
const DEFAULT_ENTRIES: u64 = 1_000_000;

#[derive(Clone, Copy)]
enum Backend {
    Memory,
    Redis,
}

pub(super) fn read(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Store {
    const WORDS: &[(&str, Backend)] = &[("memory", Backend::Memory), ("redis", Backend::Redis)];
    let backend = table.option(reader, "backend", |reader, node| reader.word(node, WORDS));
    // Read also when the backend is memory, so that its mistakes are told before somebody switches.
    if table.rest().iter().any(|entry| entry.key == "redis" && !entry.is_table())
        && let Some(node) = table.take("redis")
    {
        // A URL, most likely: not quoted, for it may hold a password.
        reader.sources.mask(node.at);
        reader
            .problem(Problem::error(node.at, "`redis` must be a table").hint("write the URL as urls = [\"…\"] in it"));
    }
    let redis = table.section(reader, "redis", redis::read);
    let redis = matches!(backend, Some(Backend::Redis)).then_some(redis);
    let (max_entries, snapshot) = table.section(reader, "memory", |reader, table| {
        let max_entries = table.option(reader, "max_entries", |reader, node| reader.integer(node, 1..=MAX_ENTRIES));
        let snapshot = table.option(reader, "snapshot", Reader::path).map(|path| path.value);
        (max_entries.and_then(|entries| u64::try_from(entries).ok()).unwrap_or(DEFAULT_ENTRIES), snapshot)
    });
    // A URL with a password may have been written one table too high; its line is shown with the complaint.
    for entry in table.rest() {
        reader.sources.mask(entry.at);
    }
    Store { max_entries, snapshot, redis }
}
