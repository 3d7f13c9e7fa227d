//! A Redis server of the benchmark's own, and one connection over which commands are pipelined.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often a start is looked at, and how long after the last time.
const ATTEMPTS: usize = 2000;
const PAUSE: Duration = Duration::from_millis(10);

/// A server without persistence; killed when dropped.
pub struct Server {
    child: Child,
    connection: BufReader<TcpStream>,
    _directory: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let address = free.expect("a port is free");
        let child = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let connected = (0..ATTEMPTS).find_map(|_| {
            std::thread::sleep(PAUSE);
            TcpStream::connect(address).ok()
        });
        let stream = connected.expect("Redis listens");
        stream.set_nodelay(true).expect("a socket can be set up");
        Self { child, connection: BufReader::new(stream), _directory: directory }
    }

    /// Sends commands that are encoded already, and hands each of that many replies over: of a string its bytes, else
    /// the line.
    pub fn pipeline(&mut self, commands: &[u8], count: usize, mut each: impl FnMut(&[u8])) {
        self.connection.get_mut().write_all(commands).expect("Redis reads");
        let mut reply = Vec::new();
        for _ in 0..count {
            self.reply(&mut reply);
            each(&reply);
        }
    }

    fn reply(&mut self, into: &mut Vec<u8>) {
        into.clear();
        self.connection.read_until(b'\n', into).expect("Redis answers");
        let line = std::str::from_utf8(into).expect("a reply begins with a line").trim_end();
        assert!(!line.starts_with('-'), "{line}");
        let length = || line[1..].parse::<i64>().ok().and_then(|length| usize::try_from(length).ok());
        match line.as_bytes().first() {
            Some(b'$') => {
                let length = length().expect("it is there");
                into.resize(length + 2, 0);
                self.connection.read_exact(into).expect("Redis answers");
                into.truncate(length);
            }
            Some(b'*') => {
                let items = length().expect("it is there");
                (0..items).for_each(|_| self.reply(into));
            }
            _ => {}
        }
    }

    /// One command's reply, as text.
    pub fn ask(&mut self, words: &[&[u8]]) -> String {
        let (mut command, mut answer) = (Vec::new(), String::new());
        encode(&mut command, words);
        self.pipeline(&command, 1, |reply| answer = String::from_utf8_lossy(reply).into_owned());
        answer
    }

    /// A field of `INFO`.
    pub fn info(&mut self, field: &str) -> String {
        let text = self.ask(&[b"INFO", b"everything"]);
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("INFO has no {field}")).to_owned()
    }

    /// Microseconds of processor that the server has used.
    pub fn cpu_us(&mut self) -> f64 {
        let text = self.ask(&[b"INFO", b"cpu"]);
        let fields = ["used_cpu_sys:", "used_cpu_user:"];
        let seconds = fields.iter().filter_map(|field| text.lines().find_map(|line| line.strip_prefix(field)));
        seconds.map(|seconds| seconds.parse::<f64>().expect("a number") * 1e6).sum()
    }

    pub fn load(&mut self, script: &str) -> String {
        self.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}

/// Appends a command in the protocol of Redis.
pub fn encode(into: &mut Vec<u8>, words: &[&[u8]]) {
    into.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        into.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}
