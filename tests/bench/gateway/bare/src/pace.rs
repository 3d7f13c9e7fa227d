//! Requests at a steady rate, and how long each took from the instant at which it was due.
//!
//! `pace PORT RATE SECONDS CONNECTIONS`, one JSON object on the output. A request that finds every connection busy waits, and
//! its time runs, so that a server that stalls cannot hide the queue it made.

#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Keys that take turns; `compare.py` gives the gateway as many.
const KEYS: usize = 1000;

/// How long after the last request answers are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

struct Connection {
    stream: TcpStream,
    /// When the request in flight was due.
    due: Option<Instant>,
    come: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, due: None, come: Vec::with_capacity(4096) })
    }

    fn send(&mut self, due: Instant, index: usize) -> std::io::Result<()> {
        let key = index % KEYS;
        write!(self.stream, "GET /api/x HTTP/1.1\r\nHost: bench.test\r\nX-API-Key: key-{key:016}\r\n\r\n")?;
        self.due = Some(due);
        Ok(())
    }

    /// Reads what has come; whether the answer is complete, and then whether it was a 200.
    fn receive(&mut self) -> std::io::Result<Option<bool>> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.come.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let Some((length, good)) = complete(&self.come) else { return Ok(None) };
        self.come.drain(..length);
        Ok(Some(good))
    }
}

/// The length of a whole answer with a `Content-Length`, and whether it is a 200.
fn complete(come: &[u8]) -> Option<(usize, bool)> {
    let head = come.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&come[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or(0);
    (come.len() >= end).then(|| (end, text.starts_with("HTTP/1.1 200")))
}

struct Run {
    connections: Vec<Connection>,
    step: Duration,
    started: Instant,
    total: usize,
    sent: usize,
    micros: Vec<u64>,
    bad: usize,
}

impl Run {
    fn due(&self, index: usize) -> Instant {
        self.started + self.step * u32::try_from(index).expect("a bounded run")
    }

    fn go(&mut self) -> std::io::Result<()> {
        let give_up = self.due(self.total) + PATIENCE;
        let mut waiting = VecDeque::new();
        while self.micros.len() < self.total && Instant::now() < give_up {
            while self.sent + waiting.len() < self.total && self.due(self.sent + waiting.len()) <= Instant::now() {
                waiting.push_back(self.due(self.sent + waiting.len()));
            }
            for connection in self.connections.iter_mut().filter(|connection| connection.due.is_none()) {
                let Some(due) = waiting.pop_front() else { break };
                connection.send(due, self.sent)?;
                self.sent += 1;
            }
            // The connections take turns.
            self.connections.rotate_left(1);
            let next = self.sent + waiting.len();
            let wait = if next < self.total { self.due(next) - Instant::now() } else { Duration::from_millis(50) };
            self.receive(wait)?;
        }
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> std::io::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut descriptors: Vec<_> =
            self.connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
        poll(&mut descriptors, Some(&timeout))?;
        let ready: Vec<bool> = descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        for (connection, _) in self.connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if let Some(good) = connection.receive()?
                && let Some(due) = connection.due.take()
            {
                self.micros.push(u64::try_from(due.elapsed().as_micros()).expect("a bounded run"));
                self.bad += usize::from(!good);
            }
        }
        Ok(())
    }
}

fn main() -> std::io::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [port, rate, seconds, connections] = numbers[..] else {
        eprintln!("usage: pace PORT RATE SECONDS CONNECTIONS");
        std::process::exit(2);
    };
    // A wait ends when it should, not up to 50 microseconds later.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
    let port = u16::try_from(port).expect("a port");
    let mut run = Run {
        connections: (0..connections).map(|_| Connection::open(port)).collect::<Result<_, _>>()?,
        step: Duration::from_nanos(1_000_000_000 / rate),
        started: Instant::now() + Duration::from_millis(20),
        total: usize::try_from(rate * seconds).expect("a bounded run"),
        sent: 0,
        micros: Vec::new(),
        bad: 0,
    };
    run.go()?;
    run.micros.sort_unstable();
    let at =
        |share: f64| run.micros.get((run.micros.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0);
    let (count, bad) = (run.micros.len(), run.bad);
    println!(
        "{{\"n\":{count},\"bad\":{bad},\"p50_us\":{},\"p99_us\":{},\"p999_us\":{}}}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
    Ok(())
}
