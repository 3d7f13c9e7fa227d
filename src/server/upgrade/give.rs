//! The side of the process that is replaced.

use super::calls::pass_on;
use super::{
    ADDRESS_BYTES, HELLO, MAX_SOCKETS, PREPARATION_LIMIT, STEP_LIMIT, peer, set_limit, unexpected, word, write_address,
};
use crate::server::snapshot_file::SnapshotFile;
use crate::store::memory::snapshot::Export;
use crate::store::moving::{Call, Moving};
use crate::time::{Clock, Stopwatch};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;

/// A pause after the upgrade socket could not be accepted on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the process has to give.
pub(in crate::server) struct Offer {
    /// Gone once nobody accepts on them any more.
    pub sockets: Vec<(SocketAddr, Weak<TcpListener>)>,
    /// Absent when the counters are not in this process.
    pub counters: Option<Arc<Moving>>,
    pub file: Option<Arc<SnapshotFile>>,
    pub clock: Clock,
}

/// The process that took over.
struct Successor {
    process: u32,
    /// What it is still to decide for this one, and where to; absent when it did not get the counters.
    calls: Option<(mpsc::Receiver<Call>, UnixStream)>,
}

/// Offers everything, to one process after the other, until one has taken it, and says which.
pub(in crate::server) async fn offer(socket: UnixListener, offer: Offer) -> u32 {
    let offer = Arc::new(offer);
    loop {
        let stream = match socket.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept on the upgrade socket");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let offer = offer.clone();
        let given = tokio::task::spawn_blocking(move || {
            let mut stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            offer.give(&mut stream)
        });
        match given.await.map_err(io::Error::other).flatten() {
            Ok(Some(Successor { process, calls })) => {
                // Whatever else this process does, what it has to decide is decided there.
                calls.map(|(calls, stream)| tokio::spawn(pass_on(calls, stream)));
                return process;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "an upgrade failed: this process goes on as before"),
        }
    }
}

impl Offer {
    /// Absent when the other side only wanted to know whether anybody is here.
    fn give(&self, stream: &mut UnixStream) -> io::Result<Option<Successor>> {
        set_limit(stream, STEP_LIMIT)?;
        let process = peer(stream)?;
        let mut hello = [0; HELLO.len()];
        match stream.read_exact(&mut hello) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        stream.write_all(HELLO)?;
        if hello != *HELLO {
            return Err(unexpected("the new process speaks another version"));
        }
        tracing::info!(process, "another process is about to take over");
        self.give_sockets(stream)?;
        set_limit(stream, PREPARATION_LIMIT)?;
        let wanted = read_word(stream)?;
        set_limit(stream, STEP_LIMIT)?;
        let calls = match (&self.counters, wanted) {
            (Some(counters), word::TAKE_COUNTERS) => Some(self.give_counters(counters, stream)?),
            (_, word::TAKE_COUNTERS | word::TAKE_NONE) => {
                stream.write_all(&[word::NO_COUNTERS])?;
                self.conclude(stream)?;
                None
            }
            _ => return Err(unexpected("it asks for something unknown")),
        };
        let calls = calls.map(|calls| Ok::<_, io::Error>((calls, stream.try_clone()?))).transpose()?;
        Ok(Some(Successor { process, calls }))
    }

    fn give_sockets(&self, stream: &mut UnixStream) -> io::Result<()> {
        // A port that the system chose is nobody's by name.
        let named = self.sockets.iter().filter(|(address, _)| address.port() != 0);
        let open: Vec<_> = named.filter_map(|(address, socket)| Some((*address, socket.upgrade()?))).collect();
        let number = u16::try_from(open.len()).unwrap_or(u16::MAX).min(MAX_SOCKETS);
        stream.write_all(&number.to_le_bytes())?;
        for (address, socket) in open.iter().take(usize::from(number)) {
            send_socket(stream, *address, socket)?;
        }
        Ok(())
    }

    /// From the seal to the last word requests wait; any failure between gives them their counters back.
    fn give_counters(&self, counters: &Moving, stream: &mut UnixStream) -> io::Result<mpsc::Receiver<Call>> {
        // A write that is under way ends first; none may follow the one of the new process.
        let mut file_is_ours = self.file.as_ref().map(|file| file.hold());
        if !counters.pack() {
            return Err(unexpected("the counters are not here"));
        }
        let waiting = Stopwatch::start();
        match self.send_counters(counters, stream).and_then(|sent| self.conclude(stream).map(|()| sent)) {
            Ok(sent) => {
                if let Some(is_ours) = file_is_ours.as_deref_mut() {
                    *is_ours = false;
                }
                let calls = counters.gone();
                tracing::info!(counters = sent, ms = waiting.elapsed().as_millis(), "counters handed over");
                Ok(calls)
            }
            Err(error) => {
                counters.unpack();
                Err(error)
            }
        }
    }

    fn send_counters(&self, counters: &Moving, stream: &mut UnixStream) -> io::Result<u64> {
        stream.write_all(&[word::COUNTERS])?;
        let mut export = Export::new(counters.memory(), self.clock.now());
        let mut piece = Vec::new();
        while export.next(&mut piece) {
            stream.write_all(&piece)?;
        }
        Ok(export.records())
    }

    /// The new process has everything; the last word makes it the one that serves.
    fn conclude(&self, stream: &mut UnixStream) -> io::Result<()> {
        if read_word(stream)? != word::TAKEN {
            return Err(unexpected("it did not take everything"));
        }
        stream.write_all(&[word::GO])
    }
}

fn read_word(stream: &mut UnixStream) -> io::Result<u8> {
    let mut word = [0];
    let read = stream.read_exact(&mut word);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the new process gave up"),
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), "the new process took too long"),
        _ => error,
    })?;
    Ok(word[0])
}

fn send_socket(stream: &mut UnixStream, address: SocketAddr, socket: &TcpListener) -> io::Result<()> {
    let bytes: [u8; ADDRESS_BYTES] = write_address(address);
    let sockets = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("no room for a socket in a message"));
    }
    let sent = sendmsg(&stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&bytes[sent..])
}
