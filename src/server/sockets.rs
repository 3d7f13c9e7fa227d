//! The listening sockets: bound here, or taken over from the process before.

use super::upgrade::Predecessor;
use crate::config::model::Config;
use crate::proxy::connection::{self, Certificates};
use crate::proxy::snapshot::Live;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

/// Connections that the kernel may hold before they are accepted.
const LISTEN_BACKLOG: u32 = 4096;

/// A listening socket.
pub(super) struct Socket {
    /// As the configuration has it.
    pub address: SocketAddr,
    pub socket: Arc<TcpListener>,
    /// What does its handshakes; absent in clear.
    pub tls: Option<TlsAcceptor>,
}

/// All listening sockets of the gateway.
pub(super) struct Sockets {
    pub clients: Vec<Socket>,
    pub admin: Socket,
}

impl Sockets {
    /// Those of the configuration, whether the process before has them already or not.
    pub fn open(config: &Config, live: &Arc<Live>, predecessor: &mut Option<Predecessor>) -> io::Result<Self> {
        let mut open = |address: SocketAddr, tls| {
            let taken = predecessor.as_mut().and_then(|before| before.socket(address));
            let socket = taken.map_or_else(|| bind(address), TcpListener::from_std)?;
            Ok(Socket { address, socket: Arc::new(socket), tls })
        };
        let plain = config.server.listen.iter().map(|address| open(*address, None));
        let mut clients = plain.collect::<io::Result<Vec<_>>>()?;
        // Listeners of one address are one, with several certificates.
        let secure: BTreeSet<SocketAddr> = config.server.tls.iter().map(|listener| listener.listen).collect();
        for address in secure {
            clients.push(open(address, Some(acceptor(address, live.clone())?))?);
        }
        Ok(Self { clients, admin: open(config.admin.listen, None)? })
    }

    /// What may be passed on to the next process, without keeping anything open.
    pub fn names(&self) -> Vec<(SocketAddr, Weak<TcpListener>)> {
        let all = self.clients.iter().chain([&self.admin]);
        all.map(|socket| (socket.address, Arc::downgrade(&socket.socket))).collect()
    }
}

fn acceptor(address: SocketAddr, live: Arc<Live>) -> io::Result<TlsAcceptor> {
    let current = move |choose: &dyn Fn(&Certificates) -> _| live.load().certificates.get(&address).map(choose);
    connection::acceptor(Box::new(current)).map_err(io::Error::other)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(named)?;
    socket.set_reuseaddr(true).map_err(named)?;
    socket.bind(address).map_err(named)?;
    socket.listen(LISTEN_BACKLOG).map_err(named)
}
