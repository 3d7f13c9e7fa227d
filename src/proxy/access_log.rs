//! The access log: one line a request, JSON or text.
//!
//! Lines go to a bounded queue that a thread of its own writes, so that a slow disk never slows a request; when the
//! queue is full lines are dropped and counted by the writer. A line holds no key and no query value. The file is
//! opened again when [`AccessLog::reopen`] was called, for log rotation.

use crate::algorithm::calendar::rfc3339;
use crate::config::model::{AccessLog as Target, LogFormat};
use crate::time::Timestamp;
use arc_swap::ArcSwapOption;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 65_536;

/// What a line says. Every line has every member, so that a reader finds the same columns in each: what does not
/// apply is `null`. `error` alone is left out, since only answers of the gateway itself have one.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub time: &'a str,
    pub request_id: &'a str,
    pub client_ip: Option<std::net::IpAddr>,
    pub consumer: Option<&'a str>,
    pub key_id: Option<&'a str>,
    pub tier: Option<&'a str>,
    pub method: &'a str,
    pub route: Option<&'a str>,
    /// The path as forwarded, query values masked.
    pub path: &'a str,
    pub status: u16,
    pub bytes: usize,
    pub duration_ms: f64,
    pub upstream: Option<&'a str>,
    pub upstream_ms: Option<f64>,
    pub decision: &'static str,
    pub limit: Option<&'a str>,
    pub cost: Option<f64>,
    pub remaining: Option<i64>,
    /// The store's instant of the decision, as `time`; absent when no limit was asked.
    pub decided_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

impl Line<'_> {
    /// The names of its members, in order.
    const MEMBERS: [&'static str; 20] = [
        "time",
        "request_id",
        "client_ip",
        "consumer",
        "key_id",
        "tier",
        "method",
        "route",
        "path",
        "status",
        "bytes",
        "duration_ms",
        "upstream",
        "upstream_ms",
        "decision",
        "limit",
        "cost",
        "remaining",
        "decided_at",
        "error",
    ];
}

/// Where lines go now; a reload may change it.
pub struct AccessLog(ArcSwapOption<Output>);

/// Where lines go.
pub struct Output {
    sink: NonBlocking,
    json: bool,
    reopen: Arc<AtomicBool>,
    /// Flushes what is queued when the output is dropped.
    _worker: WorkerGuard,
}

impl Output {
    /// Absent when the log is off; a file that cannot be opened is an error that names it.
    pub fn open(target: &Target, format: LogFormat) -> io::Result<Option<Self>> {
        let reopen = Arc::new(AtomicBool::new(false));
        let (output, terminal): (Box<dyn Write + Send>, bool) = match target {
            Target::Off => return Ok(None),
            Target::Stdout => (Box::new(io::stdout()), io::stdout().is_terminal()),
            Target::File(path) => (Box::new(ReopenedFile::open(path.clone(), reopen.clone())?), false),
        };
        let (sink, worker) = NonBlockingBuilder::default().buffered_lines_limit(QUEUE_LINES).lossy(true).finish(output);
        Ok(Some(Self { sink, json: is_json(format, terminal), reopen, _worker: worker }))
    }
}

impl AccessLog {
    pub fn new(output: Option<Output>) -> Self {
        Self(ArcSwapOption::new(output.map(Arc::new)))
    }

    /// Sends the lines from now on elsewhere; those that wait are written where they would have been.
    pub fn replace(&self, output: Option<Output>) {
        self.0.store(output.map(Arc::new));
    }

    /// Whether lines are written at all.
    pub fn is_on(&self) -> bool {
        self.0.load().is_some()
    }

    /// Opens the file anew.
    pub fn reopen(&self) {
        if let Some(output) = &*self.0.load() {
            output.reopen.store(true, Ordering::Release);
            // Nothing to write, but it wakes the writer, so that the new file is there before the next line.
            let _ = output.sink.clone().write(b"");
        }
    }

    /// Queues a line.
    pub fn write(&self, line: &Line<'_>) {
        let output = self.0.load();
        let Some(output) = &*output else { return };
        let mut text = Vec::with_capacity(512);
        let written = if output.json {
            serde_json::to_writer(&mut text, line).map_err(io::Error::from)
        } else {
            write_text(&mut text, line)
        };
        text.push(b'\n');
        if written.is_ok() {
            // A queue that is gone or full loses the line, never the request.
            let _ = output.sink.clone().write_all(&text);
        }
    }
}

/// Whether the format is JSON for an output that is or is not a terminal.
pub fn is_json(format: LogFormat, terminal: bool) -> bool {
    match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !terminal,
    }
}

/// `time=… request_id=… key=value …`, in the order of [`Line`] and without what does not apply. Values that need it are
/// quoted as in JSON, so that a line stays one line.
fn write_text(out: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let value = serde_json::to_value(line)?;
    let members = Line::MEMBERS.iter().map(|name| (name, &value[*name])).filter(|(_, value)| !value.is_null());
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        write!(out, "{name}=")?;
        match value.as_str() {
            Some(text) if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') => {
                out.extend_from_slice(text.as_bytes());
            }
            _ => serde_json::to_writer(&mut *out, value)?,
        }
    }
    Ok(())
}

/// The time of a line: RFC 3339, UTC, milliseconds.
pub fn time_text(at: Timestamp) -> String {
    let seconds = rfc3339(at);
    let millis = at.0.rem_euclid(1000);
    format!("{}.{millis:03}Z", seconds.trim_end_matches('Z'))
}

struct ReopenedFile {
    path: PathBuf,
    file: File,
    reopen: Arc<AtomicBool>,
}

impl ReopenedFile {
    fn open(path: PathBuf, reopen: Arc<AtomicBool>) -> io::Result<Self> {
        let file = append_to(&path)?;
        Ok(Self { path, file, reopen })
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    OpenOptions::new().append(true).create(true).open(path).map_err(named)
}

impl ReopenedFile {
    fn reopen_if_asked(&mut self) {
        if self.reopen.swap(false, Ordering::AcqRel) {
            // A file that cannot be opened again leaves the old one in use: better a rotated file than a lost line.
            match append_to(&self.path) {
                Ok(file) => self.file = file,
                Err(error) => {
                    tracing::error!(path = %self.path.display(), %error, "the access log is not opened again")
                }
            }
        }
    }
}

impl Write for ReopenedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reopen_if_asked();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.reopen_if_asked();
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> Line<'_> {
        Line {
            time: "2026-12-01T03:25:24.000Z",
            request_id: "r1",
            client_ip: None,
            consumer: None,
            key_id: None,
            tier: None,
            method: "GET",
            route: None,
            path,
            status: 200,
            bytes: 2,
            duration_ms: 0.5,
            upstream: None,
            upstream_ms: None,
            decision: "allowed",
            limit: None,
            cost: None,
            remaining: None,
            decided_at: None,
            error: None,
        }
    }

    #[test]
    fn b92_a_path_with_controls_stays_on_one_line_in_both_formats() {
        let mut text = Vec::new();
        write_text(&mut text, &line("/a\n\u{1b}[31m\"x")).unwrap();
        assert!(!text.contains(&b'\n') && !text.contains(&0x1b), "{}", String::from_utf8_lossy(&text));
        let json = serde_json::to_string(&line("/a\n\u{2028}")).unwrap();
        assert_eq!(json.lines().count(), 1);
    }

    #[test]
    fn both_formats_have_the_members_in_the_same_order() {
        let mut full = line("/a");
        (full.consumer, full.key_id, full.tier, full.route) = (Some("c"), Some("k"), Some("t"), Some("r"));
        (full.upstream, full.upstream_ms, full.limit) = (Some("u"), Some(1.5), Some("l"));
        (full.client_ip, full.cost, full.remaining) = (Some([127, 0, 0, 1].into()), Some(1.0), Some(3));
        (full.decided_at, full.error) = (Some("d"), Some("e"));
        let json = serde_json::to_string(&full).unwrap();
        let places: Vec<_> = Line::MEMBERS.iter().map(|name| json.find(&format!("\"{name}\":"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{json}");
        let mut text = Vec::new();
        write_text(&mut text, &full).unwrap();
        let text = String::from_utf8(text).unwrap();
        let names: Vec<_> = text.split(' ').filter_map(|pair| pair.split('=').next()).collect();
        assert_eq!(names, Line::MEMBERS);
    }

    #[test]
    fn a_reopened_file_goes_on_under_the_old_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let reopen = Arc::new(AtomicBool::new(false));
        let mut file = ReopenedFile::open(path.clone(), reopen.clone()).unwrap();
        file.write_all(b"one\n").unwrap();
        std::fs::rename(&path, folder.path().join("access.log.1")).unwrap();
        reopen.store(true, Ordering::Release);
        file.write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }
}
