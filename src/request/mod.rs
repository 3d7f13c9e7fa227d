//! What the client sent, as facts: who it is, what it asks for, and what is wrong with either.
//!
//! Pure: bytes in, facts out. A bad key or an unknown path is a fact here, not yet an answer; the limiter and the
//! proxy decide what it costs and what it is called.

pub mod caller;
pub mod client;
pub mod credential;
pub mod host;
pub mod path;
pub mod route;
