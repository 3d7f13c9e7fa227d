//! TLS towards the servers: one configuration for all connections, made when the gateway starts.
//!
//! The authorities are read once, not at each connection, and sessions are resumed.

use crate::config::model::RedisTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// How every connection with TLS is made. An error quotes no secret.
pub fn connector(settings: &RedisTls) -> Result<TlsConnector, String> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = if settings.verify {
        builder.with_root_certificates(authorities(settings)?)
    } else {
        tracing::warn!("TLS towards Redis proves nothing: verify = false");
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(algorithms)))
    };
    let config = match &settings.identity {
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| error.to_string())?,
        None => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Those that are configured, else those of the system.
fn authorities(settings: &RedisTls) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if settings.authorities.is_empty() {
        let (trusted, _) = store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if trusted == 0 {
            return Err("TLS towards Redis: the system trusts no authority; name one in tls.ca_file".to_owned());
        }
    }
    for certificate in &settings.authorities {
        store.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    Ok(store)
}

/// Takes any server for the right one, as `verify = false` says; it still has to own the certificate that it shows.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
