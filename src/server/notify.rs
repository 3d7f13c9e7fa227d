//! What systemd is told: that the gateway serves, reloads or stops, and which process it is.
//!
//! Outside of a service of `Type=notify` there is nobody to tell, and nothing is said. A manager that does not listen is no
//! reason not to serve.

use sd_notify::NotifyState;

/// It serves. After an upgrade that is the main process from now on.
pub(super) fn ready(took_over: bool) {
    if took_over {
        tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
    } else {
        tell(&[NotifyState::Ready]);
    }
}

/// A reload begins; systemd measures it from the instant given.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no instant of the reload for systemd"),
    }
}

/// It serves again, as before when the reload was refused.
pub(super) fn reloaded(succeeded: bool) {
    let status = if succeeded { "Serving" } else { "Serving; the last reload was refused, see the log" };
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It drains and ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Another process has taken over, and the service goes on with it. Said by the old one too: systemd may believe nobody else.
pub(super) fn succeeded_by(process: u32) {
    tell(&[NotifyState::MainPid(process)]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot tell systemd");
    }
}
