//! TLS configurations, made in one place so that every door has the same floor: TLS 1.2, verified peers, AES-GCM first.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, WebPkiServerVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    sign::{CertifiedKey, SingleCertAndKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::{
    TlsError,
    client_certificates::{ChainCheck, Verifier},
    server_certificates::ServerVerifier,
    sessions::Sessions,
};

/// A certificate chain (leaf first) and its private key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// Leaf first, then intermediates; the root may be left out.
    pub chain_pem: String,
    /// PKCS#8, SEC1 or PKCS#1. Never printed.
    pub key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("key_pem", &"***")
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads both from files.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Ok(Self {
            chain_pem: read(certificate)?,
            key_pem: read(key)?,
        })
    }
}

/// The places of trusted certificate authorities. Empty means that no peer is trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustRoots {
    /// PEM files, each with one or more certificates.
    pub files: Vec<PathBuf>,
    /// Directories as grid sites keep them (`/etc/grid-security/certificates`): every `*.0` to `*.9` and `*.pem` is read.
    pub directories: Vec<PathBuf>,
}

impl TrustRoots {
    /// One PEM file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            files: vec![path.into()],
            directories: Vec::new(),
        }
    }

    /// Adds all places of another set.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self.directories.extend(other.directories);
        self
    }

    pub(crate) fn load(&self) -> Result<RootCertStore, TlsError> {
        let mut store = RootCertStore::empty();
        for file in &self.files {
            if add_file(&mut store, file)? == 0 {
                return Err(TlsError::Pem {
                    what: file.display().to_string(),
                    missing: "certificate",
                });
            }
        }
        for directory in &self.directories {
            let entries = fs::read_dir(directory).map_err(|source| TlsError::Read {
                path: directory.clone(),
                source,
            })?;
            for path in entries
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .filter(|path| is_hashed_or_pem(path))
            {
                add_file(&mut store, &path)?;
            }
        }
        Ok(store)
    }
}

fn is_hashed_or_pem(path: &Path) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| e == "pem" || (e.len() == 1 && e.as_bytes()[0].is_ascii_digit()))
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<usize, TlsError> {
    let text = fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })?;
    let certificates = CertificateDer::pem_slice_iter(&text)
        .filter_map(Result::ok)
        .collect::<Vec<_>>();
    // A directory may hold authorities with odd encodings; one of them must not shut out the others.
    Ok(store.add_parsable_certificates(certificates).0)
}

/// aws-lc-rs with AES-128-GCM first. On CPUs with AES instructions it is the cheapest suite per byte, and strong enough
/// for data in flight (RFC 8446 section 9.1 makes it the mandatory one).
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        rustls::CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    });
    Arc::new(provider)
}

/// Largest amount of encrypted records that the socket has not taken yet. The default limit of rustls, 64 KiB, cuts a
/// block into several writes, which costs 5 to 15 % of the CPU of a sender and a receiver together. Beyond this size
/// nothing more is saved. An idle connection, or one whose peer keeps up, holds none of it; with slow peers its own
/// limit ([`crate::Buffers`]) may be lower.
pub(crate) const SEALED_AHEAD: usize = 256 << 10;

/// A server configuration for one identity, without client certificates.
pub fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    make_server_config(identity, None)
}

/// A server configuration that requests a client certificate and accepts clients without one. `check` judges a
/// certificate, which is then found as [`crate::PeerCertificates`] on every request.
pub fn server_config_asking(identity: &Identity, check: Arc<dyn ChainCheck>) -> Result<Arc<ServerConfig>, TlsError> {
    let algorithms = provider().signature_verification_algorithms;
    make_server_config(identity, Some(Arc::new(Verifier { check, algorithms })))
}

fn make_server_config(identity: &Identity, clients: Option<Arc<Verifier>>) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(identity.chain_pem.as_bytes())
        .filter_map(Result::ok)
        .collect::<Vec<_>>();
    if chain.is_empty() {
        return Err(TlsError::Pem {
            what: "server identity".into(),
            missing: "certificate",
        });
    }
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(|_| TlsError::Pem {
        what: "server identity".into(),
        missing: "private key",
    })?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    // Records are sealed and opened by `crate::secured`.
    config.enable_secret_extraction = true;
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Whether the first certificate of a chain (PEM) is good for a host: a name, or an address without brackets.
///
/// # Errors
/// There is no certificate that can be read, or the host is none.
pub fn certificate_names(chain_pem: &str, host: &str) -> Result<bool, TlsError> {
    let mut chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes()).filter_map(Result::ok);
    let leaf = chain.next().ok_or_else(|| TlsError::Pem {
        what: "the chain".to_owned(),
        missing: "certificate",
    })?;
    let parsed = rustls::server::ParsedCertificate::try_from(&leaf)?;
    let name = rustls_pki_types::ServerName::try_from(host.to_owned())
        .map_err(|_| rustls::Error::General(format!("{host} is neither a name nor an address")))?;
    Ok(rustls::client::verify_server_name(&parsed, &name).is_ok())
}

/// A client configuration that trusts exactly these roots.
pub fn client_config(roots: &TrustRoots) -> Result<Arc<ClientConfig>, TlsError> {
    trusting(Arc::new(roots.load()?))
}

/// A client configuration that trusts these roots, once they are read.
pub(crate) fn trusting(roots: Arc<RootCertStore>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Records are sealed and opened by `crate::secured`.
    config.enable_secret_extraction = true;
    config.resumption = resumption(256);
    Ok(Arc::new(config))
}

/// Taking up sessions again, of about so many servers.
fn resumption(servers: usize) -> Resumption {
    Resumption::store(Arc::new(Sessions::new(servers)))
}

/// The same configuration for a client that shows a certificate where it is asked for one: a user's, or a proxy (RFC 3820),
/// which rustls would not read. Sessions are not resumed across the two.
pub(crate) fn showing(config: &ClientConfig, identity: &Identity) -> Result<Arc<ClientConfig>, TlsError> {
    let missing = |missing| TlsError::Pem {
        what: "client identity".into(),
        missing,
    };
    let chain = CertificateDer::pem_slice_iter(identity.chain_pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(|_| missing("private key"))?;
    let key = config.crypto_provider().key_provider.load_private_key(key)?;
    let shown = CertifiedKey::new(chain.ok_or(missing("certificate"))?, key);
    let mut config = config.clone();
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
    config.resumption = resumption(32);
    Ok(Arc::new(config))
}

/// The same configuration for a client that has `check` judge the server's chain too, after the usual verification.
/// Sessions are not resumed across the two, or the check would be skipped. Without trusted authorities there is nothing
/// to judge.
pub(crate) fn judging(
    config: &ClientConfig,
    roots: Arc<RootCertStore>,
    check: Arc<dyn ChainCheck>,
) -> Result<Arc<ClientConfig>, TlsError> {
    if roots.is_empty() {
        return Ok(Arc::new(config.clone()));
    }
    let usual = WebPkiServerVerifier::builder_with_provider(roots, config.crypto_provider().clone());
    let usual = usual.build().map_err(|_| TlsError::Pem {
        what: "the trusted roots".into(),
        missing: "certificate",
    })?;
    let mut config = config.clone();
    let verifier = Arc::new(ServerVerifier { usual, check });
    config.dangerous().set_certificate_verifier(verifier);
    config.resumption = resumption(256);
    Ok(Arc::new(config))
}
