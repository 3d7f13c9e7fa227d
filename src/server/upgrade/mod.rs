//! One process takes the place of another: listening sockets and counters go through a Unix socket, and no request notices.
//!
//! ```text
//! new                                        old
//! hello, version                       ──►
//!                                      ◄──   hello, version, number of sockets; then each socket with its address
//! (binds what is missing, opens stores)
//! take, with counters or without       ──►   seals its counters: what asks from now on waits
//!                                      ◄──   counters, or none
//! taken                                ──►
//!                                      ◄──   go: the counters are the new one's
//! accepts, decides                           drains; puts to the new one what it still has to decide
//! ```
//!
//! Until `go` the old one can take everything back, and does when the other leaves, fails or takes too long: its counters are as
//! they were sealed. From `go` on the new one alone decides. Both sides run as one user, and each asks the kernel who
//! the other is.

mod calls;
mod give;
mod take;

pub(super) use calls::serve;
pub(super) use give::{Offer, offer};
pub(super) use take::Predecessor;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What both sides begin with; the number at its end is the version of what follows.
const HELLO: &[u8; 20] = b"sluicegate upgrade 1";

/// The sockets that are passed at most; more are bound anew, or fail.
const MAX_SOCKETS: u16 = 4096;

/// An address as text, with zeros behind it.
const ADDRESS_BYTES: usize = 80;

/// How long the old process waits for the new one to be as good as ready, a shared store's first answer included.
const PREPARATION_LIMIT: Duration = Duration::from_secs(30);

/// How long one step may take while requests wait for it.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// What is said in one byte.
mod word {
    pub(super) const TAKE_COUNTERS: u8 = b'C';
    pub(super) const TAKE_NONE: u8 = b'N';
    pub(super) const COUNTERS: u8 = b'c';
    pub(super) const NO_COUNTERS: u8 = b'n';
    pub(super) const TAKEN: u8 = b'T';
    pub(super) const GO: u8 = b'G';
}

/// The process at the other end, which must belong to the same user, or to root.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let peer = socket_peercred(stream)?;
    if peer.uid == geteuid() || peer.uid.is_root() {
        Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
    } else {
        let text = format!("the other process belongs to user {}", peer.uid.as_raw());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

fn set_limit(stream: &UnixStream, limit: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn write_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let text = address.to_string();
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

fn read_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
    std::str::from_utf8(bytes).ok()?.trim_end_matches('\0').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_comes_back_as_it_was() {
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535";
        for text in ["0.0.0.0:1", "255.255.255.255:65535", "[::]:8080", longest] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(read_address(&write_address(address)), Some(address));
        }
        assert_eq!(read_address(&[0; ADDRESS_BYTES]), None);
        assert_eq!(read_address(&[b'x'; ADDRESS_BYTES]), None);
    }
}
