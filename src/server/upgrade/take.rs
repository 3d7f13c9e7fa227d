//! The side of the process that takes over.
//!
//! It blocks: until it has everything this process serves nobody.

use super::{ADDRESS_BYTES, HELLO, MAX_SOCKETS, STEP_LIMIT, peer, read_address, set_limit, unexpected, word};
use crate::server::runtime_dir;
use crate::store::memory::MemoryStore;
use crate::store::memory::snapshot::Import;
use crate::time::Clock;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes read at once.
const READ_BUFFER: usize = 256 << 10;

/// The process before, still serving.
pub(in crate::server) struct Predecessor {
    stream: UnixStream,
    pub process: u32,
    sockets: Vec<(SocketAddr, TcpListener)>,
    was_asked: bool,
}

impl Predecessor {
    /// The process that answers in that directory, with its listening sockets; absent when none does.
    pub fn find(directory: &Path) -> io::Result<Option<Self>> {
        let mut stream = match UnixStream::connect(runtime_dir::socket_in(directory)) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        set_limit(&stream, STEP_LIMIT)?;
        let process = peer(&stream)?;
        stream.write_all(HELLO)?;
        let mut hello = [0; HELLO.len()];
        stream.read_exact(&mut hello)?;
        if hello != *HELLO {
            return Err(unexpected(
                "the running gateway has another version of the takeover: stop it and start this one",
            ));
        }
        let mut number = [0; 2];
        stream.read_exact(&mut number)?;
        let number = u16::from_le_bytes(number).min(MAX_SOCKETS);
        let sockets = (0..number).map(|_| receive_socket(&mut stream)).collect::<io::Result<_>>()?;
        Ok(Some(Self { stream, process, sockets, was_asked: false }))
    }

    /// Its socket of that address. Those that nobody asks for are closed with it.
    pub fn socket(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let place = self.sockets.iter().position(|(each, _)| *each == address)?;
        Some(self.sockets.swap_remove(place).1)
    }

    /// Its counters and a clock that goes on from its own; absent when it has none. From now on it decides nothing,
    /// so this is for when nothing else can fail any more.
    pub fn counters(&mut self, max_entries: usize) -> io::Result<Option<(MemoryStore, Clock)>> {
        if self.ask(word::TAKE_COUNTERS)? == word::NO_COUNTERS {
            return Ok(None);
        }
        let broken = |fault| io::Error::new(io::ErrorKind::InvalidData, format!("the counters: {fault}"));
        let import = Import::open(BufReader::with_capacity(READ_BUFFER, &self.stream)).map_err(broken)?;
        let clock = Clock::start_at_least(import.at);
        let store = import.restore(max_entries, clock.now()).map_err(broken)?;
        Ok(Some((store, clock)))
    }

    fn ask(&mut self, word: u8) -> io::Result<u8> {
        self.was_asked = true;
        self.stream.write_all(&[word])?;
        self.read_word()
    }

    /// Everything was taken. From the return on this process serves, and the other one drains.
    pub fn replace(mut self) -> io::Result<UnixStream> {
        if !self.was_asked {
            self.ask(word::TAKE_NONE)?;
        }
        self.stream.write_all(&[word::TAKEN])?;
        match self.read_word()? {
            word::GO => Ok(self.stream),
            _ => Err(unexpected("the running gateway did not let go")),
        }
    }

    fn read_word(&mut self) -> io::Result<u8> {
        let mut word = [0];
        let read = self.stream.read_exact(&mut word);
        read.map_err(|error| io::Error::new(error.kind(), format!("the running gateway did not let go: {error}")))?;
        Ok(word[0])
    }
}

fn receive_socket(stream: &mut UnixStream) -> io::Result<(SocketAddr, TcpListener)> {
    let mut bytes = [0; ADDRESS_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(&*stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            sockets.extend(passed);
        }
    }
    stream.read_exact(&mut bytes[received.bytes..])?;
    let address = read_address(&bytes).ok_or_else(|| unexpected("an address that is none"))?;
    let socket = sockets.pop().ok_or_else(|| unexpected("an address without its socket"))?;
    Ok((address, TcpListener::from(socket)))
}
