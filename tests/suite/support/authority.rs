//! An authority of the test's own, and certificates that it signs, as PEM files.

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::path::PathBuf;

/// An authority; its files go away with it.
pub struct Authority {
    directory: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

/// The files of a certificate and its key.
pub struct Signed {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a bad one");
        params.distinguished_name.push(DnType::CommonName, format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the parameters are complete");
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("the directory is ours");
        Self { directory, issuer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file with its own certificate.
    pub fn file(&self) -> String {
        self.path("ca.pem").display().to_string()
    }

    /// Its certificate, as `ca_file` holds it.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names and addresses.
    pub fn issue(&self, subjects: &[&str]) -> Identity {
        let (certificate, key) = self.signed(subjects, None);
        Identity { certificate: certificate.der().clone(), key: PrivateKeyDer::Pkcs8(key.serialize_der().into()) }
    }

    /// The same as files of that name.
    pub fn sign(&self, name: &str, subjects: &[&str]) -> Signed {
        let (certificate, key) = self.signed(subjects, Some(name));
        let (certificate_path, key_path) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        fs::write(&certificate_path, certificate.pem()).expect("the directory is ours");
        fs::write(&key_path, key.serialize_pem()).expect("the directory is ours");
        Signed { certificate: certificate_path.display().to_string(), key: key_path.display().to_string() }
    }

    fn signed(&self, subjects: &[&str], name: Option<&str>) -> (Certificate, KeyPair) {
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let mut params = CertificateParams::new(subjects).expect("the names are good ones");
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are complete");
        (certificate, key)
    }
}
