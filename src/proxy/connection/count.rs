//! How many connections are open, together and for each group of addresses.
//!
//! The map has an entry for each group with an open connection under a cap and loses it with the last, so it is bounded by the
//! connections themselves.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts open connections.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    by_group: Mutex<HashMap<IpAddr, usize>>,
}

impl Connections {
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Acquire)
    }

    /// Counts one more until the result is dropped; absent when its group has as many as it may.
    pub(super) fn count(&self, cap: Option<(IpAddr, usize)>) -> Option<Counted> {
        if let Some((group, most)) = cap {
            let mut groups = self.0.by_group.lock();
            let open = groups.entry(group).or_default();
            if *open >= most {
                return None;
            }
            *open += 1;
        }
        self.0.open.fetch_add(1, Ordering::AcqRel);
        Some(Counted { counts: self.0.clone(), group: cap.map(|(group, _)| group) })
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Counted {
    counts: Arc<Counts>,
    group: Option<IpAddr>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::AcqRel);
        let Some(group) = self.group else { return };
        let mut groups = self.counts.by_group.lock();
        if let Some(open) = groups.get_mut(&group) {
            *open -= 1;
            if *open == 0 {
                groups.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_at_most_its_cap_and_leaves_nothing_behind() {
        let connections = Connections::default();
        let group = |last| IpAddr::from([192, 0, 2, last]);
        let first = connections.count(Some((group(1), 2))).expect("room for two");
        let second = connections.count(Some((group(1), 2))).expect("room for two");
        assert!(connections.count(Some((group(1), 2))).is_none());
        let other = connections.count(Some((group(2), 2))).expect("another group");
        let free = connections.count(None).expect("no cap");
        assert_eq!(connections.open(), 4);
        drop(first);
        drop(connections.count(Some((group(1), 2))).expect("room again"));
        drop((second, other, free));
        assert_eq!((connections.open(), connections.0.by_group.lock().len()), (0, 0));
    }
}
