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

/// A server without persistence on a free port; killed when dropped.
pub struct RedisServer {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl RedisServer {
    pub fn start() -> Self {
        let (port, directory) = (free_port(), tempfile::tempdir().expect("there is room for temporary files"));
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let server = Self { child, port, _directory: directory };
        wait_until("Redis listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("Redis listens");
        stream.set_nodelay(true).expect("a socket can be set up");
        Connection { reader: BufReader::new(stream) }
    }
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
