//! The access log: one line a request, JSON or text.
//!
//! Lines go to a bounded queue that a thread of its own writes, so that a slow disk never slows a request; when the
//! queue is full lines are dropped and counted by the writer. A line holds no key and no query value. The file is
//! opened again when [`AccessLog::reopen`] was called, for log rotation.

use crate::algorithm::calendar::rfc3339;
use crate::config::model::{AccessLog as Target, LogFormat};
use crate::time::Timestamp;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 65_536;

/// What a line says. Absent members are left out.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub time: &'a str,
    pub request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<std::net::IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<&'a str>,
    pub method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<&'a str>,
    /// The path as forwarded, query values masked.
    pub path: &'a str,
    pub status: u16,
    pub bytes: usize,
    pub duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ms: Option<f64>,
    pub decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

/// Where lines go.
pub struct AccessLog {
    sink: Option<NonBlocking>,
    json: bool,
    reopen: Arc<AtomicBool>,
    /// Flushes what is queued when the log is dropped.
    _worker: Option<WorkerGuard>,
}

impl AccessLog {
    /// Opens the log; a file that cannot be opened is an error that names it.
    pub fn open(target: &Target, format: LogFormat) -> io::Result<Self> {
        let reopen = Arc::new(AtomicBool::new(false));
        let (output, terminal): (Box<dyn Write + Send>, bool) = match target {
            Target::Off => return Ok(Self { sink: None, json: false, reopen, _worker: None }),
            Target::Stdout => (Box::new(io::stdout()), io::stdout().is_terminal()),
            Target::File(path) => (Box::new(ReopenedFile::open(path.clone(), reopen.clone())?), false),
        };
        let (sink, worker) = NonBlockingBuilder::default().buffered_lines_limit(QUEUE_LINES).lossy(true).finish(output);
        Ok(Self { sink: Some(sink), json: is_json(format, terminal), reopen, _worker: Some(worker) })
    }

    /// Whether lines are written at all.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Opens the file anew.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        if let Some(sink) = &self.sink {
            // Nothing to write, but it wakes the writer, so that the new file is there before the next line.
            let _ = sink.clone().write(b"");
        }
    }

    /// Queues a line.
    pub fn write(&self, line: &Line<'_>) {
        let Some(sink) = &self.sink else { return };
        let mut text = Vec::with_capacity(512);
        let written = if self.json {
            serde_json::to_writer(&mut text, line).map_err(io::Error::from)
        } else {
            write_text(&mut text, line)
        };
        text.push(b'\n');
        if written.is_ok() {
            // A queue that is gone or full loses the line, never the request.
            let _ = sink.clone().write_all(&text);
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

/// `time method path status key=value …`; values that need it are quoted as in JSON, so that a line stays one line.
fn write_text(out: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let value = serde_json::to_value(line)?;
    let members = value.as_object().into_iter().flatten();
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

fn append_to(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
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
