//! Sluicegate.
#![forbid(unsafe_code)]
pub mod algorithm;
pub mod charge;
pub mod config;
pub mod limiter;
pub mod policy;
pub mod proxy;
pub mod request;
pub mod store;
pub mod time;
