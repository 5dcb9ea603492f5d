//! Trusted authorities: a directory as the IGTF distributes it, and the verification of chains against it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openssl::stack::Stack;
use openssl::x509::store::{X509Store, X509StoreBuilder, X509StoreRef};
use openssl::x509::verify::{X509VerifyFlags, X509VerifyParam};
use openssl::x509::{X509, X509PurposeId, X509Ref, X509StoreContext};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::error::X509Error;
use super::folder::Entry;
use super::name::{reads_as_another, slash_form};
use super::proxy::{self, is_proxy};
use super::revocation::{RevocationCheck, Revocations};
use super::signing_policy::SigningPolicies;

/// Certificates that a client may show: ten generations of delegation, the user and the authorities' intermediates.
pub(crate) const CHAIN_MAX: usize = 20;
/// OpenSSL's security level: 112 bits, so RSA from 2048 bits, and no SHA-1 below the authorities' own certificates.
const SECURITY_LEVEL: i32 = 2;
/// Seconds by which a certificate may be used before its time: FTS's client signs proxies that begin this very second, by
/// its own clock. As much as a token's `nbf` is given.
const EARLY: i64 = 60;

/// One reading of a directory. It does not change; a newer reading replaces it.
pub(crate) struct Authorities {
    /// Clients, with proxies.
    clients: X509Store,
    /// The store for VOMS servers: no proxies, and any purpose of their certificates.
    servers: X509Store,
    revocations: Revocations,
    policies: SigningPolicies,
    check: RevocationCheck,
    count: usize,
}

/// A chain that leads to an authority, in DER: leaf first, the authority last.
#[derive(Debug)]
pub(crate) struct VerifiedChain {
    pub(crate) chain: Vec<Vec<u8>>,
    /// The least of the chain.
    pub(crate) not_after: SystemTime,
}

impl VerifiedChain {
    /// The certificates, parsed.
    pub(crate) fn parsed(&self) -> Result<Vec<X509Certificate<'_>>, X509Error> {
        parse(self.chain.iter().map(Vec::as_slice))
    }
}

impl Authorities {
    /// Reads `*.0` to `*.9` and `*.pem` (authorities), `*.r0` to `*.r9` (revocation lists), and `*.signing_policy`. An
    /// unreadable file is left out with a line in the log: one odd file must not shut out every client.
    pub(crate) fn load(entries: &[Entry], check: RevocationCheck, now: SystemTime) -> Result<Self, X509Error> {
        let authorities = authorities_in(entries, now);
        let revocations = revocations_in(entries, &authorities, now);
        let mut policies = SigningPolicies::default();
        for entry in entries.iter().filter(|entry| entry.extension() == "signing_policy") {
            let text = read(&entry.path).unwrap_or_default();
            policies.add(&String::from_utf8_lossy(&text));
        }
        Self::new(&authorities, revocations, policies, check)
    }

    /// Trusts these certificates, in DER.
    pub(crate) fn new(
        authorities: &[Vec<u8>],
        revocations: Revocations,
        policies: SigningPolicies,
        check: RevocationCheck,
    ) -> Result<Self, X509Error> {
        Ok(Self {
            clients: store(authorities, true)?,
            servers: store(authorities, false)?,
            revocations,
            policies,
            check,
            count: authorities.len(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Verifies a client's chain; its own certificate first, the others in any order.
    pub(crate) fn verify_client(&self, chain: &[&[u8]], now: SystemTime) -> Result<VerifiedChain, X509Error> {
        if chain.len() > CHAIN_MAX {
            return Err(X509Error::TooLong {
                count: chain.len(),
                limit: CHAIN_MAX,
            });
        }
        let presented = parse(chain.iter().copied())?;
        match self.verify(&self.clients, chain, now) {
            // OpenSSL knows no proxies older than the standard: it says that the user's certificate is no authority's.
            Err(X509Error::Untrusted { subject, cause }) => Err(match proxy::legacy(&presented) {
                Some(legacy) => X509Error::LegacyProxy {
                    subject: slash_form(legacy.subject()),
                },
                None => X509Error::Untrusted { subject, cause },
            }),
            other => other,
        }
    }

    /// Verifies the chain of a server that signs attribute certificates.
    pub(crate) fn verify_server(&self, chain: &[&[u8]], now: SystemTime) -> Result<VerifiedChain, X509Error> {
        self.verify(&self.servers, chain, now)
    }

    fn verify(&self, store: &X509StoreRef, chain: &[&[u8]], now: SystemTime) -> Result<VerifiedChain, X509Error> {
        let chain = build(store, chain)?;
        let seconds = unix(now);
        let parsed = parse(chain.iter().map(Vec::as_slice))?;
        for certificate in &parsed {
            check_time(certificate, seconds)?;
        }
        for pair in parsed.windows(2) {
            let [certificate, issuer] = pair else { continue };
            if reads_as_another(certificate.subject()) {
                let subject = slash_form(certificate.subject());
                return Err(X509Error::AmbiguousName { subject });
            }
            if is_proxy(certificate) {
                continue;
            }
            self.revocations.check(certificate, issuer, self.check, seconds)?;
            let (authority, subject) = (slash_form(issuer.subject()), slash_form(certificate.subject()));
            if !self.policies.allow(&authority, &subject) {
                return Err(X509Error::SigningPolicy {
                    subject,
                    issuer: authority,
                });
            }
        }
        let ends = parsed.iter().map(|one| one.validity().not_after.timestamp());
        let not_after = UNIX_EPOCH + Duration::from_secs(ends.min().unwrap_or(0).max(0).unsigned_abs());
        Ok(VerifiedChain { chain, not_after })
    }
}

/// The certificates in `*.0` to `*.9` and `*.pem` that can be used now, in DER, each once.
pub(crate) fn authorities_in(entries: &[Entry], now: SystemTime) -> Vec<Vec<u8>> {
    let mut authorities: Vec<Vec<u8>> = Vec::new();
    for entry in entries.iter().filter(|e| e.is_numbered("") || e.extension() == "pem") {
        let found = read(&entry.path).map(|text| certificates(&text)).unwrap_or_default();
        authorities.extend(found);
    }
    // Links under both of OpenSSL's hashes lead to each file.
    authorities.sort();
    authorities.dedup();
    authorities.retain(|certificate| is_usable(certificate, now));
    authorities
}

/// The lists in `*.r0` to `*.r9` that these authorities have signed.
pub(crate) fn revocations_in(entries: &[Entry], authorities: &[Vec<u8>], now: SystemTime) -> Revocations {
    let mut revocations = Revocations::default();
    for entry in entries.iter().filter(|entry| entry.is_numbered("r")) {
        let Some(list) = read(&entry.path) else { continue };
        if let Err(reason) = revocations.add(&list, authorities) {
            tracing::warn!(file = %entry.path.display(), "revocation list left out: {reason}");
        }
    }
    for issuer in revocations.out_of_date(unix(now)) {
        tracing::warn!(%issuer, "its revocation list is out of date: does fetch-crl run?");
    }
    revocations
}

/// Lets OpenSSL find the path to an authority, and check everything but times, revocation and the purpose of proxies.
fn build(store: &X509StoreRef, chain: &[&[u8]]) -> Result<Vec<Vec<u8>>, X509Error> {
    let malformed = |place| X509Error::Malformed {
        place,
        what: "a certificate",
    };
    let mut certificates = Vec::with_capacity(chain.len());
    for (place, der) in chain.iter().enumerate() {
        certificates.push(X509::from_der(der).map_err(|_| malformed(place))?);
    }
    let mut others = Stack::new()?;
    for certificate in certificates.iter().skip(1) {
        others.push(certificate.clone())?;
    }
    let leaf = certificates.first().ok_or(malformed(0))?;
    let mut context = X509StoreContext::new()?;
    let outcome = context.init(store, leaf, &others, |context| {
        if !context.verify_cert()? {
            let subject = context.current_cert().and_then(|one| one.to_der().ok());
            return Ok(Err((context.error(), subject)));
        }
        let Some(chain) = context.chain() else {
            return Ok(Ok(Vec::new()));
        };
        let chain: Result<Vec<_>, _> = chain.iter().map(X509Ref::to_der).collect();
        Ok(Ok(chain?))
    })?;
    outcome.map_err(|(error, failed)| {
        let failed = failed.unwrap_or_else(|| chain[0].to_vec());
        let subject = X509Certificate::from_der(&failed).map(|(_, one)| slash_form(one.subject()));
        X509Error::Untrusted {
            subject: subject.unwrap_or_default(),
            cause: error.error_string().to_owned(),
        }
    })
}

fn store(authorities: &[Vec<u8>], clients: bool) -> Result<X509Store, X509Error> {
    let mut parameters = X509VerifyParam::new()?;
    parameters.set_auth_level(SECURITY_LEVEL);
    // Times are compared here, with the caller's clock.
    parameters.set_flags(X509VerifyFlags::NO_CHECK_TIME | X509VerifyFlags::TRUSTED_FIRST)?;
    if clients {
        parameters.set_flags(X509VerifyFlags::ALLOW_PROXY_CERTS)?;
        parameters.set_purpose(X509PurposeId::SSL_CLIENT)?;
    }
    let mut store = X509StoreBuilder::new()?;
    store.set_param(&parameters)?;
    for authority in authorities {
        store.add_cert(X509::from_der(authority)?)?;
    }
    Ok(store.build())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    fs::read(path)
        .inspect_err(|error| tracing::warn!(file = %path.display(), %error, "file of an authority left out"))
        .ok()
}

/// When the first of these certificates ends (PEM); none if there is none that can be read.
pub fn ends(pem: &str) -> Option<SystemTime> {
    validity(pem).map(|(_, end)| end)
}

/// From when to when all of these certificates are valid (PEM); none if there is none that can be read.
pub fn validity(pem: &str) -> Option<(SystemTime, SystemTime)> {
    let certificates = certificates(pem.as_bytes());
    let parsed = parse(certificates.iter().map(Vec::as_slice)).ok()?;
    let start = parsed.iter().map(|one| one.validity().not_before.timestamp()).max()?;
    let end = parsed.iter().map(|one| one.validity().not_after.timestamp()).min()?;
    let time = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds.max(0).unsigned_abs());
    Some((time(start), time(end)))
}

/// When a certificate ends (DER); none if it cannot be read.
pub fn end(certificate: &[u8]) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let end = certificate.validity().not_after.timestamp();
    Some(UNIX_EPOCH + Duration::from_secs(end.max(0).unsigned_abs()))
}

fn certificates(text: &[u8]) -> Vec<Vec<u8>> {
    let pem = CertificateDer::pem_slice_iter(text).filter_map(Result::ok);
    pem.map(|certificate| certificate.to_vec()).collect()
}

/// Whether both libraries can read an authority's certificate and its time is not over. OpenSSL, told to leave times
/// alone, could take an old certificate of an authority where a new one of the same name is there too.
fn is_usable(certificate: &[u8], now: SystemTime) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    parsed.is_ok_and(|(_, one)| one.validity().not_after.timestamp() >= unix(now))
        && X509::from_der(certificate).is_ok()
}

fn check_time(certificate: &X509Certificate<'_>, now: i64) -> Result<(), X509Error> {
    let subject = || slash_form(certificate.subject());
    let validity = certificate.validity();
    let (start, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    if end < now {
        return Err(X509Error::Expired {
            subject: subject(),
            ago: Duration::from_secs(now.abs_diff(end)),
        });
    }
    if now < start - EARLY {
        return Err(X509Error::NotYetValid {
            subject: subject(),
            starts_in: Duration::from_secs(now.abs_diff(start)),
        });
    }
    Ok(())
}

pub(crate) fn parse<'a>(chain: impl Iterator<Item = &'a [u8]>) -> Result<Vec<X509Certificate<'a>>, X509Error> {
    let parsed = chain
        .enumerate()
        .map(|(place, der)| match X509Certificate::from_der(der) {
            Ok(([], certificate)) => Ok(certificate),
            _ => Err(X509Error::Malformed {
                place,
                what: "a certificate",
            }),
        });
    parsed.collect()
}

/// Seconds since 1970; 0 before.
pub(crate) fn unix(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
