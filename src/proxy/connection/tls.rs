//! TLS towards clients: certificates chosen by name, exchanged while running.
//!
//! The handshake is ours and not Pingora's, whose rustls listener takes one certificate and never another
//! (docs/decisions/0008). Each handshake asks the snapshot in force for a certificate, so a reload renews them and touches no
//! open connection. TLS 1.2 and 1.3; sessions are resumed by tickets, whose keys live and rotate in memory only.

use crate::config::model::TlsListener;
use pingora::protocols::tls::SslDigest;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, ServerConnection};
use rustls::sign::CertifiedKey;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What ALPN calls the protocols (RFC 7301), the preferred first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// The certificates of one listener.
#[derive(Debug)]
pub struct Certificates {
    /// By the names they are for, in lower case; a wildcard as `*.example.com`.
    by_name: HashMap<String, Arc<CertifiedKey>>,
    /// For clients that name no host, or one that no certificate is for.
    first: Arc<CertifiedKey>,
}

impl Certificates {
    /// Those of each address, as configured: the first of an address is its default, and the first for a name wins.
    pub fn by_listener(listeners: &[TlsListener]) -> BTreeMap<SocketAddr, Self> {
        let mut found = BTreeMap::new();
        for listener in listeners {
            let certificates = found
                .entry(listener.listen)
                .or_insert_with(|| Self { by_name: HashMap::new(), first: listener.pair.clone() });
            for name in names(&listener.pair) {
                certificates.by_name.entry(name).or_insert_with(|| listener.pair.clone());
            }
        }
        found
    }

    /// A name of its own beats a wildcard, which stands for one label (RFC 9525, section 6.3).
    fn choose(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let wildcard = || self.by_name.get(&format!("*{}", &name[name.find('.')?..]));
            self.by_name.get(&name).or_else(wildcard)
        });
        found.unwrap_or(&self.first)
    }
}

fn names(pair: &CertifiedKey) -> Vec<String> {
    let certificate = pair.cert.first().and_then(|leaf| webpki::EndEntityCert::try_from(leaf).ok());
    certificate.iter().flat_map(|certificate| certificate.valid_dns_names()).map(str::to_ascii_lowercase).collect()
}

/// Finds the certificates in force.
pub type Current = dyn Fn(&dyn Fn(&Certificates) -> Arc<CertifiedKey>) -> Option<Arc<CertifiedKey>> + Send + Sync;

/// Asks for each handshake.
struct ByName(Box<Current>);

impl fmt::Debug for ByName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ByName")
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.0)(&|certificates| certificates.choose(hello.server_name()).clone())
    }
}

/// What does the handshakes of one listener. `current` finds its certificates in the snapshot in force.
pub fn acceptor(current: Box<Current>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(ByName(current)));
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    config.ticketer = ring::Ticketer::new()?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub(super) fn agreed_on_http2(session: &ServerConnection) -> bool {
    session.alpn_protocol() == Some(HTTP2)
}

/// What Pingora keeps of a handshake; that there is one says that a request came by TLS.
pub(super) fn digest(session: &ServerConnection) -> Arc<SslDigest> {
    let cipher = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or_default();
    let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or_default();
    Arc::new(SslDigest::new(cipher, version, None, None, Vec::new()))
}
