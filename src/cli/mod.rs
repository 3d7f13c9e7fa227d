//! The command line: what each command takes, and which file carries it out.
//!
//! Exit codes: 0 done; 1 failed while running, or `check` found problems; 2 wrong usage; 78 `run` with a bad
//! configuration (`EX_CONFIG` of sysexits.h).

mod ask_admin;
mod check;
mod demo;
mod limits;
mod run;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `run` with a configuration that is refused.
const EXIT_CONFIGURATION: u8 = 78;

/// Where the configuration is looked for when none is named.
const DEFAULT_FILES: [&str; 2] = ["sluicegate.toml", "/etc/sluicegate/sluicegate.toml"];

/// A rate-limiting API gateway: layered limits, one all-or-nothing decision, honest waits.
#[derive(Parser)]
#[command(name = "sluicegate", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Without a command: `run`.
    #[command(flatten)]
    file: File,
    /// Check the configuration and exit; the same as `check`.
    #[arg(short = 't', long = "test")]
    test: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Serve.
    Run(File),
    /// Serve a built-in example on 127.0.0.1:8080, with a built-in upstream and printed keys.
    Demo(demo::Demo),
    /// Report every problem of a configuration, or a summary of it; opens no port.
    Check(check::Check),
    /// Show or reset the counters of one caller of a running gateway.
    Limits(limits::Limits),
}

#[derive(Args)]
struct File {
    /// The configuration file [default: sluicegate.toml, then /etc/sluicegate/sluicegate.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl File {
    fn path(self) -> PathBuf {
        self.config.unwrap_or_else(|| {
            let found = DEFAULT_FILES.iter().map(PathBuf::from).find(|path| path.exists());
            found.unwrap_or_else(|| PathBuf::from(DEFAULT_FILES[0]))
        })
    }
}

/// Carries out the command line. `early_reload` is set by a SIGHUP that comes before the gateway serves.
pub fn main(early_reload: Arc<AtomicBool>) -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Run(file)) => run::run(file.path(), early_reload),
        Some(Command::Demo(demo)) => demo.run(early_reload),
        Some(Command::Check(check)) => check.run(),
        Some(Command::Limits(limits)) => limits.run(),
        None if cli.test => check::Check::of(cli.file).run(),
        None => run::run(cli.file.path(), early_reload),
    }
}
