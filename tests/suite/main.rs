//! One binary for every test that runs the real program.
//!
//! A test named after a case (`b02_…`) covers a kind of fault that comparable systems shipped; the others follow the
//! contract's text. Each starts its own gateway on free ports, so that all may run side by side.

mod support;
