//! An authority of the test's own, and certificates that it signs, as PEM files.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::path::PathBuf;

/// An authority; its files go away with it.
pub struct Authority {
    directory: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
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

    /// A certificate for these names and addresses.
    pub fn sign(&self, name: &str, subjects: &[&str]) -> Signed {
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let mut params = CertificateParams::new(subjects).expect("the names are good ones");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are complete");
        let (certificate_path, key_path) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        fs::write(&certificate_path, certificate.pem()).expect("the directory is ours");
        fs::write(&key_path, key.serialize_pem()).expect("the directory is ours");
        Signed { certificate: certificate_path.display().to_string(), key: key_path.display().to_string() }
    }
}
