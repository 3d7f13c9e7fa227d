//! How fast `replay` decides a log of a stated make, and the most memory it takes: `cargo bench --bench replay -- LINES`.
//!
//! The log (the gateway's own JSON, and the combined format) is written to a temporary file first, which is not timed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]

#[path = "../suite/replay/traffic.rs"]
mod traffic;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use traffic::{Form, Traffic};

const LINES: u64 = 1_000_000;

/// Limits of three layers, as an ordinary gateway has them.
const CONFIGURATION: &str = r#"
[client_ip]
limits = [{ name = "ip-s", rate = "5/s" }, { name = "ip-hour", rate = "300/h" }]
[upstreams.api]
servers = ["127.0.0.1:9000"]
[tiers.anonymous]
limits = [{ name = "anonymous-day", algorithm = "fixed_window", rate = "2000/day" }]
[[routes]]
match = "POST /api/export"
cost = 5
limits = [{ name = "export", algorithm = "token_bucket", rate = "60/h", burst = 20 }]
[[routes]]
match = "GET /api/items/:id"
[[routes]]
match = "*"
"#;

fn main() {
    let lines = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(LINES);
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    fs::write(directory.path().join("sluicegate.toml"), CONFIGURATION).expect("the directory is ours");
    for form in [Form::Json, Form::Combined] {
        let log = directory.path().join("access.log");
        let traffic = Traffic { lines, start_ms: 1_796_083_200_000, span_ms: 86_400_000, callers: 100_000 };
        let mut out = BufWriter::new(fs::File::create(&log).expect("the directory is ours"));
        traffic.write(form, &mut out).and_then(|()| out.flush()).expect("there is room for the log");
        let bytes = fs::metadata(&log).expect("it was written").len();
        let (took, peak_kib) = measure(directory.path());
        let rate = lines as f64 / took.as_secs_f64();
        println!(
            "{form:?}: {lines} lines, {} MiB: {:.1} s, {rate:.0} lines a second, {} MiB at most",
            bytes >> 20,
            took.as_secs_f64(),
            peak_kib / 1024
        );
    }
}

/// Time and peak memory of a replay.
fn measure(directory: &Path) -> (Duration, u64) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["replay", "-c", "sluicegate.toml", "access.log"])
        .current_dir(directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("the program was built");
    let mut peak_kib = 0;
    loop {
        // The high-water mark only grows; after the end there is none.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        peak_kib = mark.unwrap_or(0).max(peak_kib);
        if let Some(status) = child.try_wait().expect("it is our child") {
            assert!(status.success(), "the replay ended with {status}");
            return (start.elapsed(), peak_kib);
        }
        sleep(Duration::from_millis(20));
    }
}
