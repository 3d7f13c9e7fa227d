//! What is known of one request when its limits are chosen. Plain data: gathered by the rim, read by the policy.

use super::limit::TierIndex;
use crate::request::route::Parameters;
use http::HeaderMap;
use std::net::IpAddr;

/// The facts of one request.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The client's address, unmapped.
    pub address: IpAddr,
    /// The network that the client counts as.
    pub group: IpAddr,
    pub method: &'a str,
    /// Canonical.
    pub host: &'a str,
    /// An index into [`super::Policy::routes`]; absent when no route takes the request.
    pub route: Option<usize>,
    pub parameters: Parameters<'a, 'a>,
    /// An index into [`super::Policy::consumers`]; absent for anonymous callers.
    pub consumer: Option<usize>,
    pub tier: TierIndex,
    pub headers: &'a HeaderMap,
}

/// What a request draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Every limit of every layer that applies.
    Everything,
    /// One on each limit of the address layer: preflights, and requests refused for another reason than a limit.
    Address,
    /// As `Address`, and one on the failure budget: a wrong key.
    WrongKey,
    /// Nothing at all: exempt and denied networks.
    Nothing,
}
