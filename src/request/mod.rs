//! What the client sent, as facts: who it is, what it asks for, and what is wrong with either.
//!
//! Pure: bytes in, facts out. A bad key or an unknown path is a fact here, not yet an answer; the limiter and the
//! proxy decide what it costs and what it is called. Nothing here reads a clock, does I/O, logs or keeps state
//! between requests, and nothing here knows of limits.
//!
//! In the order of one request:
//!
//! 0. [`head`] and [`chunks`]: whether an HTTP/1 request can be read in one way only, and where it ends.
//! 1. [`client`]: peer and forwarding header to the address that counts, and its group.
//! 2. [`host`]: request target and `Host` to one canonical host, a raw path and a raw query.
//! 3. [`path`]: the raw path to the one that is forwarded and the one that is matched.
//! 4. [`route`]: method, host and path to a route and its parameters.
//! 5. [`credential`]: where a key stands in the request, with [`query`] for the query's part of it.
//! 6. [`caller`]: the key's digest to a key record, or why not.
//!
//! `docs/requests.md` tells operators the same, with tables.

pub mod caller;
pub mod chunks;
pub mod client;
pub mod credential;
pub mod head;
pub mod host;
pub mod path;
pub mod query;
pub mod route;
