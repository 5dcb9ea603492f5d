//! Delegation as in FTS and GridSite: the service makes a key and a request, the client signs a proxy for it, and the
//! service then acts in the client's name. Only the certificates are handled here; the door keeps the key, sealed,
//! between the two steps.

use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::clients::ClientCertificates;
use super::error::X509Error;
use super::identity::Identity;
use crate::secret::Secret;

/// Why a delegation fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// The key or the request could not be made.
    #[error("could not make a key and a request for delegation")]
    Request(#[from] rcgen::Error),
    /// The stored key is no private key.
    #[error("the stored key cannot be read")]
    Key,
    /// The answer is no chain of certificates in PEM.
    #[error("the proxy is no chain of at least two certificates in PEM")]
    Chain,
    /// The proxy was signed for another request.
    #[error("the proxy does not match the key of the request")]
    OtherKey,
    /// The first certificate is no proxy.
    #[error("the first certificate is no proxy")]
    NoProxy,
    /// The proxy speaks for another than the client.
    #[error("the proxy is of {found}, the client is {client}")]
    OtherIdentity {
        /// The subject of the proxy.
        found: String,
        /// The subject of the client.
        client: String,
    },
    /// The chain is not taken.
    #[error("the proxy is not taken")]
    Refused(#[from] X509Error),
}

/// The id of a delegation as FTS computes it: the first 16 digits of the SHA-1 of the subject and its FQANs, one after
/// the other.
pub fn delegation_id<'a>(subject: &str, fqans: impl IntoIterator<Item = &'a str>) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(subject.as_bytes());
    for fqan in fqans {
        context.update(fqan.as_bytes());
    }
    let hash = context.finish();
    hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A fresh key, and the request that the client answers with a proxy.
#[derive(Debug, Clone)]
pub struct Request {
    /// PKCS#10, in PEM, with a subject that means nothing: the client gives the proxy its name.
    pub csr_pem: String,
    /// PKCS#8, in PEM.
    pub key_pem: Secret,
}

impl Request {
    /// Makes a key of RSA with 2048 bits, the only kind that FTS's clients take. It costs some 100 ms of CPU: not for a
    /// thread that answers requests.
    ///
    /// # Errors
    /// [`DelegationError::Request`].
    pub fn new() -> Result<Self, DelegationError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Dummy");
        let request = params.serialize_request(&key)?;
        Ok(Self {
            csr_pem: request.pem()?,
            key_pem: Secret::new(key.serialize_pem()),
        })
    }
}

/// A delegated credential.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Proxy, private key and the rest of the chain in PEM: a proxy file as every grid client reads it.
    pub pem: Secret,
    /// Its identity, expiry and VOMS attributes.
    pub identity: Identity,
}

/// Takes the chain that a client signed for the key of an earlier [`Request`].
///
/// The chain must verify, begin with a proxy for that key, and speak for the client itself.
///
/// # Errors
/// [`DelegationError`]; [`X509Error::Limited`] within it if the client has a limited proxy, which may not delegate.
pub fn accept(
    key_pem: &Secret,
    chain_pem: &str,
    client: &Identity,
    certificates: &ClientCertificates,
    now: SystemTime,
) -> Result<Credential, DelegationError> {
    client.require_full()?;
    let chain = read(chain_pem)?;
    let key = KeyPair::from_pem(key_pem.expose()).map_err(|_| DelegationError::Key)?;
    let (_, proxy) = X509Certificate::from_der(&chain[0]).map_err(|_| DelegationError::Chain)?;
    if rcgen::PublicKeyData::subject_public_key_info(&key) != proxy.public_key().raw {
        return Err(DelegationError::OtherKey);
    }
    let identity = certificates.verify(&chain, now)?;
    if identity.n_proxies == 0 {
        return Err(DelegationError::NoProxy);
    }
    if identity.subject != client.subject {
        return Err(DelegationError::OtherIdentity {
            found: identity.subject.clone(),
            client: client.subject.clone(),
        });
    }
    let (first, rest) = chain.split_first().ok_or(DelegationError::Chain)?;
    let mut pem = crate::ca::to_pem(first);
    pem.push_str(key_pem.expose().trim_end());
    pem.push('\n');
    for certificate in rest {
        pem.push_str(&crate::ca::to_pem(certificate));
    }
    Ok(Credential {
        pem: Secret::new(pem),
        identity: Identity::clone(&identity),
    })
}

fn read(pem: &str) -> Result<Vec<CertificateDer<'static>>, DelegationError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|_| DelegationError::Chain)?;
    if chain.len() < 2 {
        Err(DelegationError::Chain)
    } else {
        Ok(chain)
    }
}
