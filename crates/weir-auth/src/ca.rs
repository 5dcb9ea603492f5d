//! A certificate authority of our own, for embedded grids and tests: ECDSA P-256, names and IP addresses, and the hashed
//! directory that OpenSSL's clients look certificates up in.
//!
//! The chains pass strict verification (RFC 5280 as OpenSSL's `X509_V_FLAG_X509_STRICT` reads it): critical basic
//! constraints and key usage at the authority, subject and authority key identifiers everywhere.

mod error;

mod hash;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SanType,
    SerialNumber,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

pub use weir_http::Identity;

pub use hash::{hashed_directory, subject_hash, to_pem};

use crate::files::{read_own, write_private};
use crate::secret::Secret;
pub use error::CaError;
pub use hash::read_certificates;

/// How long the authority and its certificates are valid, from an hour before they were made.
/// Thirteen months: the most that strict clients take from a server.
pub const LIFETIME: Duration = Duration::from_secs(397 * 86_400);

/// A name that a server is reached by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum San {
    /// An address.
    Ip(IpAddr),
    /// A DNS name; `*.` may stand for one label.
    Dns(String),
}

impl From<IpAddr> for San {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<&str> for San {
    /// An address if it reads as one, else a name.
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Dns(text.to_owned()), Self::Ip)
    }
}

/// Writes `NAME.pem` (the chain) and `NAME.key` (mode 0600) into the directory; returns both paths.
///
/// # Errors
/// [`CaError::File`].
pub fn write_identity(identity: &Identity, dir: &Path, name: &str) -> Result<(PathBuf, PathBuf), CaError> {
    fs::create_dir_all(dir).map_err(CaError::file(dir))?;
    let chain = dir.join(format!("{name}.pem"));
    let key = dir.join(format!("{name}.key"));
    write_private(&key, identity.key_pem.as_bytes()).map_err(CaError::file(&key))?;
    fs::write(&chain, &identity.chain_pem).map_err(CaError::file(&chain))?;
    Ok((chain, key))
}

/// A certificate authority in a directory: `ca.key` (mode 0600), `ca.pem`, and `certificates/` with the hashed name.
pub struct CertificateAuthority {
    dir: PathBuf,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    /// Makes a new authority in the directory, which is made if missing. Its name is unique, so that certificates of an
    /// older authority are never tried against it.
    ///
    /// # Errors
    /// [`CaError`]; also if the directory already holds an authority.
    pub fn create(dir: &Path) -> Result<Self, CaError> {
        fs::create_dir_all(dir).map_err(CaError::file(dir))?;
        let key_file = dir.join("ca.key");
        if key_file.exists() {
            return Err(CaError::file(&key_file)(io::ErrorKind::AlreadyExists.into()));
        }
        let key = KeyPair::generate().map_err(make("authority"))?;
        let params = authority(&key);
        let pem = params.self_signed(&key).map_err(make("authority"))?.pem();
        write_private(&key_file, key.serialize_pem().as_bytes()).map_err(CaError::file(&key_file))?;
        let file = dir.join("ca.pem");
        fs::write(&file, &pem).map_err(CaError::file(&file))?;
        hashed_directory(&dir.join("certificates"), &[&file])?;
        Ok(Self {
            dir: dir.to_owned(),
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    /// Loads the authority that [`CertificateAuthority::create`] made in the directory.
    ///
    /// # Errors
    /// [`CaError::File`] or [`CaError::Content`].
    pub fn load(dir: &Path) -> Result<Self, CaError> {
        let (file, key_file) = (dir.join("ca.pem"), dir.join("ca.key"));
        let pem = read_own(&file).map_err(CaError::file(&file))?;
        let key = Secret::read(&key_file).map_err(CaError::file(&key_file))?;
        let key = KeyPair::from_pem(key.expose()).map_err(|_| CaError::Content {
            path: key_file,
            expected: "private key",
        })?;
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|_| CaError::Content {
            path: file,
            expected: "certificate of an authority",
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            pem,
            issuer,
        })
    }

    /// The authority's certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The file with the authority's certificate, for clients that take a file.
    pub fn file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The directory with hashed names, for clients that take one (`X509_CERT_DIR`, `--capath`).
    pub fn directory(&self) -> PathBuf {
        self.dir.join("certificates")
    }

    /// Makes a key and a certificate for a server (fit for a client too).
    ///
    /// # Errors
    /// [`CaError::Name`] for a name that is no DNS name, [`CaError::Make`].
    pub fn issue(&self, names: &[San], common_name: &str) -> Result<Identity, CaError> {
        self.issue_until(names, common_name, None)
    }

    /// The same, valid until then.
    ///
    /// # Errors
    /// As [`CertificateAuthority::issue`].
    pub fn issue_until(&self, names: &[San], common_name: &str, end: Option<SystemTime>) -> Result<Identity, CaError> {
        let mut params = named(common_name);
        for name in names {
            params.subject_alt_names.push(match name {
                San::Ip(address) => SanType::IpAddress(*address),
                San::Dns(name) => SanType::DnsName(name.as_str().try_into().map_err(|_| CaError::Name(name.clone()))?),
            });
        }
        if let Some(end) = end {
            params.not_after = end.into();
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(make(common_name))?;
        self.sign(params, &key, common_name)
    }

    /// Makes a key and a certificate for a user. The key is of RSA with 2048 bits, as grid clients want them for proxies; it costs some
    /// 100 ms of CPU.
    ///
    /// # Errors
    /// [`CaError::Make`].
    pub fn issue_user(&self, common_name: &str) -> Result<Identity, CaError> {
        let mut params = named(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(make(common_name))?;
        self.sign(params, &key, common_name)
    }

    fn sign(&self, mut params: CertificateParams, key: &KeyPair, name: &str) -> Result<Identity, CaError> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer).map_err(make(name))?;
        Ok(Identity {
            chain_pem: certificate.pem() + &self.pem,
            key_pem: key.serialize_pem(),
        })
    }

    /// A revocation list in PEM, good for a day, of certificates that this authority has made.
    ///
    /// # Errors
    /// [`CaError::Content`] for an identity without a certificate, [`CaError::Make`].
    pub fn revocation_list(&self, revoked: &[&Identity]) -> Result<String, CaError> {
        self.revocation_list_until(revoked, SystemTime::now() + Duration::from_secs(86_400))
    }

    /// The same, good until then.
    ///
    /// # Errors
    /// As [`CertificateAuthority::revocation_list`].
    pub fn revocation_list_until(&self, revoked: &[&Identity], end: SystemTime) -> Result<String, CaError> {
        let now = SystemTime::now();
        let revoke = |identity: &&Identity| {
            let chain = read_certificates(&identity.chain_pem, &self.dir)?;
            let (_, certificate) = X509Certificate::from_der(&chain[0]).map_err(|_| CaError::Content {
                path: self.dir.clone(),
                expected: "certificate",
            })?;
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from_slice(certificate.raw_serial()),
                revocation_time: now.into(),
                reason_code: None,
                invalidity_date: None,
            })
        };
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: end.into(),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(revoke).collect::<Result<_, CaError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).and_then(|list| list.pem());
        list.map_err(make("revocation list"))
    }
}

fn make(name: &str) -> impl FnOnce(rcgen::Error) -> CaError + '_ {
    move |source| CaError::Make {
        name: name.to_owned(),
        source,
    }
}

/// A certificate of this name that is valid from now.
fn named(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Weir");
    params.distinguished_name.push(DnType::CommonName, common_name);
    set_validity(&mut params);
    params
}

/// The contents of an authority's certificate.
fn authority(key: &KeyPair) -> CertificateParams {
    let mut name = String::from("Weir grid CA ");
    for byte in &CertificateParams::default().key_identifier(key)[..6] {
        write!(name, "{byte:02x}").expect("writing to a string cannot fail");
    }
    let mut params = named(&name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// Valid from two days ago, so that a client whose clock is late takes it too.
fn set_validity(params: &mut CertificateParams) {
    let start = SystemTime::now() - Duration::from_secs(2 * 86_400);
    params.not_before = start.into();
    params.not_after = (start + LIFETIME).into();
}
