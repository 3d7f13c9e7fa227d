//! One binary for every test that runs the real program.
