//! Who is refused most, and where: a sketch of bounded size, fed by refusals alone.
//!
//! Space-saving (Metwally, Agrawal, El Abbadi 2005): as many counts as there is room for; somebody new takes the place of the
//! lowest count and inherits it as its error. Whoever was refused more often than all refusals divided by the capacity is in
//! it, and no count is too low, nor too high by more than its error. Callers are consumers or address groups, never keys.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// Callers that are counted at once.
pub const MAX_CALLERS: usize = 256;

/// Routes that are counted at once.
pub const MAX_ROUTES: usize = 256;

/// Who was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    Consumer(Arc<str>),
    /// The network that the address counts as.
    Group(IpAddr),
}

/// One line of a top list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heavy<K> {
    pub key: K,
    /// Refusals since the start, never fewer than there were.
    pub count: u64,
    /// By how many `count` may be too high.
    pub error: u64,
    /// The limit that refused last.
    pub limit: Arc<str>,
    /// When that was, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

struct Tally {
    count: u64,
    error: u64,
    limit: Arc<str>,
    at_ms: i64,
}

struct Sketch<K> {
    capacity: usize,
    tallies: HashMap<K, Tally>,
}

impl<K: Clone + Eq + Hash + Ord> Sketch<K> {
    fn new(capacity: usize) -> Self {
        Self { capacity, tallies: HashMap::with_capacity(capacity) }
    }

    fn add(&mut self, key: K, limit: &Arc<str>, at_ms: i64) {
        if let Some(tally) = self.tallies.get_mut(&key) {
            *tally = Tally { count: tally.count + 1, error: tally.error, limit: limit.clone(), at_ms };
            return;
        }
        let mut error = 0;
        if self.tallies.len() >= self.capacity {
            let lowest = self.tallies.iter().min_by_key(|(_, tally)| tally.count).map(|(key, _)| key.clone());
            let lowest = lowest.and_then(|key| self.tallies.remove(&key));
            error = lowest.map_or(0, |tally| tally.count);
        }
        self.tallies.insert(key, Tally { count: error + 1, error, limit: limit.clone(), at_ms });
    }

    /// The highest counts first.
    fn top(&self, length: usize) -> Vec<Heavy<K>> {
        let heavy = |(key, tally): (&K, &Tally)| Heavy {
            key: key.clone(),
            count: tally.count,
            error: tally.error,
            limit: tally.limit.clone(),
            at_ms: tally.at_ms,
        };
        let mut all: Vec<_> = self.tallies.iter().map(heavy).collect();
        all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.key.cmp(&other.key)));
        all.truncate(length);
        all
    }
}

/// Refusals by limits, by caller and by route.
pub struct Refused {
    callers: Mutex<Sketch<Caller>>,
    routes: Mutex<Sketch<Arc<str>>>,
}

impl Default for Refused {
    fn default() -> Self {
        Self { callers: Mutex::new(Sketch::new(MAX_CALLERS)), routes: Mutex::new(Sketch::new(MAX_ROUTES)) }
    }
}

impl Refused {
    /// A limit refused a request.
    pub fn note(&self, caller: Caller, route: Arc<str>, limit: &Arc<str>, at_ms: i64) {
        self.callers.lock().add(caller, limit, at_ms);
        self.routes.lock().add(route, limit, at_ms);
    }

    /// The callers refused most, at most [`MAX_CALLERS`].
    pub fn callers(&self, length: usize) -> Vec<Heavy<Caller>> {
        self.callers.lock().top(length)
    }

    /// The routes on which most was refused, at most [`MAX_ROUTES`].
    pub fn routes(&self, length: usize) -> Vec<Heavy<Arc<str>>> {
        self.routes.lock().top(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_one_is_found_among_many_and_no_count_is_too_low() {
        let mut sketch = Sketch::new(8);
        let limit: Arc<str> = "limit".into();
        let mut truth = HashMap::<u32, u64>::new();
        for step in 0..10_000_u32 {
            // A third of all is one caller, the rest is spread over 997.
            let key = if step % 3 == 0 { 0 } else { 1 + step * 7919 % 997 };
            *truth.entry(key).or_default() += 1;
            sketch.add(key, &limit, i64::from(step));
        }
        let top = sketch.top(100);
        assert_eq!((top.len(), top[0].key), (8, 0));
        for heavy in top {
            let true_count = truth[&heavy.key];
            assert!((heavy.count - heavy.error..=heavy.count).contains(&true_count), "{heavy:?}, truly {true_count}");
        }
    }
}
