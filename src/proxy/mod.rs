//! The rim towards HTTP.
