//! The decision.
pub mod rejection;
pub mod verdict;
