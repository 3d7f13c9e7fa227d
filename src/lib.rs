//! Sluicegate: a rate-limiting gateway. This page is the map.
//!
//! **Once, at load:** [`config`] reads what the operator wrote, [`policy`] compiles what was meant, [`load`] joins the
//! two for every command and for [`reload`].
//!
//! **For each request:** [`proxy`] takes it in, [`request`] turns its bytes into facts, [`limiter`] asks the
//! [`policy`] which limits apply and puts them as [`charge`]s to the [`store`] in one call, which asks each limit's
//! [`algorithm`]; [`proxy`] forwards (to the server that [`upstream`] chooses), holds or answers.
//!
//! **Layers**, imports only downwards: 0 [`time`], [`metrics`] · 1 [`config`], [`request`], [`algorithm`] ·
//! 2 [`charge`], [`upstream`] · 3 [`policy`], [`store`] · 4 [`limiter`] · 5 [`proxy`], [`load`], [`reload`], [`admin`] ·
//! 6 [`server`], [`cli`]. Everything up to 4 but a store's own I/O is pure: no clock, no Pingora; time comes in as a
//! value. The tests hold this order.

#![forbid(unsafe_code)]

pub mod admin;
pub mod algorithm;
pub mod charge;
pub mod cli;
pub mod config;
pub mod limiter;
pub mod load;
pub mod metrics;
pub mod policy;
pub mod proxy;
pub mod reload;
pub mod request;
pub mod server;
pub mod store;
pub mod time;
pub mod upstream;
