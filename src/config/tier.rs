//! `[tiers.NAME]`: what a plan grants.

use super::limit;
use super::model::{Layer, Located, Tier};
use super::names;
use super::responses;
use super::tree::{Reader, Table};

/// All entries of one `tiers` table.
pub(super) fn read_all(reader: &mut Reader<'_>, table: &mut Table<'_>) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for node in table.take_all() {
        if let Err(complaint) = names::plain(node.key) {
            reader.problem(complaint.of(node.key, node.key_at));
        }
        let is_new = reader.unique("tier", node.key, node.key_at);
        let tier = reader.table(node, |reader, table| {
            let limits = table.option(reader, "limits", |reader, node| limit::list(reader, node, Layer::Key));
            let rate_limited = responses::inside(reader, table);
            let name = Located { value: node.key.to_owned(), at: node.key_at };
            Tier { name, limits: limits.unwrap_or_default(), rate_limited }
        });
        tiers.extend(tier.filter(|_| is_new));
    }
    tiers
}
