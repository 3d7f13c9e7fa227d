//! The process: listeners, connections, background work, signals, drain, and the process that takes its place.
//!
//! The accept loop is ours and hands each connection to Pingora's HTTP code, because Pingora's own server dies of a
//! SIGHUP, sleeps out its whole grace time when idle and knows no deadline for a request's header. Here a reload is a
//! message, a drain ends as soon as nothing is open, and a connection that never finishes a header is closed.

mod counters;
mod notify;
mod runtime_dir;
mod service;
mod signals;
mod snapshot_file;
mod sockets;
mod upgrade;

use crate::config::model::Config;
use crate::metrics::Metrics;
use crate::proxy::access_log::AccessLog;
use crate::proxy::snapshot::{Live, Snapshot};
use crate::proxy::upstream::watch::Watch;
use crate::reload::Reloader;
use crate::store::moving::Moving;
use crate::time::Clock;
use counters::Counters;
use runtime_dir::Claim;
use service::Service;
use signals::{Ending, Reloads, Signals};
use sockets::Sockets;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;
use upgrade::{Offer, Predecessor};

/// How the process was started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// Whether it writes a pid file and can be upgraded.
    pub has_runtime_dir: bool,
    /// Whether it takes the place of the process that runs.
    pub upgrade: bool,
}

/// What a running gateway is made of.
pub struct Parts {
    pub config: Config,
    pub snapshot: Snapshot,
    pub reloader: Reloader,
    /// Set by a SIGHUP that came before the signal loop ran.
    pub early_reload: Arc<AtomicBool>,
    pub metrics: Arc<Metrics>,
    pub access_log: Arc<AccessLog>,
    pub start: Start,
}

/// Serves until a signal or another process ends it. An error is one that kept it from serving: a port in use, for instance.
pub fn run(parts: Parts) -> io::Result<()> {
    let threads = match parts.config.server.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let result = runtime.block_on(serve(parts, threads));
    // Connections that outlived the drain are dropped with the runtime.
    runtime.shutdown_background();
    result
}

async fn serve(parts: Parts, threads: usize) -> io::Result<()> {
    let mut signals = Signals::register()?;
    let Parts { config, snapshot, reloader, early_reload, metrics, access_log, start } = parts;
    // From the registration on a SIGHUP is seen there; what is looked at later would be served twice.
    let was_hung_up = early_reload.swap(false, Ordering::AcqRel);
    metrics.config_loaded(snapshot.generation, Clock::wall().seconds());
    let live = Arc::new(Live::from_pointee(snapshot));

    let mut predecessor = if start.upgrade { find_predecessor(&config.server.runtime_dir)? } else { None };
    let took_over = predecessor.is_some();
    let sockets = Sockets::open(&config, &live, &mut predecessor)?;
    let counters = Counters::open(&config, predecessor.as_mut(), &metrics).await?;
    let (clock, file, moving) = (counters.clock, counters.file.clone(), counters.moving.clone());
    let watch = Watch::new(clock, metrics.clone());
    watch.follow(&live.load());
    let mut service =
        Service::new(&config, threads, live.clone(), counters, reloader.report(), metrics.clone(), access_log.clone());
    if let Some(predecessor) = predecessor {
        service.calls_before = take_place(predecessor, moving.clone(), clock)?;
    }
    let offer = Offer { sockets: sockets.names(), counters: moving, file: file.clone(), clock };
    let directory = start.has_runtime_dir.then_some(config.server.runtime_dir.as_path());
    let (claim, successor) = await_successor(directory, took_over, offer);
    service.accept(sockets);
    let saving = file.clone().map(|file| tokio::spawn(file.keep()));

    tracing::info!(listen = ?config.server.listen, admin = %config.admin.listen, "ready");
    notify::ready(took_over);
    let reloads = Reloads { reloader, live, metrics, watch };
    if was_hung_up {
        reloads.reload().await;
    }
    until_ended(&mut service, &mut signals, &reloads, &access_log, claim, successor).await;
    if let (Some(file), Some(saving)) = (file, saving) {
        saving.abort();
        file.save().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// The process that runs, when there is one: without, an upgrade is a start like any other.
fn find_predecessor(directory: &Path) -> io::Result<Option<Predecessor>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot take over: {error}"));
    let predecessor = Predecessor::find(directory).map_err(named)?;
    if predecessor.is_none() {
        tracing::info!(runtime_dir = %directory.display(), "no gateway runs here: starting as without --upgrade");
    }
    Ok(predecessor)
}

/// From the return on this process serves; the task answers what the one before has yet to decide.
fn take_place(
    predecessor: Predecessor,
    moving: Option<Arc<Moving>>,
    clock: Clock,
) -> io::Result<Option<JoinHandle<()>>> {
    let process = predecessor.process;
    let stream = predecessor.replace()?;
    tracing::info!(process, "took over from another process");
    Ok(moving.map(|moving| tokio::spawn(upgrade::serve(stream, moving, clock))))
}

/// Writes the files of this process and offers everything to the next one; the task ends with the process that took it.
fn await_successor(directory: Option<&Path>, took_over: bool, offer: Offer) -> (Option<Claim>, JoinHandle<u32>) {
    let (claim, socket) = directory.and_then(|directory| runtime_dir::claim(directory, took_over)).unzip();
    let successor = tokio::spawn(async {
        match socket {
            Some(socket) => upgrade::offer(socket, offer).await,
            None => std::future::pending().await,
        }
    });
    (claim, successor)
}

async fn until_ended(
    service: &mut Service,
    signals: &mut Signals,
    reloads: &Reloads,
    access_log: &AccessLog,
    claim: Option<Claim>,
    successor: JoinHandle<u32>,
) {
    tokio::select! {
        biased;
        Ok(process) = successor => {
            if let Some(claim) = claim {
                claim.pass_on();
            }
            tracing::info!(process, "another process has taken over");
            notify::succeeded_by(process);
            service.make_way(signals).await;
        }
        ending = signals.ending(reloads, access_log) => {
            notify::stopping();
            if ending == Ending::Drain {
                service.drain(signals).await;
            }
        }
    }
}
