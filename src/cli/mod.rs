//! The command line: what each command takes, and which file carries it out.
//!
//! Exit codes: 0 done; 1 failed while running, or `check` found problems; 2 wrong usage; 78 `run` with a bad
//! configuration (`EX_CONFIG` of sysexits.h).

mod ask_admin;
mod check;
mod completions;
mod demo;
mod explain;
mod keys;
mod limits;
mod output;
mod replay;
mod run;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `run` with a configuration that is refused.
const EXIT_CONFIGURATION: u8 = 78;

/// Wrong usage, as clap ends with it.
const EXIT_USAGE: u8 = 2;

/// Where the configuration is looked for when none is named.
const DEFAULT_FILES: [&str; 2] = ["sluicegate.toml", "/etc/sluicegate/sluicegate.toml"];

/// What stands below the long help and in the manual page.
const AFTER_HELP: &str = "\
First steps:
  sluicegate demo                               a gateway to try out, with keys; nothing else needed
  sluicegate check -c sluicegate.toml           is this configuration what I mean?
  sluicegate explain -c sluicegate.toml GET /   what happens to this request, and why?
  sluicegate keys create --consumer acme --tier pro
  sluicegate -c sluicegate.toml                 serve

Signals of a running gateway: HUP reloads its files, TERM and QUIT let open requests finish, INT ends at once, USR1 opens
the log file again.

Exit codes: 0 done; 1 failed while running, or `check` found problems; 2 wrong usage; 78 a configuration that `run` refuses.

Colours are used on a terminal only, and never when NO_COLOR is set.";

/// A gateway for HTTP APIs that limits how often each caller may call.
///
/// It stands before your services, knows callers by API key or address, lets through what their plan allows, and answers the
/// rest with a 429 that says when to come back. One TOML file says who may do what.
#[derive(Parser)]
#[command(name = "sluicegate", version, args_conflicts_with_subcommands = true, after_long_help = AFTER_HELP)]
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
    /// Serve; the same as no command at all.
    Run(Run),
    /// Serve a built-in example on 127.0.0.1:8080, with a built-in upstream and printed keys.
    Demo(demo::Demo),
    /// Report every problem of a configuration, or a summary of it; opens no port.
    Check(check::Check),
    /// Tell what the configuration would have done to the traffic of access logs.
    Replay(replay::Replay),
    /// Tell what happens to a request, and why: route, caller, cost, and every limit that applies.
    Explain(explain::Explain),
    /// Make API keys, hash them, list them.
    Keys(keys::Keys),
    /// Print completions for a shell: bash, zsh, fish, elvish or powershell.
    Completions(completions::Completions),
    /// Print the manual page, or that of a command: `sluicegate man | man -l -`.
    Man(completions::Manual),
    /// Show or reset the counters of one caller of a running gateway.
    Limits(limits::Limits),
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    file: File,
    /// Take over the listening sockets and the counters of the running gateway, which then drains and ends.
    #[arg(long)]
    upgrade: bool,
}

#[derive(Args, Clone)]
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
        Some(Command::Run(run)) => run::run(run.file.path(), run.upgrade, early_reload),
        Some(Command::Demo(demo)) => demo.run(early_reload),
        Some(Command::Check(check)) => check.run(),
        Some(Command::Replay(replay)) => replay.run(),
        Some(Command::Explain(explain)) => explain.run(),
        Some(Command::Keys(keys)) => keys.run(),
        Some(Command::Completions(completions)) => completions.run(),
        Some(Command::Man(manual)) => manual.run(),
        Some(Command::Limits(limits)) => limits.run(),
        None if cli.test => check::Check::of(cli.file).run(),
        None => run::run(cli.file.path(), false, early_reload),
    }
}
