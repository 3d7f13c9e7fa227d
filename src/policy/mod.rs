//! What the operator meant.
pub mod limit;
pub mod limit_text;
