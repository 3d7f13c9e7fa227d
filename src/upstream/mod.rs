//! Which server of an upstream takes a request: health, turns, shares, hashes.
//!
//! No socket, no name service, no clock: what was seen of a server is told to it, and time comes in as a value. So every
//! rule here is tested without a network. Connections, checks and lookups are in `proxy::upstream`.

mod balance;
pub mod health;
mod pool;
mod rendezvous;

pub use pool::{Attempt, MAX_ADDRESSES, Member, Place, Pool};
pub use rendezvous::key_of;
