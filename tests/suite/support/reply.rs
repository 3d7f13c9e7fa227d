//! What a scripted upstream does with a request: a short list of steps, then an end.

use super::PATIENCE;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A door that a test opens: replies wait at it, so that a test never has to guess a time.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn closed() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        *self.0.0.lock().expect("no holder of the gate panics") = true;
        self.0.1.notify_all();
    }

    /// Returns when the gate is open, or at the end of everybody's patience.
    pub fn pass(&self) {
        let guard = self.0.0.lock().expect("no holder of the gate panics");
        drop(self.0.1.wait_timeout_while(guard, PATIENCE, |open| !*open));
    }
}

/// One thing to do while answering.
#[derive(Clone, Debug)]
pub enum Step {
    Write(Vec<u8>),
    Wait(Duration),
    Pass(Gate),
}

/// What becomes of the connection after the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    KeepAlive,
    Close,
    Reset,
    /// Stays open and says nothing until the peer leaves.
    Hang,
    /// Sends back each byte it gets.
    Echo,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub steps: Vec<Step>,
    pub end: End,
}

impl Reply {
    pub fn ok() -> Self {
        Self::status(200, &[], "ok")
    }

    pub fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self::raw(format!("{head}\r\n{body}"))
    }

    /// Bytes as they are.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { steps: vec![Step::Write(bytes.into())], end: End::KeepAlive }
    }

    /// The head alone, as to HEAD.
    pub fn head(length: usize) -> Self {
        Self::raw(format!("HTTP/1.1 200 Scripted\r\nContent-Length: {length}\r\n\r\n"))
    }

    /// No answer, but this end.
    pub fn only(end: End) -> Self {
        Self { steps: Vec::new(), end }
    }

    /// The parts as chunks, each after `pause`.
    pub fn drip(parts: &[&str], pause: Duration) -> Self {
        let mut steps = vec![Step::Write(b"HTTP/1.1 200 Scripted\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec())];
        for part in parts {
            steps.push(Step::Wait(pause));
            steps.push(Step::Write(format!("{:x}\r\n{part}\r\n", part.len()).into_bytes()));
        }
        steps.push(Step::Write(b"0\r\n\r\n".to_vec()));
        Self { steps, end: End::KeepAlive }
    }

    /// 101 at once, then an echo.
    pub fn upgrade() -> Self {
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        Self::raw(head).ending(End::Echo)
    }

    /// Waits before all else.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.steps.insert(0, Step::Wait(wait));
        self
    }

    /// Answers only once the gate is open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.steps.insert(0, Step::Pass(gate.clone()));
        self
    }

    /// Appends a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    #[must_use]
    pub fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}
