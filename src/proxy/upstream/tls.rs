//! TLS towards a server: whose certificate is expected, and who may have signed it.

use crate::config::host_of;
use crate::config::model::UpstreamTls;
use crate::upstream::key_of;
use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::PeerOptions;
use pingora::utils::tls::WrappedX509;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// `tls` of an upstream, ready to be used.
pub struct Tls {
    server_name: Option<String>,
    authorities: Option<Arc<CaType>>,
    verify: bool,
    digest: u64,
}

impl Tls {
    pub fn new(written: &UpstreamTls) -> Result<Self, String> {
        let authorities = written.authorities.as_deref().map(parsed).transpose()?;
        let all = written.authorities.as_deref().unwrap_or_default().concat();
        Ok(Self {
            server_name: written.server_name.clone(),
            authorities,
            verify: written.verify,
            digest: key_of("authorities", &all),
        })
    }

    /// Tells apart whom connections were verified by: Pingora's pool looks at everything else, but not at that.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The name that is asked for and that the certificate must have. Never empty, for without a name Pingora takes any
    /// certificate.
    pub fn server_name<'a>(&'a self, address: &'a str) -> &'a str {
        self.server_name.as_deref().unwrap_or_else(|| host_of(address))
    }

    /// The name as configured, if it is.
    pub fn written_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    pub fn apply(&self, options: &mut PeerOptions) {
        options.ca.clone_from(&self.authorities);
        options.verify_cert = self.verify;
        options.verify_hostname = self.verify;
    }
}

fn parsed(authorities: &[Vec<u8>]) -> Result<Arc<CaType>, String> {
    let parse = |certificate: &Vec<u8>| {
        WrappedX509::try_new(certificate.clone(), |der| X509Certificate::from_der(der).map(|(_, parsed)| parsed))
    };
    let parsed: Result<Vec<_>, _> = authorities.iter().map(parse).collect();
    let parsed = parsed.map_err(|error| format!("a certificate of tls.ca_file cannot be read: {error}"))?;
    Ok(parsed.into())
}
