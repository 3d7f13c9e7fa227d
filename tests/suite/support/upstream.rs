//! A scripted HTTP/1.1 server that keeps every request as the bytes it was.

use super::client;
use super::reply::{End, Reply, Step};
use super::wire::{self, Framing, Headers};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which connection it came on, from 0.
    pub connection: usize,
    pub at: Instant,
    pub method: String,
    pub target: String,
    pub headers: Headers,
    /// The head, byte for byte.
    pub head: Vec<u8>,
    /// The body without its chunk framing.
    pub body: Vec<u8>,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::find(&self.headers, name)
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        wire::find_all(&self.headers, name)
    }

    pub fn head_text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }
}

type Handler = Box<dyn Fn(&Recorded) -> Reply + Send + Sync>;

struct Shared {
    handler: Handler,
    requests: Mutex<Vec<Recorded>>,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

/// The server; it stops when dropped.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    /// Answers every request with 200 and the body `ok`.
    pub fn ok() -> Self {
        Self::new(|request| if request.method == "HEAD" { Reply::head(2) } else { Reply::ok() })
    }

    pub fn new(handler: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests that were read whole.
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.locked().clone()
    }

    /// The latest request.
    #[track_caller]
    pub fn last(&self) -> Recorded {
        self.locked().last().cloned().expect("the upstream got a request")
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Whether any request had this text in its head or its body.
    pub fn saw(&self, text: &str) -> bool {
        let within = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        self.locked().iter().any(|request| within(&request.head) || within(&request.body))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Recorded>> {
        self.shared.requests.lock().expect("nothing panics while it holds the list")
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let _peer_may_leave_at_any_time = serve(stream, connection, &shared);
        });
    }
}

fn serve(stream: TcpStream, connection: usize, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(head) = wire::read_head(&mut reader)? {
        let recorded = read_request(&mut reader, connection, head)?;
        let reply = (shared.handler)(&recorded);
        shared.requests.lock().expect("nothing panics while it holds the list").push(recorded);
        play(reader.get_mut(), &reply.steps)?;
        match reply.end {
            End::KeepAlive => {}
            End::Close => return Ok(()),
            End::Reset => {
                client::reset(reader.into_inner());
                return Ok(());
            }
            End::Hang => return hang(reader.into_inner(), shared),
            End::Echo => return echo(&mut reader),
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>, connection: usize, head: Vec<u8>) -> io::Result<Recorded> {
    let (first, headers) = wire::parse_head(&head);
    let mut words = first.split(' ').map(str::to_string);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if wire::find(&headers, "expect").is_some() {
        reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = wire::read_body(reader, wire::framing(&headers, Framing::Length(0)))?;
    Ok(Recorded { connection, at: Instant::now(), method, target, headers, head, body })
}

fn play(stream: &mut TcpStream, steps: &[Step]) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Write(bytes) => stream.write_all(bytes)?,
            Step::Wait(wait) => thread::sleep(*wait),
            Step::Pass(gate) => gate.pass(),
        }
    }
    Ok(())
}

fn hang(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut scratch = [0; 1024];
    while !shared.stopped.load(Ordering::SeqCst) {
        match stream.read(&mut scratch) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn echo(reader: &mut BufReader<TcpStream>) -> io::Result<()> {
    let mut scratch = [0; 4096];
    loop {
        let read = reader.read(&mut scratch)?;
        if read == 0 {
            return Ok(());
        }
        reader.get_mut().write_all(&scratch[..read])?;
    }
}
