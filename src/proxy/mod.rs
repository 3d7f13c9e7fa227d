//! The rim towards HTTP.

pub mod accept;
pub mod cors;
pub mod grpc;
pub mod headers;
mod instant;
pub mod members;
pub mod page;
pub mod refusal;
pub mod template;

#[cfg(test)]
mod fixtures;
