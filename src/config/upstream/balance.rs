//! `balance` of an upstream.

use crate::config::model::{Balance, HashKey};
use crate::config::names;
use crate::config::problem::{Complaint, choices, nearest, quote};

/// What `balance` may be, where another type stands.
pub const EXPECTED: &str = "a way to choose a server such as \"round_robin\"";

const WORDS: [&str; 5] = ["round_robin", "least_connections", "hash:ip", "hash:consumer", "hash:header:NAME"];

pub fn balance(text: &str) -> Result<Balance, Complaint> {
    match text {
        "round_robin" => return Ok(Balance::RoundRobin),
        "least_connections" => return Ok(Balance::LeastConnections),
        "hash:ip" => return Ok(Balance::Hash(HashKey::Ip)),
        "hash:consumer" => return Ok(Balance::Hash(HashKey::Consumer)),
        _ => {}
    }
    if let Some(name) = text.strip_prefix("hash:header:")
        && let Ok(name) = names::header_name(name)
    {
        return Ok(Balance::Hash(HashKey::Header(name)));
    }
    let complaint = Complaint::new(format!("expected {}, not {}", choices(WORDS, quote), quote(text)));
    Err(match nearest(text, WORDS) {
        Some(near) => complaint.hint(format!("did you mean {}?", quote(near))),
        None => complaint,
    })
}
