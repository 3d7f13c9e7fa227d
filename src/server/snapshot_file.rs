//! `store.memory.snapshot`: the file in which counters outlive the process.
//!
//! Written aside, flushed to the disk and renamed, so that a crash at any moment leaves a whole file: the new one or the one
//! before. A file that cannot be used is kept under another name and reported: counters begin afresh, and somebody may want to
//! know why. Nothing here runs on the path of a request.

use crate::store::memory::MemoryStore;
use crate::store::memory::snapshot::{Export, Fault, Import};
use crate::time::{Clock, Stopwatch, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often the file is written: what a crash can lose of the counters, together with the time that a write takes.
const INTERVAL: Duration = Duration::from_secs(10);

/// It holds the secret under which counters are known.
const MODE: u32 = 0o600;

/// Bytes read at once.
const READ_BUFFER: usize = 256 << 10;

/// The counters of a file, if there is one and it can be used.
pub(super) fn restore(path: &Path, max_entries: usize, now: Timestamp) -> Option<MemoryStore> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::info!(file = %path.display(), "no snapshot of counters yet: they begin afresh");
            return None;
        }
        Err(error) => {
            tracing::error!(file = %path.display(), %error, "cannot read the snapshot: counters begin afresh");
            return None;
        }
    };
    match read(file, max_entries, now) {
        Ok(store) => {
            let counters = store.held();
            tracing::info!(file = %path.display(), counters, "counters restored");
            Some(store)
        }
        Err(reason) => {
            let aside = beside(path, ".rejected");
            let kept = fs::rename(path, &aside);
            let kept_as = kept.map_or_else(|error| error.to_string(), |()| aside.display().to_string());
            tracing::error!(file = %path.display(), %reason, kept_as, "snapshot ignored: counters begin afresh");
            None
        }
    }
}

fn read(file: File, max_entries: usize, now: Timestamp) -> Result<MemoryStore, Fault> {
    let mut reader = BufReader::with_capacity(READ_BUFFER, file);
    let store = Import::open(&mut reader)?.restore(max_entries, now)?;
    match reader.read(&mut [0])? {
        0 => Ok(store),
        _ => Err(Fault::Damaged("there is something behind its end")),
    }
}

/// Writes the counters of a store to its file.
pub(super) struct SnapshotFile {
    path: PathBuf,
    store: Arc<MemoryStore>,
    clock: Clock,
    /// Whether the file is this process's to write; locked while it does.
    is_ours: Mutex<bool>,
    failed: AtomicBool,
}

impl SnapshotFile {
    pub fn new(path: PathBuf, store: Arc<MemoryStore>, clock: Clock) -> Self {
        Self { path, store, clock, is_ours: Mutex::new(true), failed: AtomicBool::new(false) }
    }

    /// Writes it every ten seconds, for ever.
    pub async fn keep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.clone().save().await;
        }
    }

    /// Writes it, unless it belongs to another process by now.
    pub async fn save(self: Arc<Self>) {
        let saved = tokio::task::spawn_blocking(move || {
            let is_ours = self.is_ours.lock();
            if *is_ours {
                self.save_now();
            }
        });
        if let Err(error) = saved.await {
            tracing::error!(%error, "the snapshot was not written");
        }
    }

    /// Until the guard is gone nothing is written. Set to false, nothing will be.
    pub fn hold(&self) -> MutexGuard<'_, bool> {
        self.is_ours.lock()
    }

    fn save_now(&self) {
        let took = Stopwatch::start();
        match self.write() {
            Ok(counters) => {
                tracing::debug!(counters, ms = took.elapsed().as_millis(), "snapshot written");
                if self.failed.swap(false, Ordering::Relaxed) {
                    tracing::info!(file = %self.path.display(), "the snapshot is written again");
                }
            }
            Err(error) => {
                if !self.failed.swap(true, Ordering::Relaxed) {
                    tracing::error!(file = %self.path.display(), %error, "cannot write the snapshot of counters");
                }
            }
        }
    }

    fn write(&self) -> io::Result<u64> {
        let aside = beside(&self.path, ".tmp");
        // What an earlier process left there may have another mode, or be a link.
        let _nothing_is_there = fs::remove_file(&aside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&aside)?;
        let mut export = Export::new(&self.store, self.clock.now());
        let mut piece = Vec::new();
        while export.next(&mut piece) {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        fs::rename(&aside, &self.path)?;
        // The name is as lasting as the bytes only once its directory is on the disk too.
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(export.records())
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
