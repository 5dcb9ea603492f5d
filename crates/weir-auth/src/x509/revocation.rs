//! Revocation lists (`*.r0`), as `fetch-crl` leaves them beside the authorities.

use std::collections::{HashMap, HashSet};

use openssl::x509::X509Crl;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use super::error::X509Error;
use super::name::slash_form;

/// How much revocation lists matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevocationCheck {
    /// A list that is there counts, even when it is out of date; an authority without one is trusted. The default.
    #[default]
    IfPresent,
    /// Every authority needs a list that is up to date.
    Required,
    /// No list is looked at.
    Off,
}

/// The lists of all authorities, each under its authority's public key.
#[derive(Debug, Default)]
pub(crate) struct Revocations {
    lists: HashMap<Vec<u8>, List>,
}

#[derive(Debug)]
struct List {
    issuer: String,
    /// Unix seconds.
    made: i64,
    next_update: Option<i64>,
    serials: HashSet<Vec<u8>>,
}

impl Revocations {
    /// Adds the lists of a file that are signed by one of the authorities; the error says why one was left out.
    pub(crate) fn add(&mut self, file: &[u8], authorities: &[Vec<u8>]) -> Result<(), &'static str> {
        if !file.starts_with(b"-----") && !file.windows(11).any(|part| part == b"-----BEGIN ") {
            return self.add_list(file, authorities);
        }
        let mut lists = CertificateRevocationListDer::pem_slice_iter(file).peekable();
        if lists.peek().is_none() {
            return Err("it holds no revocation list");
        }
        lists.try_for_each(|list| self.add_list(&list.map_err(|_| "it is no PEM")?, authorities))
    }

    fn add_list(&mut self, der: &[u8], authorities: &[Vec<u8>]) -> Result<(), &'static str> {
        let (_, list) = CertificateRevocationList::from_der(der).map_err(|_| "it is no revocation list")?;
        // Such a list covers only a part of the certificates, or those of another issuer (RFC 5280 section 5.2).
        if list.extensions().iter().any(|extension| extension.critical) {
            return Err("it is a partial or indirect list");
        }
        let key = signer(der, &list, authorities).ok_or("no authority here has signed it")?;
        let made = list.last_update().timestamp();
        if self.lists.get(&key).is_some_and(|known| known.made >= made) {
            return Ok(());
        }
        let serials = list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec());
        let list = List {
            issuer: slash_form(list.issuer()),
            made,
            next_update: list.next_update().map(|time| time.timestamp()),
            serials: serials.collect(),
        };
        self.lists.insert(key, list);
        Ok(())
    }

    /// The authorities whose list should have been replaced before `now` (Unix seconds).
    pub(crate) fn out_of_date(&self, now: i64) -> impl Iterator<Item = &str> {
        let old = self.lists.values().filter(move |list| list.is_old(now));
        old.map(|list| list.issuer.as_str())
    }

    /// The authority that has revoked the certificate, by name; among authorities of one name, the one that signed it.
    pub(crate) fn revoker(&self, der: &[u8], certificate: &X509Certificate<'_>) -> Option<&str> {
        let issuer = slash_form(certificate.issuer());
        let serial = certificate.raw_serial();
        let mut lists = self.lists.iter();
        let revokes =
            |key: &[u8], list: &List| list.issuer == issuer && list.serials.contains(serial) && is_signed(der, key);
        lists
            .find(|(key, list)| revokes(key, list))
            .map(|(_, list)| list.issuer.as_str())
    }

    /// Whether the issuer has revoked the certificate, as far as is known at `now` (Unix seconds).
    pub(crate) fn check(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        check: RevocationCheck,
        now: i64,
    ) -> Result<(), X509Error> {
        let unknown = |state| match check {
            RevocationCheck::Required => Err(X509Error::RevocationUnknown {
                issuer: slash_form(issuer.subject()),
                state,
            }),
            _ => Ok(()),
        };
        if check == RevocationCheck::Off {
            return Ok(());
        }
        let Some(list) = self.lists.get(issuer.public_key().raw) else {
            return unknown("missing");
        };
        if list.serials.contains(certificate.raw_serial()) {
            return Err(X509Error::Revoked {
                subject: slash_form(certificate.subject()),
                issuer: slash_form(issuer.subject()),
            });
        }
        if list.is_old(now) {
            return unknown("out of date");
        }
        Ok(())
    }
}

impl List {
    fn is_old(&self, now: i64) -> bool {
        self.next_update.is_some_and(|next| next < now)
    }
}

/// Whether a certificate is signed with this public key.
fn is_signed(der: &[u8], key: &[u8]) -> bool {
    let certificate = openssl::x509::X509::from_der(der);
    let key = openssl::pkey::PKey::public_key_from_der(key);
    certificate.is_ok_and(|certificate| key.is_ok_and(|key| certificate.verify(&key).unwrap_or(false)))
}

/// The public key of the authority that signed a list.
fn signer(der: &[u8], list: &CertificateRevocationList<'_>, authorities: &[Vec<u8>]) -> Option<Vec<u8>> {
    let issuer = slash_form(list.issuer());
    let signed = X509Crl::from_der(der).ok()?;
    authorities.iter().find_map(|authority| {
        let (_, certificate) = X509Certificate::from_der(authority).ok()?;
        let key = certificate.public_key().raw;
        let public = openssl::pkey::PKey::public_key_from_der(key).ok()?;
        (slash_form(certificate.subject()) == issuer && signed.verify(&public).ok()?).then(|| key.to_vec())
    })
}
