//! The rate-limit fields of a response.
//!
//! Each group of fields is one file and one line in [`STYLES`]; the configuration switches groups on, and a [`Style`]
//! is those that are on. All groups show the same limit and the same moment, because both are worked out here, once.
//! Nothing here decides, reads a clock or touches a response: fields go into a sink, which has to replace any that
//! are there already.

mod classic;
mod ietf;
pub mod retry;
mod x_ratelimit;

use crate::config::model::{Dialect, Headers, Reset};
use crate::limiter::verdict::{LimitStatus, Verdict};
use crate::policy::limit_text::MAX_FIELD_INTEGER;
use crate::time::Timestamp;
use http::{HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Takes one field. A name comes at most once for a response.
pub type Sink<'s> = dyn FnMut(HeaderName, HeaderValue) + 's;

/// Fields that are switched on together.
pub struct FieldGroup {
    /// For diagnostics.
    pub name: &'static str,
    enabled: fn(&Headers) -> bool,
    write: fn(&Frame<'_, '_>, &mut Sink<'_>),
}

/// Every group there is, in the order in which they are written.
pub static STYLES: [&FieldGroup; 4] = [&classic::POLICY, &classic::TRIPLE, &ietf::PAIR, &x_ratelimit::TRIPLE];

/// The names of the groups that `dialect` chooses from.
static RATELIMIT_NAMES: [HeaderName; 5] = [
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The names that `x_ratelimit` switches.
static X_RATELIMIT_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// `[headers]`, made ready.
#[derive(Clone)]
pub struct Style {
    groups: SmallVec<[&'static FieldGroup; STYLES.len()]>,
    owned: Vec<HeaderName>,
    reset: Reset,
}

impl Style {
    pub fn new(headers: &Headers) -> Self {
        let mut owned = Vec::new();
        if headers.dialect != Dialect::Off {
            owned.extend_from_slice(&RATELIMIT_NAMES);
        }
        if headers.x_ratelimit {
            owned.extend_from_slice(&X_RATELIMIT_NAMES);
        }
        let groups = STYLES.into_iter().filter(|group| (group.enabled)(headers)).collect();
        Self { groups, owned, reset: headers.reset }
    }

    /// The fields that are the gateway's to say on a request that had limits: an upstream's copies are removed before
    /// [`Style::stamp`]. All spellings of a dialect belong together: one that the gateway does not write would
    /// contradict the one it does.
    pub fn owned_names(&self) -> &[HeaderName] {
        &self.owned
    }

    /// Writes the fields of one response. `date` is that response's `Date`. A verdict without a limit that may be
    /// shown writes nothing.
    pub fn stamp(&self, verdict: &Verdict<'_>, date: Timestamp, sink: &mut Sink<'_>) {
        let frame = Frame { verdict, single: Single::of(verdict, date, self.reset) };
        for group in &self.groups {
            (group.write)(&frame, sink);
        }
    }
}

impl std::fmt::Debug for Style {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.groups.iter().map(|group| group.name)).entry(&self.reset).finish()
    }
}

/// What a group writes from.
struct Frame<'v, 'l> {
    verdict: &'v Verdict<'l>,
    /// Absent when no limit may be shown, or when the one that refused may not: the numbers of another limit beside
    /// that refusal would tell the client that it may go on.
    single: Option<Single>,
}

/// The values of the fields that have only one: those of [`Verdict::shown`].
struct Single {
    limit: i64,
    remaining: i64,
    reset: i64,
}

impl Single {
    fn of(verdict: &Verdict<'_>, date: Timestamp, reset: Reset) -> Option<Self> {
        let status = verdict.shown()?;
        let after = reset_seconds(status, verdict.admitted);
        let reset = match reset {
            Reset::Delta => after,
            Reset::Epoch => date.seconds().saturating_add(after),
        };
        Some(Self { limit: status.limit.capacity(), remaining: status.remaining_requests(), reset })
    }

    /// Limit, remaining and reset under the given names, in that order.
    fn write(&self, names: &[HeaderName; 3], sink: &mut Sink<'_>) {
        for (name, value) in names.iter().zip([self.limit, self.remaining, self.reset]) {
            sink(name.clone(), HeaderValue::from(value.max(0)));
        }
    }
}

/// Seconds until the reset that is shown of a limit, rounded up: its wait when it refuses, else its own reset. 0 only
/// on an accepted response with something left.
fn reset_seconds(status: &LimitStatus<'_>, admitted: bool) -> i64 {
    let least = i64::from(!admitted || status.remaining_requests() == 0);
    status.reset_after().seconds_up().clamp(least, MAX_FIELD_INTEGER)
}

#[cfg(test)]
mod tests;
