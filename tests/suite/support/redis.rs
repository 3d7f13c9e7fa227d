//! A redis-server of the test's own, and as much of its protocol as the tests speak.

use super::{free_port, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// What a command answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    Error(String),
    List(Vec<Answer>),
}

impl Answer {
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        let Self::Bytes(bytes) = self else { panic!("not bytes: {self:?}") };
        bytes
    }

    #[track_caller]
    pub fn number(&self) -> i64 {
        let Self::Number(number) = self else { panic!("not a number: {self:?}") };
        *number
    }

    #[track_caller]
    pub fn list(&self) -> &[Answer] {
        let Self::List(list) = self else { panic!("not a list: {self:?}") };
        list
    }
}

/// A server without persistence; killed when dropped.
pub struct RedisServer {
    child: Child,
    pub port: u16,
    arguments: Vec<String>,
    directory: tempfile::TempDir,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With arguments of its own after the usual ones.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_on(free_port(), arguments)
    }

    pub fn start_on(port: u16, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_string()).collect();
        let child = spawn(port, &arguments, directory.path());
        let server = Self { child, port, arguments, directory };
        server.wait();
        server
    }

    fn wait(&self) {
        wait_until("Redis listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty, on its old port.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.arguments, self.directory.path());
        self.wait();
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("Redis listens");
        stream.set_nodelay(true).expect("a socket can be set up");
        Connection { reader: BufReader::new(stream) }
    }

    /// All keys.
    pub fn keys(&self) -> Vec<String> {
        let answer = self.connect().text(&["KEYS", "*"]);
        answer.list().iter().map(|key| String::from_utf8(key.bytes().to_vec()).expect("keys are text")).collect()
    }
}

fn spawn(port: u16, arguments: &[String], directory: &std::path::Path) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// One connection, one command after another.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Sends a command and reads its answer.
    pub fn call(&mut self, words: &[&[u8]]) -> Answer {
        self.send(words);
        self.receive()
    }

    /// As [`Self::call`], of text.
    pub fn text(&mut self, words: &[&str]) -> Answer {
        self.call(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    /// Sends a command alone, to be followed by others before the answers are read.
    pub fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&bytes).expect("Redis reads");
    }

    pub fn receive(&mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("Redis answers in text lines");
        let (kind, rest) = line.trim_end().split_at(1);
        let length = || rest.parse::<i64>().expect("lengths and numbers are decimal");
        match kind {
            "+" => Answer::Bytes(rest.as_bytes().to_vec()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Number(length()),
            "$" if length() < 0 => Answer::Nil,
            "$" => {
                let mut bytes = vec![0; usize::try_from(length()).expect("it is not negative") + 2];
                self.reader.read_exact(&mut bytes).expect("Redis sends what it announced");
                bytes.truncate(bytes.len() - 2);
                Answer::Bytes(bytes)
            }
            "*" if length() < 0 => Answer::Nil,
            "*" => Answer::List((0..length()).map(|_| self.receive()).collect()),
            _ => panic!("Redis says {line:?}"),
        }
    }
}
