//! What the operator wrote: the TOML files read, checked for form and turned into [`model`] types.
//!
//! Nothing is derived here and nothing is guessed: an unknown key, a wrong type or a bare number for a span is a
//! [`Problem`], and all problems are collected. Meaning (which tier a name is, whether a cost fits) is
//! `policy::compile`'s part.

pub mod model;
pub mod problem;

pub use model::{Config, Located, Place};
pub use problem::{Problem, Severity, Sources};

/// What came of reading a configuration.
pub struct Loaded {
    /// Absent when an error makes the rest meaningless; otherwise present even beside problems, so that later checks can add theirs.
    pub config: Option<Config>,
    pub problems: Vec<Problem>,
    pub sources: Sources,
}
