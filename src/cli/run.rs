//! `run`: reads the configuration, starts the logs, serves.

use super::EXIT_CONFIGURATION;
use super::output::{has_colours, print_problems};
use crate::config::model::{Config, Log};
use crate::load::{self, Source};
use crate::metrics::Metrics;
use crate::proxy::access_log::{self, AccessLog, Output};
use crate::reload::{Logs, Reloader};
use crate::server::{self, Start};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

/// Serves the configuration in a file, perhaps in the place of the gateway that runs.
pub fn run(path: PathBuf, upgrade: bool, early_reload: Arc<AtomicBool>) -> ExitCode {
    let start = Start { has_runtime_dir: true, upgrade };
    serve(Source::File(path), start, early_reload, |_| {})
}

/// Serves a source; `ready` is called with the configuration just before.
pub fn serve(source: Source, start: Start, early_reload: Arc<AtomicBool>, ready: impl FnOnce(&Config)) -> ExitCode {
    let checked = load::load(&source, 1, None);
    print_problems(&checked);
    let files = checked.files();
    // Texts and consumers are compiled by now; a million of them need not stay.
    drop((checked.problems, checked.sources));
    let (Some(mut config), Some(snapshot)) = (checked.config, checked.snapshot) else {
        eprintln!("sluicegate: the configuration is refused");
        return ExitCode::from(EXIT_CONFIGURATION);
    };
    config.consumers = Vec::new();
    let set_level = start_log(&config.log);
    let access_log = match Output::open(&config.log.access, config.log.format) {
        Ok(output) => Arc::new(AccessLog::new(output)),
        Err(error) => {
            eprintln!("sluicegate: cannot open the access log {error}");
            return ExitCode::FAILURE;
        }
    };
    ready(&config);
    load::tell_expiring(&snapshot.policy);
    let parts = server::Parts {
        reloader: Reloader::new(source, &config, files, Logs { access: access_log.clone(), set_level }),
        config,
        snapshot,
        early_reload,
        metrics: Arc::new(Metrics::new()),
        access_log,
        start,
    };
    match server::run(parts) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluicegate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The log of the program itself, on standard error; returns what changes its level. Records of libraries are left
/// out: they may quote what a client sent, keys included.
fn start_log(log: &Log) -> Box<dyn Fn(Level) + Send + Sync> {
    let ours = |level| Targets::new().with_target("sluicegate", LevelFilter::from_level(level));
    let (filter, handle) = reload::Layer::new(ours(log.level));
    let json = access_log::is_json(log.format, io::stderr().is_terminal());
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(has_colours(&io::stderr()));
    let registry = tracing_subscriber::registry().with(filter);
    // A second subscriber can only be set by a test that starts two gateways in one process; the first one stays.
    let _ = if json {
        tracing::subscriber::set_global_default(registry.with(layer.json()))
    } else {
        tracing::subscriber::set_global_default(registry.with(layer))
    };
    // It fails only once the subscriber is gone, and then there is nothing to filter.
    Box::new(move |level| drop(handle.reload(ours(level))))
}
