//! Servers that are not Redis, or stand before one: one that answers what a test says, and a relay that can go silent, slow or away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often a silent connection looks whether its test is over.
const SILENCE_POLL: Duration = Duration::from_millis(20);

/// What the stub does about a command.
pub enum Reaction {
    Answer(Vec<u8>),
    AnswerAndClose(Vec<u8>),
    /// After it nothing, whatever comes.
    AnswerAndSilence(Vec<u8>),
}

/// Takes connections on a port of its own until it is dropped.
struct Listener {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Listener {
    fn start(mut accepted: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are ports left");
        let address = listener.local_addr().expect("it is bound");
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    accepted(stream);
                }
            }
        });
        Self { address, over }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _wakes_the_thread = TcpStream::connect(self.address);
    }
}

/// A server that speaks as much of the protocol as a test says.
pub struct StubRedis {
    listener: Listener,
    /// When each connection was taken.
    pub accepted: Arc<Mutex<Vec<Instant>>>,
}

impl StubRedis {
    /// With what to do about each command but those that a client begins with.
    pub fn start(react: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> Self {
        let react = Arc::new(react);
        Self::accepting(move |stream| {
            let react = react.clone();
            thread::spawn(move || converse(stream, &*react));
        })
    }

    /// Takes connections and closes each at once.
    pub fn closing() -> Self {
        Self::accepting(drop)
    }

    fn accepting(mut taken: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let noted = accepted.clone();
        let listener = Listener::start(move |stream| {
            noted.lock().expect("no holder panics").push(Instant::now());
            taken(stream);
        });
        Self { listener, accepted }
    }

    pub fn url(&self) -> String {
        format!("redis://{}/0", self.listener.address)
    }
}

fn converse(stream: TcpStream, react: &dyn Fn(&str) -> Reaction) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    let mut silent = false;
    while let Some(command) = read_command(&mut reader) {
        if silent {
            continue;
        }
        let reaction = match command.as_str() {
            "CLIENT" | "AUTH" | "SELECT" => Reaction::Answer(b"+OK\r\n".to_vec()),
            "TIME" => Reaction::Answer(b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n".to_vec()),
            command => react(command),
        };
        let (bytes, close) = match reaction {
            Reaction::Answer(bytes) => (bytes, false),
            Reaction::AnswerAndClose(bytes) => (bytes, true),
            Reaction::AnswerAndSilence(bytes) => {
                silent = true;
                (bytes, false)
            }
        };
        if writer.write_all(&bytes).is_err() || close {
            let _both_ways = writer.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// The name of the next command; its arguments are read and left.
fn read_command(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut name = None;
    for _ in 0..number(reader)? {
        let mut bytes = vec![0; number(reader)? + 2];
        reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(bytes.len() - 2);
        name.get_or_insert(String::from_utf8_lossy(&bytes).to_uppercase());
    }
    name
}

/// The number of a line such as `*3` or `$5`.
fn number(reader: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().get(1..)?.parse().ok()
}

/// Bytes both ways between the gateway and a real server, as long as it is told nothing else.
pub struct Relay {
    listener: Listener,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    accepted: AtomicUsize,
    /// Connections before this one pass nothing on, and are not closed.
    silent_before: AtomicUsize,
    /// How long each piece of an answer is held.
    delay_ms: AtomicU64,
    /// Whether new connections are closed at once.
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Relay {
    pub fn to(port: u16) -> Self {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let listener = Listener::start(move |near| {
            let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
            if shared.cut.load(Ordering::Relaxed) {
                return;
            }
            let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { return };
            for (from, to, is_answer) in [(&near, &far, false), (&far, &near, true)] {
                from.set_nodelay(true).expect("a socket can be set up");
                let ends = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                let (from, to) = ends.expect("there are descriptors left");
                let state = shared.clone();
                thread::spawn(move || pass_on(from, to, is_answer, number, &state));
            }
            shared.open.lock().expect("no holder panics").extend([near, far]);
        });
        Self { listener, state }
    }

    pub fn url(&self) -> String {
        format!("redis://{}/0", self.listener.address)
    }

    /// What is connected now never hears of the server again, and is not told: its host has gone. New connections work.
    pub fn silence_what_is_connected(&self) {
        self.state.silent_before.store(self.state.accepted.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub fn delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).expect("delays of tests are short");
        self.state.delay_ms.store(delay, Ordering::Relaxed);
    }

    /// Closes everything, and each new connection at once.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
        for stream in self.state.open.lock().expect("no holder panics").drain(..) {
            let _it_may_be_closed = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn restore(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, is_answer: bool, number: usize, state: &State) {
    let mut bytes = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        while number < state.silent_before.load(Ordering::Relaxed) {
            // Nor does it read any more.
            if state.cut.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(SILENCE_POLL);
        }
        let delay = if is_answer { state.delay_ms.load(Ordering::Relaxed) } else { 0 };
        thread::sleep(Duration::from_millis(delay));
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _both_ways = to.shutdown(Shutdown::Both);
}
