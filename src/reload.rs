//! Reload: read every file again, compile, and swap the whole snapshot, or keep the old one and say why.
//!
//! Counters are not touched: they live in the store under names that survive. A reload that would change what only a
//! start can change (listeners, threads, the admin port, the store) is refused by name and changes nothing. Files
//! that were written a moment ago may not be whole yet, so a reload waits until they have been left alone
//! for [`SETTLE`].

use crate::config::model::{Config, Log};
use crate::load::{self, Source};
use crate::proxy::access_log::{AccessLog, Output};
use crate::proxy::snapshot::{Live, Snapshot};
use crate::time::{Clock, Timestamp};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How long every file must have been left alone before it is read.
pub const SETTLE: Duration = Duration::from_millis(300);

/// How long to wait for that at most; after it the files are read as they are.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// How often it is looked whether a snapshot out of force is still held.
const RETIRE_POLL: Duration = Duration::from_millis(500);

/// What only a start can change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fixed {
    listen: Vec<std::net::SocketAddr>,
    listen_tls: std::collections::BTreeSet<std::net::SocketAddr>,
    threads: usize,
    admin_listen: std::net::SocketAddr,
    store: crate::config::model::Store,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        Self {
            listen: config.server.listen.clone(),
            listen_tls: config.server.tls.iter().map(|listener| listener.listen).collect(),
            threads: config.server.threads,
            admin_listen: config.admin.listen,
            store: config.store.clone(),
        }
    }

    /// The keys that differ.
    fn changed(&self, new: &Self) -> Vec<&'static str> {
        let changes = [
            ("server.listen", self.listen != new.listen),
            ("`listen` of [[server.tls]]", self.listen_tls != new.listen_tls),
            ("server.threads", self.threads != new.threads),
            ("admin.listen", self.admin_listen != new.admin_listen),
            ("[store]", self.store != new.store),
        ];
        changes.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
    }
}

/// What a reload changes of the logs.
pub struct Logs {
    pub access: Arc<AccessLog>,
    /// Sets the level of the program's own log. Its format stays that of the start.
    pub set_level: Box<dyn Fn(tracing::Level) + Send + Sync>,
}

/// How the last reload went.
#[derive(Clone, Debug)]
pub struct Report {
    /// By the wall clock.
    pub at: Timestamp,
    /// The generation that it put in force; absent when it was refused.
    pub generation: Option<u64>,
    /// Why it was refused: errors of the configuration, each as an operator reads it.
    pub problems: Vec<String>,
}

/// Where the last report is kept; absent before the first reload.
pub type LastReport = Arc<Mutex<Option<Report>>>;

/// Reads the configuration again on demand.
pub struct Reloader {
    source: Source,
    fixed: Fixed,
    /// What the configuration in force was read from.
    files: Mutex<Vec<PathBuf>>,
    logs: Logs,
    /// `[log]` of the configuration in force.
    log: Mutex<Log>,
    report: LastReport,
}

/// What a reload puts in force, all of it or nothing.
struct Compiled {
    snapshot: Snapshot,
    files: Vec<PathBuf>,
    log: Log,
    /// Absent when the access log stays what it is.
    access: Option<Option<Output>>,
}

impl Reloader {
    /// `config` is the one that the process was started with.
    pub fn new(source: Source, config: &Config, files: Vec<PathBuf>, logs: Logs) -> Self {
        let (fixed, log) = (Fixed::of(config), Mutex::new(config.log.clone()));
        Self { source, fixed, files: Mutex::new(files), logs, log, report: LastReport::default() }
    }

    /// What is told of the last reload, for others to read.
    pub fn report(&self) -> LastReport {
        self.report.clone()
    }

    /// Replaces the snapshot and says true, or logs every reason not to and says false.
    pub async fn reload(&self, live: &Arc<Live>) -> bool {
        let files = self.files.lock().clone();
        settle(&files).await;
        let in_force = live.load_full();
        let generation = in_force.generation + 1;
        let (source, fixed, log) = (self.source.clone(), self.fixed.clone(), self.log.lock().clone());
        // Reading files and resolving names blocks.
        let compiled = tokio::task::spawn_blocking(move || compile(&source, &fixed, &log, &in_force)).await;
        let problems = match compiled {
            Ok(Ok(compiled)) => {
                self.put_in_force(compiled, live);
                tracing::info!(generation, "configuration reloaded");
                Vec::new()
            }
            Ok(Err(reasons)) => {
                for reason in &reasons {
                    tracing::error!(problem = %reason, "reload refused");
                }
                tracing::error!("the configuration is unchanged: the old one stays in force");
                reasons
            }
            Err(error) => {
                tracing::error!(%error, "reload failed: the old configuration stays in force");
                vec![format!("the reload failed: {error}")]
            }
        };
        let succeeded = problems.is_empty();
        let generation = succeeded.then_some(generation);
        *self.report.lock() = Some(Report { at: Clock::wall(), generation, problems });
        succeeded
    }

    fn put_in_force(&self, compiled: Compiled, live: &Live) {
        *self.files.lock() = compiled.files;
        if let Some(output) = compiled.access {
            self.logs.access.replace(output);
        }
        (self.logs.set_level)(compiled.log.level);
        *self.log.lock() = compiled.log;
        load::tell_expiring(&compiled.snapshot.policy);
        retire(live.swap(Arc::new(compiled.snapshot)));
    }
}

fn compile(source: &Source, fixed: &Fixed, log: &Log, in_force: &Snapshot) -> Result<Compiled, Vec<String>> {
    let checked = load::load(source, in_force.generation + 1, Some(in_force));
    for warning in checked.rendered_warnings() {
        tracing::warn!(problem = %warning, "configuration");
    }
    let reasons = checked.rendered_errors();
    let files = checked.files();
    let (Some(config), Some(snapshot)) = (checked.config, checked.snapshot) else { return Err(reasons) };
    let changed = fixed.changed(&Fixed::of(&config));
    if !changed.is_empty() {
        let refusal = |key| format!("{key} cannot be changed by a reload: restart the gateway");
        return Err(changed.into_iter().map(refusal).collect());
    }
    let moved = (&config.log.access, config.log.format) != (&log.access, log.format);
    let access = moved.then(|| Output::open(&config.log.access, config.log.format)).transpose();
    let access = access.map_err(|error| vec![format!("cannot open the access log {error}")])?;
    Ok(Compiled { snapshot, files, log: config.log, access })
}

/// Frees a snapshot that is no longer in force, once no request holds it any more, away from the threads that serve: freeing a
/// million keys takes a while. Long requests hold theirs for long, so the wait has no end; there is one for each reload.
fn retire(snapshot: Arc<Snapshot>) {
    tokio::spawn(async move {
        while Arc::strong_count(&snapshot) > 1 {
            tokio::time::sleep(RETIRE_POLL).await;
        }
        tokio::task::spawn_blocking(move || drop(snapshot));
    });
}

async fn settle(files: &[PathBuf]) {
    let mut waited = Duration::ZERO;
    while waited < SETTLE_LIMIT {
        let youngest = files.iter().filter_map(age).min().unwrap_or(SETTLE);
        let Some(pause) = SETTLE.checked_sub(youngest).filter(|pause| !pause.is_zero()) else { return };
        tokio::time::sleep(pause).await;
        waited += pause;
    }
}

/// How long ago a file was written; absent when that cannot be told, or when it lies in the future.
fn age(path: &PathBuf) -> Option<Duration> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Duration::from_millis(u64::try_from(Clock::wall().0).ok()?).checked_sub(written)
}
