//! One binary for every test that runs the real program.
//!
//! A test named after a case (`b02_…`) covers a kind of fault that comparable systems shipped; the others follow the
//! contract's text. Each starts its own gateway on free ports, so that all may run side by side.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are outside, where time really passes"
)]

mod access_log;
mod admin_api;
mod atomicity;
mod auth;
mod balance;
mod body_429;
mod body_streaming;
mod bulk;
mod cli;
mod clients;
mod cluster;
mod cluster_faults;
mod concurrency_leak;
mod config_validation;
mod conformance;
mod connections;
mod cors;
mod cost;
mod dashboard;
mod docs;
mod double_charge;
mod explain;
mod header_injection;
mod headers;
mod health_check;
mod hop_by_hop;
mod hot_reload;
mod http1_parsing;
mod http2_bounds;
mod http2_grpc;
mod http2_parsing;
mod ip_extraction;
mod ipv6;
mod key_collision;
mod key_leak;
mod keys;
mod layering;
mod leaky_bucket;
mod lifecycle;
mod limits;
mod memory_growth;
mod metrics;
mod overflow;
mod path_evasion;
mod proxying;
mod real_clients;
mod redis_exact;
mod redis_faults;
mod redis_tls;
mod replay;
mod request_smuggling;
mod retry_after;
mod schema;
mod sentinel;
mod shared_store;
mod snapshot;
mod support;
mod tidy;
mod tls;
mod twins;
mod units;
mod upgrade;
mod upstream_tls;
mod upstreams;
mod websocket;
mod window_math;
