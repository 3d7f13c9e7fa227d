//! Certificate authorities that live for one test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority; two of them never trust each other.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are no wrong names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, key()).expect("the parameters are sound"))
    }

    /// Its certificate, as `ca_file` holds it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names and addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("the names are names");
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("the authority may sign");
        Identity { certificate: certificate.der().clone(), key: PrivateKeyDer::Pkcs8(key.serialize_der().into()) }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("there is randomness")
}
