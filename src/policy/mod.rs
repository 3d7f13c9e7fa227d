//! What the operator meant.
pub mod limit;
