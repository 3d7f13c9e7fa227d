//! What Pingora asks of a connection beside its bytes: whose it is, how it is protected.

use super::stream::ClientStream;
use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest, UniqueID,
    UniqueIDType,
};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// Where a connection comes from and by which protocols.
#[derive(Debug)]
pub(super) struct Origin {
    pub socket: Arc<SocketDigest>,
    /// Absent in clear.
    pub tls: Option<Arc<SslDigest>>,
    pub is_http2: bool,
}

#[async_trait]
impl Shutdown for ClientStream {
    async fn shutdown(&mut self) {
        // A client that has gone already has nothing to be told.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for ClientStream {
    fn id(&self) -> UniqueIDType {
        self.socket.fd()
    }
}

impl Ssl for ClientStream {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.origin.tls.clone()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        Some(if self.origin.is_http2 { ALPN::H2 } else { ALPN::H1 })
    }
}

impl GetTimingDigest for ClientStream {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for ClientStream {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for ClientStream {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.origin.socket.clone())
    }
}

impl Peek for ClientStream {}
