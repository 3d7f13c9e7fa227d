//! The connection to an upstream that may become a tunnel.
//!
//! Pingora 0.9 ends a tunnel at once when the upstream's 101 is read before the end of the request's empty body was sent on: both
//! are ready at the same time and it takes either first (pingora issue 946). A local upstream answers fast enough for that. So
//! for a request that asks for an upgrade, each write is followed by one read that says "not yet": in the meantime what is ready
//! to be sent is sent. Such connections have a pool of their own, which keeps the delay away from all others.

use async_trait::async_trait;
use pingora::connectors::L4Connect;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::protocols::l4::stream::Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Tells the pool of such connections from that of all others to the same server.
const POOL: u64 = u64::from_be_bytes(*b"upgrades");

/// Makes the connection to this server one that may become a tunnel.
pub fn prepare(peer: &mut HttpPeer) {
    let timeout = peer.options.connection_timeout;
    peer.group_key ^= POOL;
    peer.options.custom_l4 = Some(Arc::new(Patient { timeout }));
}

/// Connects as Pingora would.
#[derive(Debug)]
struct Patient {
    timeout: Option<Duration>,
}

#[async_trait]
impl L4Connect for Patient {
    async fn connect(&self, address: &SocketAddr) -> Result<Stream> {
        let failed = |kind, error: io::Error| Error::because(kind, "connecting for an upgrade", error);
        let SocketAddr::Inet(address) = address else {
            return Error::e_explain(ErrorType::SocketError, "an upstream has a network address");
        };
        let connecting = TcpStream::connect(*address);
        let connected = match self.timeout {
            Some(timeout) => tokio::time::timeout(timeout, connecting)
                .await
                .map_err(|_| Error::explain(ErrorType::ConnectTimedout, "connecting for an upgrade"))?,
            None => connecting.await,
        };
        let stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => failed(ErrorType::ConnectRefused, error),
            _ => failed(ErrorType::ConnectError, error),
        })?;
        Ok(VirtualSocketStream::new(Box::new(Socket { stream, has_written: false })).into())
    }
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    has_written: bool,
}

impl VirtualSocket for Socket {
    fn set_socket_option(&self, option: VirtualSockOpt) -> io::Result<()> {
        match option {
            VirtualSockOpt::NoDelay => self.stream.set_nodelay(true),
            _ => Ok(()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.has_written) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.has_written = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
