//! The binary as a child process: run to its end, or kept running with its output captured.

use super::{PATIENCE, becomes_true};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_sluicegate");

/// What a run that ended said.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Both streams, for messages whose stream does not matter.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the program in a directory until it ends by itself.
#[track_caller]
pub fn run(directory: &Path, arguments: &[&str]) -> Finished {
    let mut running = Running::start(directory, arguments);
    let status = running.wait(PATIENCE).unwrap_or_else(|| panic!("{arguments:?} does not end: {}", running.output()));
    Finished { code: status.code(), stdout: running.stdout(), stderr: running.stderr() }
}

type Text = Arc<Mutex<String>>;

/// A child whose output is read as it comes; killed when dropped.
pub struct Running {
    child: Child,
    stdout: Text,
    stderr: Text,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Running {
    pub fn start(directory: &Path, arguments: &[impl AsRef<OsStr>]) -> Self {
        Self::start_in(directory, arguments, &[])
    }

    /// With variables beside those of the tests.
    pub fn start_in(directory: &Path, arguments: &[impl AsRef<OsStr>], environment: &[(String, String)]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let (stdout, stderr) = (Text::default(), Text::default());
        let readers = vec![
            collect(child.stdout.take().expect("it is piped"), &stdout),
            collect(child.stderr.take().expect("it is piped"), &stderr),
        ];
        Self { child, stdout, stderr, readers }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells resident memory");
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("it is a number")
    }

    /// Sends a signal by name: `HUP`, `TERM`, …
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).stderr(Stdio::null()).status();
        let _it_may_have_ended = status.expect("there is a shell");
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its exit status, once all its output was read; `None` when it still runs at the deadline.
    pub fn wait(&mut self, deadline: Duration) -> Option<ExitStatus> {
        if !becomes_true(deadline, || !self.is_running()) {
            return None;
        }
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader does not panic");
        }
        self.child.try_wait().expect("it is our child")
    }

    pub fn stdout(&self) -> String {
        self.stdout.lock().expect("the reader does not panic").clone()
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("the reader does not panic").clone()
    }

    pub fn output(&self) -> String {
        format!("{}{}", self.stdout(), self.stderr())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn collect(stream: impl Read + Send + 'static, into: &Text) -> thread::JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            into.lock().expect("no reader panics").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}
