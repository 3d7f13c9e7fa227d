//! Certificates and keys in PEM files: read whole, understood before they are taken.
//!
//! No message quotes what such a file holds.

use super::file::read_bytes;
use super::problem::Complaint;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::Path;

/// Bytes in a file of certificates or keys: several times what a system trusts.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// The certificates of a file; at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Complaint> {
    let bytes = read_bytes(path, MAX_PEM_BYTES)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let hint = "it is a PEM file with -----BEGIN CERTIFICATE-----";
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Complaint::new(format!("{} holds no certificate", path.display())).hint(hint)),
        Err(_) => Err(Complaint::new(format!("{} is no valid PEM", path.display())).hint(hint)),
    }
}

/// The certificates of a file, each one that others can be trusted by.
pub(super) fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, Complaint> {
    let found = certificates(path)?;
    let mut store = RootCertStore::empty();
    for certificate in &found {
        store.add(certificate.clone()).map_err(|error| {
            Complaint::new(format!("{} holds a certificate that cannot be trusted: {error}", path.display()))
        })?;
    }
    Ok(found)
}

/// The first private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Complaint> {
    let bytes = read_bytes(path, MAX_PEM_BYTES)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let complaint = Complaint::new(format!("{} holds no private key", path.display()));
        complaint.hint("it is a PEM file with -----BEGIN PRIVATE KEY-----, without a passphrase")
    })
}

/// The key with its chain, if it is that of the first certificate.
pub(super) fn pair(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, Complaint> {
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        let complaint = Complaint::new(format!("the key does not fit the certificate: {error}"));
        complaint.hint("the server's or client's own certificate stands first in its file")
    })
}

/// Whether the key is that of the first certificate.
pub(super) fn belong_together(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), Complaint> {
    pair(chain.to_vec(), key.clone_key()).map(|_| ())
}
