//! `[store]`: where counters live.

use super::model::Store;
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
    if let Some(node) = table.take("backend")
        && let Some(Backend::Redis) = reader.word(node, WORDS)
    {
        reader.unavailable(node.at, "the backend \"redis\"");
    }
    if let Some(node) = table.take("redis") {
        reader.unavailable(node.at, "[store.redis]");
    }
    table.section(reader, "memory", |reader, table| {
        let max_entries = table.option(reader, "max_entries", |reader, node| reader.integer(node, 1..=MAX_ENTRIES));
        if let Some(node) = table.take("snapshot")
            && reader.text(node).is_some_and(|path| !path.value.is_empty())
        {
            reader.unavailable(node.at, "`snapshot` (other than \"\")");
        }
        Store { max_entries: max_entries.and_then(|entries| u64::try_from(entries).ok()).unwrap_or(DEFAULT_ENTRIES) }
    })
}
