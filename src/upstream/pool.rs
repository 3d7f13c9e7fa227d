//! The servers of one upstream, and the choice among them.
//!
//! Every address of a server is a [`Member`] with a health and a count of its own. What is known of a member outlives the
//! pool: a reload makes a new pool, and members that are still there bring their state along.

use super::balance::{Candidates, Turn, least_loaded, next_turn};
use super::health::{Health, Standing, Thresholds};
use super::rendezvous::{rank, server_of};
use crate::config::model::{Balance, Name};
use crate::time::Timestamp;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Addresses of one name that are used; the rest of a longer answer is left out.
pub const MAX_ADDRESSES: usize = 64;

/// What one weight is worth in turns. Its multiples are shared by the addresses of a name; up to ten share it evenly.
const WEIGHT_UNIT: i64 = 2520;

/// One server as configured, and where it is.
#[derive(Clone, Debug)]
pub struct Place {
    /// As configured.
    pub name: Name,
    pub weight: u32,
    /// Of a name there may be several, sorted. They share the weight.
    pub addresses: Vec<SocketAddr>,
}

/// One address of one server.
#[derive(Debug)]
pub struct Member {
    pub name: Name,
    pub address: SocketAddr,
    weight: i64,
    /// For rendezvous hashing.
    digest: u64,
    state: Arc<State>,
}

/// What is known of an address, whatever configuration is in force.
#[derive(Debug, Default)]
struct State {
    health: Mutex<Health>,
    in_flight: AtomicUsize,
}

/// The servers of one upstream.
#[derive(Debug)]
pub struct Pool {
    balance: Balance,
    /// Whether checks have a say.
    checked: bool,
    lineup: Mutex<Lineup>,
}

/// All members, and their turns by the same index.
#[derive(Debug, Default)]
struct Lineup {
    members: Vec<Arc<Member>>,
    turns: Vec<Turn>,
}

/// A request on its way to a member, counted there until this is dropped.
#[derive(Debug)]
pub struct Attempt(Arc<Member>);

impl Attempt {
    fn new(member: Arc<Member>) -> Self {
        member.state.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(member)
    }

    pub fn member(&self) -> &Member {
        &self.0
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.state.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Member {
    fn standing(&self, checked: bool, now: Timestamp) -> Standing {
        self.state.health.lock().standing(checked, now)
    }

    /// Requests on their way to it.
    pub fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::Relaxed)
    }

    /// Takes the result of a check and says whether the verdict changed.
    pub fn checked(&self, good: bool, thresholds: Thresholds) -> bool {
        self.state.health.lock().checked(good, thresholds)
    }

    /// Takes a request that was answered and says whether the server had been passed over.
    pub fn answered(&self) -> bool {
        self.state.health.lock().answered()
    }
}

impl Pool {
    /// A pool without servers.
    pub fn new(balance: Balance, checked: bool) -> Self {
        Self { balance, checked, lineup: Mutex::default() }
    }

    /// What requests are told apart by, when servers are chosen by a hash.
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    pub fn members(&self) -> Vec<Arc<Member>> {
        self.lineup.lock().members.clone()
    }

    /// Takes these places for those so far. What is known of an address is taken over from `known`.
    pub fn settle(&self, places: &[Place], known: &[Arc<Member>]) {
        let members: Vec<_> = places.iter().flat_map(|place| members_at(place, known)).collect();
        let mut lineup = self.lineup.lock();
        let credit = |member: &Member| {
            let index = lineup.members.iter().position(|old| old.is_same(member))?;
            Some(lineup.turns[index].credit)
        };
        let turns = members
            .iter()
            .map(|member| Turn { weight: member.weight, credit: credit(member).unwrap_or_default() })
            .collect();
        *lineup = Lineup { members, turns };
    }

    /// The server for a request with this key, not one of `tried` while another may be used. Absent when checks have taken
    /// all of them down.
    pub fn choose(&self, key: Option<u64>, tried: &[SocketAddr], now: Timestamp) -> Option<Attempt> {
        let mut lineup = self.lineup.lock();
        let candidates = self.candidates(&lineup.members, tried, now);
        let Lineup { members, turns } = &mut *lineup;
        let index = match (&self.balance, key) {
            (Balance::Hash(_), Some(key)) => {
                let ranked = candidates.iter().map(|&index| {
                    let member = &members[index];
                    (rank(key, member.digest, member.weight), index)
                });
                ranked.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, index)| index)
            }
            (Balance::LeastConnections, _) => {
                let least = least_loaded(turns, &candidates, |index| members[index].in_flight());
                next_turn(turns, &least)
            }
            _ => next_turn(turns, &candidates),
        };
        let member = &members[index?];
        member.state.health.lock().chosen(now);
        // Counted before the lock is let go, so that two requests at once do not both see the same idle server.
        Some(Attempt::new(member.clone()))
    }

    /// The members of the best kind there is: a server that was not tried before one that is only not passed over.
    fn candidates(&self, members: &[Arc<Member>], tried: &[SocketAddr], now: Timestamp) -> Candidates {
        let mut candidates = Candidates::new();
        let mut best = None::<(bool, Standing)>;
        for (index, member) in members.iter().enumerate() {
            let standing = member.standing(self.checked, now);
            let kind = (tried.contains(&member.address), standing);
            if standing == Standing::Down || best.is_some_and(|best| kind > best) {
                continue;
            }
            if best.is_none_or(|best| kind < best) {
                candidates.clear();
                best = Some(kind);
            }
            candidates.push(index);
        }
        candidates
    }

    /// Takes a request that failed and says whether its server is passed over from now on. The last good one never is.
    pub fn failed(&self, member: &Member, now: Timestamp) -> bool {
        let others = self.members();
        let mut others = others.iter().filter(|other| other.address != member.address);
        let may_pass_over = others.any(|other| other.standing(self.checked, now) == Standing::Good);
        member.state.health.lock().failed(may_pass_over, now)
    }

    /// Whether a configured server gets requests: one address is enough.
    pub fn is_used(&self, server: &str, now: Timestamp) -> bool {
        let lineup = self.lineup.lock();
        let mut own = lineup.members.iter().filter(|member| *member.name == *server);
        own.any(|member| member.standing(self.checked, now) == Standing::Good)
    }
}

impl Member {
    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.name == other.name
    }
}

fn members_at(place: &Place, known: &[Arc<Member>]) -> Vec<Arc<Member>> {
    let addresses = &place.addresses[..place.addresses.len().min(MAX_ADDRESSES)];
    let share = i64::from(place.weight) * WEIGHT_UNIT / i64::try_from(addresses.len().max(1)).expect("a few addresses");
    let member = |address: &SocketAddr| {
        let same = known.iter().find(|known| known.address == *address && known.name == place.name);
        Arc::new(Member {
            name: place.name.clone(),
            address: *address,
            weight: share,
            digest: server_of(*address),
            state: same.map(|same| same.state.clone()).unwrap_or_default(),
        })
    };
    addresses.iter().map(member).collect()
}

#[cfg(test)]
mod tests;
