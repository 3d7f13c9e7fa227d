//! Counters in Redis, shared by several gateways. So far the scripts that decide there.

pub mod script;
