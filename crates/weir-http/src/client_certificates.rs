//! Client certificates in the TLS handshake: requested, never required, and judged by a [`ChainCheck`].
//!
//! rustls and its certificate library do not support proxy certificates (RFC 3820) and refuse to read them. This module
//! does only what TLS itself needs: the client proves that it holds the key of its certificate. The [`ChainCheck`]
//! judges the chain, as does the door that finds [`PeerCertificates`] on a request.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use x509_parser::{
    asn1_rs::Any,
    prelude::{FromDer, X509Certificate},
};

/// Judges the chain that the other side shows: a client's before its request is read, a server's before a request is sent
/// ([`crate::Client::judging`]).
pub trait ChainCheck: fmt::Debug + Send + Sync {
    /// The chain, the other side's own certificate first, never empty. An error ends the handshake with the alert that fits.
    ///
    /// It runs within the handshake and must not wait for anything.
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError>;
}

/// The certificates that a client showed, its own first, never empty; found in the extensions of every request of the
/// connection. The client holds the key of the first one. The chain is not verified yet, and a resumed TLS session
/// restores it without any check.
#[derive(Debug, Clone)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// The verifier that rustls asks.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) check: Arc<dyn ChainCheck>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: a grid trusts some hundred authorities, and a client has one certificate to show.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut chain = Vec::with_capacity(1 + intermediates.len());
        chain.push(end_entity.clone());
        chain.extend_from_slice(intermediates);
        self.check.check(&chain)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // In TLS 1.2 a scheme leaves the curve open: the algorithm is the one that fits the key.
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let key = certificate.public_key();
        let algorithms = self.algorithms.mapping.iter();
        let fitting = algorithms
            .filter(|(scheme, _)| *scheme == signed.scheme)
            .flat_map(|(_, algorithms)| algorithms.iter());
        for algorithm in fitting {
            if same_key_algorithm(key.raw, algorithm.public_key_alg_id().as_ref()) {
                algorithm
                    .verify_signature(&key.subject_public_key.data, message, signed.signature())
                    .map_err(|_| CertificateError::BadSignature)?;
                return Ok(HandshakeSignatureValid::assertion());
            }
        }
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a SubjectPublicKeyInfo names this algorithm; rustls keeps identifiers without the SEQUENCE around them.
fn same_key_algorithm(key: &[u8], algorithm: &[u8]) -> bool {
    let identifier = Any::from_der(key).and_then(|(_, key)| Any::from_der(key.data));
    identifier.is_ok_and(|(_, identifier)| identifier.data == algorithm)
}
