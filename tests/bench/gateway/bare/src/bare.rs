//! The least that a proxy made of Pingora does: take a request, hand it to the one server there is, give back its answer.
//!
//! `bare LISTEN UPSTREAM`, on one thread. No logic of any kind, so that what a gateway costs beside it is the gateway's own.

#![forbid(unsafe_code)]

use async_trait::async_trait;
use pingora::Result;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use std::net::SocketAddr;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As many as the gateway keeps: a pool that is too small makes a connection for every other request.
const UPSTREAM_POOL_CONNECTIONS: usize = 65_536;

struct Bare {
    upstream: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _context: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: bare LISTEN UPSTREAM");
        std::process::exit(2);
    };
    let upstream = upstream.parse().expect("the upstream is an address with a port");
    let conf =
        ServerConf { threads: 1, upstream_keepalive_pool_size: UPSTREAM_POOL_CONNECTIONS, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare { upstream });
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever();
}
