//! Reload: read every file again, compile, and swap the whole snapshot, or keep the old one and say why.
//!
//! Counters are not touched: they live in the store under names that survive. A reload that would change what only a
//! start can change (listeners, threads, the admin port, the store) is refused by name and changes nothing; what merely
//! waits for the next start is named in the log. Files that were written a moment ago may not be whole yet, so a
//! reload waits until they have been left alone for [`SETTLE`].

use crate::config::model::{Admin, Config, Log, Server, Store};
use crate::load::{self, Source};
use crate::proxy::snapshot::{Live, Snapshot};
use crate::time::Clock;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// How long every file must have been left alone before it is read.
pub const SETTLE: Duration = Duration::from_millis(300);

/// How long to wait for that at most; after it the files are read as they are.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// The parts of the configuration in which a start settles something for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fixed {
    server: Server,
    admin: Admin,
    store: Store,
    log: Log,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        Self {
            server: config.server.clone(),
            admin: config.admin.clone(),
            store: config.store,
            log: config.log.clone(),
        }
    }

    /// The keys that differ although only a start can change them.
    fn changed(&self, new: &Self) -> Vec<&'static str> {
        differing([
            ("server.listen", self.server.listen != new.server.listen),
            ("server.threads", self.server.threads != new.server.threads),
            ("admin.listen", self.admin.listen != new.admin.listen),
            ("[store]", self.store != new.store),
        ])
    }

    /// The keys that differ and wait for the next start, while the rest of the configuration takes effect.
    fn deferred(&self, new: &Self) -> Vec<&'static str> {
        differing([
            ("server.drain", self.server.drain != new.server.drain),
            ("server.timeouts.header", self.server.header_timeout != new.server.header_timeout),
            ("server.timeouts.idle", self.server.idle_timeout != new.server.idle_timeout),
            ("server.max_parked", self.server.max_parked != new.server.max_parked),
            ("admin.token_file", self.admin.token != new.admin.token),
            ("[log]", self.log != new.log),
        ])
    }
}

fn differing<const N: usize>(changes: [(&'static str, bool); N]) -> Vec<&'static str> {
    changes.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}

/// Reads the configuration again on demand.
pub struct Reloader {
    source: Source,
    fixed: Fixed,
    /// What the configuration in force was read from.
    files: Mutex<Vec<PathBuf>>,
}

impl Reloader {
    /// `config` is the one that the process was started with.
    pub fn new(source: Source, config: &Config, files: Vec<PathBuf>) -> Self {
        Self { source, fixed: Fixed::of(config), files: Mutex::new(files) }
    }

    /// Replaces the snapshot and says true, or logs every reason not to and says false.
    pub async fn reload(&self, live: &Arc<Live>) -> bool {
        let files = self.files.lock().clone();
        settle(&files).await;
        let generation = live.load().generation + 1;
        let (source, fixed) = (self.source.clone(), self.fixed.clone());
        // Reading files and resolving names blocks.
        let compiled = tokio::task::spawn_blocking(move || compile(&source, &fixed, generation)).await;
        match compiled {
            Ok(Ok((snapshot, files))) => {
                *self.files.lock() = files;
                live.store(Arc::new(snapshot));
                tracing::info!(generation, "configuration reloaded");
                true
            }
            Ok(Err(reasons)) => {
                for reason in reasons {
                    tracing::error!(problem = %reason, "reload refused");
                }
                tracing::error!("the configuration is unchanged: the old one stays in force");
                false
            }
            Err(error) => {
                tracing::error!(%error, "reload failed: the old configuration stays in force");
                false
            }
        }
    }
}

fn compile(source: &Source, fixed: &Fixed, generation: u64) -> Result<(Snapshot, Vec<PathBuf>), Vec<String>> {
    let checked = load::check(source, generation);
    for warning in checked.rendered_warnings() {
        tracing::warn!(problem = %warning, "configuration");
    }
    let reasons = checked.rendered_errors();
    let files = checked.files();
    let (Some(config), Some(snapshot)) = (checked.config, checked.snapshot) else { return Err(reasons) };
    let new = Fixed::of(&config);
    let changed = fixed.changed(&new);
    if changed.is_empty() {
        for key in fixed.deferred(&new) {
            tracing::warn!("{key} takes effect at the next start");
        }
        return Ok((snapshot, files));
    }
    Err(changed.into_iter().map(|key| format!("{key} cannot be changed by a reload: restart the gateway")).collect())
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
