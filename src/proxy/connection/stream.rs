//! A client's connection as Pingora reads it: one request at a time, its head checked.
//!
//! Between the socket and Pingora's parser lies a buffer that knows where each request ends. Pingora is given a checked head
//! and the body that belongs to it, never a byte more: what a client pipelines behind stays here until the response is
//! complete, so that it can be taken neither for a body nor for the bytes of a tunnel that was never opened. Once the
//! upstream has agreed to switch protocols, and on HTTP/2, all bytes pass.
//!
//! Never done here: answering. A head that is refused is replaced by a harmless one, and the fault is told.

use super::pingora_io::Origin;
use super::socket::Socket;
use crate::request::chunks::Chunks;
use crate::request::head::{self, Fault, Framing, Head, HeadReader};
use crate::time::Stopwatch;
use bytes::{Buf, BytesMut};
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What is read from the socket at once while it is not known whose bytes they are.
const READ_BYTES: usize = 8192;

/// What a client may send ahead of a response; more waits in its own buffers.
const MAX_PIPELINED_BYTES: usize = 64 * 1024;

/// A body whose bytes come more slowly than this over all the time it was waited for, the body timeout not counted, is given up.
const MIN_BODY_BYTES_PER_SECOND: u64 = 128;

/// How long, and for how many bytes, a connection that ends with unread bytes is read on: closing at once would reset it
/// before the client has read the answer.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 1 << 20;

const BAD_CHUNKS: &str = "The chunks of the request body are not valid.";

/// What the connection and the request that runs on it tell each other.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Why a head or a body was refused; the connection ends with it.
    pub fault: OnceLock<Fault>,
    /// The upstream has agreed to switch protocols.
    pub tunnel: AtomicBool,
}

/// Whose bytes come next.
#[derive(Debug)]
enum Phase {
    /// Nobody's: the request is complete and its response is not.
    Complete,
    /// So many bytes of a head, which are in the buffer.
    Head(usize, Framing),
    Length(u64),
    Chunked(Chunks),
    /// All that come.
    Open,
}

/// One connection of a client.
#[derive(Debug)]
pub(super) struct ClientStream {
    pub socket: Socket,
    pub origin: Origin,
    pub exchange: Arc<Exchange>,
    /// Read and not yet given on.
    buffer: BytesMut,
    phase: Phase,
    body_timeout: Duration,
    waiting: Option<Stopwatch>,
    waited: Duration,
    body_bytes: u64,
    lingering: Option<Pin<Box<Sleep>>>,
    lingered_bytes: usize,
}

impl ClientStream {
    pub fn new(socket: Socket, origin: Origin, body_timeout: Duration) -> Self {
        Self {
            socket,
            origin,
            exchange: Arc::default(),
            buffer: BytesMut::new(),
            phase: Phase::Complete,
            body_timeout,
            waiting: None,
            waited: Duration::ZERO,
            body_bytes: 0,
            lingering: None,
            lingered_bytes: 0,
        }
    }

    /// What has come and was not given on.
    pub fn unread(&self) -> &[u8] {
        &self.buffer
    }

    /// Waits for more bytes; none at the end.
    pub async fn fill(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Lets all bytes pass from now on.
    pub fn open(&mut self) {
        self.phase = Phase::Open;
    }

    /// Reads the next request's head as far as it has come and makes it the next to be given on; false while it is not whole.
    pub fn take_head(&mut self, reader: &mut HeadReader, max_bytes: usize) -> bool {
        match reader.read(&self.buffer, max_bytes) {
            Ok(Some(head)) => self.give_on(&head),
            Err(fault) => {
                let head = head::stand_in(&self.buffer);
                self.buffer = BytesMut::from(&head[..]);
                self.phase = Phase::Head(head.len(), Framing::Length(0));
                self.exchange.fault.get_or_init(|| fault);
            }
            Ok(None) => return false,
        }
        true
    }

    /// Waits for the rest of a head; false at the end of the connection.
    pub async fn rest_of_head(&mut self, reader: &mut HeadReader, max_bytes: usize) -> io::Result<bool> {
        while self.fill().await? > 0 {
            if self.take_head(reader, max_bytes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees the buffer, which an idle connection does not need. Its capacity does not tell how large it is: what was given on
    /// is no longer counted, but still there.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    fn give_on(&mut self, head: &Head) {
        let mut length = head.bytes.len();
        self.buffer.advance(head.bytes.start);
        if let Some((authority, host)) = &head.authority {
            let skipped = head.bytes.start;
            let host = host.as_ref().map(|line| line.start - skipped..line.end - skipped);
            let bytes = with_host(&self.buffer, length, authority.start - skipped..authority.end - skipped, host);
            length = bytes.len() - (self.buffer.len() - length);
            self.buffer = bytes;
        }
        self.phase = Phase::Head(length, head.framing);
        (self.waiting, self.waited, self.body_bytes) = (None, Duration::ZERO, 0);
    }

    /// As [`Self::fill`].
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut scratch = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut read = ReadBuf::uninit(&mut scratch);
        ready!(self.socket.poll_read(cx, &mut read))?;
        self.buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Gives on at most `most` bytes, out of the buffer first; how many.
    fn poll_pass(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>, most: usize) -> Poll<io::Result<usize>> {
        let before = out.filled().len();
        if !self.buffer.is_empty() {
            let length = self.buffer.len().min(out.remaining()).min(most);
            out.put_slice(&self.buffer[..length]);
            self.buffer.advance(length);
        } else if most >= out.remaining() {
            ready!(self.socket.poll_read(cx, out))?;
        } else {
            let mut part = ReadBuf::new(out.initialize_unfilled_to(most));
            ready!(self.socket.poll_read(cx, &mut part))?;
            let length = part.filled().len();
            out.advance(length);
        }
        Poll::Ready(Ok(out.filled().len() - before))
    }

    /// Gives on the next bytes of a body; an end before the body's own is an error of the client's.
    fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = match &self.phase {
            Phase::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let before = out.filled().len();
        let polled = self.poll_pass(cx, out, most);
        if polled.is_pending() {
            self.waiting.get_or_insert_with(Stopwatch::start);
            return Poll::Pending;
        }
        let length = ready!(polled)?;
        if length == 0 {
            return Poll::Ready(Ok(()));
        }
        self.measure(length)?;
        match &mut self.phase {
            Phase::Length(left) => {
                *left -= length as u64;
                if *left == 0 {
                    self.phase = Phase::Complete;
                }
            }
            Phase::Chunked(chunks) => {
                let Ok(read) = chunks.read(&out.filled()[before..]) else {
                    self.exchange.fault.get_or_init(|| Fault::Invalid(BAD_CHUNKS));
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                };
                let end = before + read;
                if chunks.is_done() {
                    self.keep_back(&out.filled()[end..]);
                    out.set_filled(end);
                    self.phase = Phase::Complete;
                }
            }
            Phase::Complete | Phase::Head(..) | Phase::Open => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Puts bytes that belong to the next request in front of what was not given on yet.
    fn keep_back(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let rest = std::mem::replace(&mut self.buffer, BytesMut::from(bytes));
            self.buffer.extend_from_slice(&rest);
        }
    }

    /// Counts a body's bytes against the time that they were waited for.
    fn measure(&mut self, bytes: usize) -> io::Result<()> {
        self.body_bytes += bytes as u64;
        if let Some(waiting) = self.waiting.take() {
            self.waited += waiting.elapsed();
            let earned = Duration::from_secs(self.body_bytes / MIN_BODY_BYTES_PER_SECOND);
            if self.waited > self.body_timeout.saturating_add(earned) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// While a request is served: notices that the client has gone, and keeps what it sends ahead.
    fn poll_complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.buffer.len() < MAX_PIPELINED_BYTES {
            if ready!(self.poll_fill(cx))? == 0 {
                break;
            }
        }
        // An end behind requests that wait for their turn is not the end yet.
        if self.buffer.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Whether closing now would reset the connection under the answer: bytes are there that nobody reads, or are on the way.
    fn has_unread(&self) -> bool {
        let more_comes = match &self.phase {
            Phase::Open => false,
            Phase::Length(_) | Phase::Chunked(_) => true,
            Phase::Complete | Phase::Head(..) => !self.buffer.is_empty(),
        };
        more_comes || self.exchange.fault.get().is_some()
    }

    /// Reads on for a while and throws it away.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_TIME)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            self.buffer.clear();
            match ready!(self.poll_fill(cx)) {
                Ok(length) if length > 0 && self.lingered_bytes < LINGER_BYTES => self.lingered_bytes += length,
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl ClientStream {
    fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.phase {
            Phase::Open => self.poll_pass(cx, out, usize::MAX).map_ok(|_| ()),
            Phase::Head(left, framing) => {
                let length = (*left).min(out.remaining());
                out.put_slice(&self.buffer[..length]);
                self.buffer.advance(length);
                *left -= length;
                if *left == 0 {
                    self.phase = match *framing {
                        Framing::Length(0) => Phase::Complete,
                        Framing::Length(length) => Phase::Length(length),
                        Framing::Chunked => Phase::Chunked(Chunks::default()),
                    };
                }
                Poll::Ready(Ok(()))
            }
            Phase::Length(_) | Phase::Chunked(_) => self.poll_body(cx, out),
            Phase::Complete if self.exchange.tunnel.load(Ordering::Acquire) => {
                self.phase = Phase::Open;
                self.poll_pass(cx, out, usize::MAX).map_ok(|_| ())
            }
            Phase::Complete => self.poll_complete(cx),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = self.poll_next(cx, out);
        if polled.is_pending() {
            // Whoever waits for the client while an upstream takes its time must not keep the begin of a response from it. A
            // failure comes up again with the next write.
            let _ = self.socket.poll_flush(cx);
        }
        polled
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(self.socket.poll_shutdown(cx))?;
        }
        if self.has_unread() || self.lingering.is_some() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// The buffer with the request's Host line replaced: the authority of an absolute-form target counts, and whatever reads the
/// request behind must not see two.
fn with_host(buffer: &[u8], head: usize, authority: Range<usize>, host: Option<Range<usize>>) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(buffer.len() + authority.len() + 8);
    // The line goes first, right behind the request line.
    let request_line = memchr::memchr(b'\n', &buffer[..head]).map_or(head, |end| end + 1);
    bytes.extend_from_slice(&buffer[..request_line]);
    bytes.extend_from_slice(b"Host: ");
    bytes.extend_from_slice(&buffer[authority]);
    bytes.extend_from_slice(b"\r\n");
    let host = host.unwrap_or(request_line..request_line);
    bytes.extend_from_slice(&buffer[request_line..host.start]);
    bytes.extend_from_slice(&buffer[host.end..]);
    bytes
}
