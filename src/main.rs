//! The program: ignores SIGHUP until it can serve it, reads the command line, and exits with what the command says.

#![forbid(unsafe_code)]

use mimalloc::MiMalloc;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The library leaves the choice to its user, so that tests can count what it allocates.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // The default action of a SIGHUP is to die, so this comes before anything else.
    let early_reload = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGHUP, early_reload.clone()) {
        eprintln!("sluicegate: cannot handle SIGHUP: {error}");
        return ExitCode::FAILURE;
    }
    sluicegate::cli::main(early_reload)
}
