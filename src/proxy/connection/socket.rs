//! The bytes of a connection, in clear or under TLS, with a buffer in front of its writes.
//!
//! Pingora writes a response's header and its body one after the other and flushes at the end, so small writes are gathered
//! here and leave as one. The buffer exists only while something is in it: an idle connection has none.

use bytes::{Buf, BytesMut};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Writes up to this size wait for the next one or a flush.
const GATHERED_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub(super) struct Socket {
    transport: Transport,
    gathered: BytesMut,
}

impl Socket {
    pub fn new(transport: Transport) -> Self {
        Self { transport, gathered: BytesMut::new() }
    }

    pub fn fd(&self) -> RawFd {
        match &self.transport {
            Transport::Plain(stream) => stream.as_raw_fd(),
            Transport::Tls(stream) => stream.get_ref().0.as_raw_fd(),
        }
    }

    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buffer),
        }
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.gathered.len() + bytes.len() <= GATHERED_BYTES {
            self.gathered.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        loop {
            let gathered = self.gathered.len();
            if gathered == 0 {
                return self.transport.poll_write(cx, &[IoSlice::new(bytes)]);
            }
            let both = [IoSlice::new(&self.gathered), IoSlice::new(bytes)];
            let written = ready!(self.transport.poll_write(cx, &both))?;
            self.wrote(written.min(gathered))?;
            if written > gathered {
                return Poll::Ready(Ok(written - gathered));
            }
        }
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let written = ready!(self.transport.poll_write(cx, &[IoSlice::new(&self.gathered)]))?;
            self.wrote(written)?;
        }
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    /// Ends the sending half.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }

    fn wrote(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.gathered.advance(bytes);
        if self.gathered.is_empty() {
            self.gathered = BytesMut::new();
        }
        Ok(())
    }
}

impl Transport {
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, slices),
        }
    }
}
