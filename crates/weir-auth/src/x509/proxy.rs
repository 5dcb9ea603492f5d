//! Proxy certificates (RFC 3820): the proxy extension of a certificate, and the end entity of a chain.

use x509_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::X509Certificate;

use super::der::{Der, INTEGER, OCTET_STRING, OID, SEQUENCE};
use super::error::X509Error;
use super::name::{last_common_name, slash_form};

pub(crate) const PROXY_CERT_INFO: Oid<'static> = oid!(1.3.6.1.5.5.7.1.14);
/// The extension of Globus's proxies between GT2 and RFC 3820.
const DRAFT_PROXY_CERT_INFO: Oid<'static> = oid!(1.3.6.1.4.1.3536.1.222);
pub(crate) const INHERIT_ALL: Oid<'static> = oid!(1.3.6.1.5.5.7.21.1);
/// Globus's limited proxy: it may move data, and not start jobs.
pub(crate) const LIMITED: Oid<'static> = oid!(1.3.6.1.4.1.3536.1.1.1.9);

/// The rights of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    All,
    Limited,
}

/// The end entity of a verified chain, and the rights that its proxies leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// Place of the end entity in the chain: so many proxies stand before it.
    pub(crate) place: usize,
    /// Whether any of the proxies is limited: rights once given up do not come back.
    pub(crate) is_limited: bool,
}

/// Finds the end entity of a chain, leaf first, and checks the rules for proxies on the way there.
///
/// OpenSSL has checked most of them already (signatures, path lengths, names, key usage). Names are checked once more,
/// because the identity hangs on them; policies only here, because they are the application's business.
pub(crate) fn bearer(chain: &[X509Certificate<'_>]) -> Result<Bearer, X509Error> {
    let mut is_limited = false;
    for (place, certificate) in chain.iter().enumerate() {
        let Some(rights) = rights(certificate, place)? else {
            return Ok(Bearer { place, is_limited });
        };
        is_limited |= rights == Rights::Limited;
        let named_by_issuer = chain.get(place + 1).is_some_and(|issuer| extends(certificate, issuer));
        if !named_by_issuer {
            return Err(X509Error::Untrusted {
                subject: slash_form(certificate.subject()),
                cause: "a proxy must have the name of its issuer and one common name more".to_owned(),
            });
        }
    }
    Err(X509Error::Malformed {
        place: chain.len(),
        what: "an end entity behind the proxies",
    })
}

/// Whether the last name in the chain is one of a proxy before RFC 3820: the first certificate of that kind.
pub(crate) fn legacy<'a, 'b>(chain: &'a [X509Certificate<'b>]) -> Option<&'a X509Certificate<'b>> {
    chain.iter().find(|certificate| {
        let named = matches!(
            last_common_name(certificate.subject()),
            Some(b"proxy" | b"limited proxy")
        ) && certificate.subject().iter_rdn().count() == certificate.issuer().iter_rdn().count() + 1;
        let draft = certificate
            .extensions()
            .iter()
            .any(|one| one.oid == DRAFT_PROXY_CERT_INFO);
        draft || (named && !is_proxy(certificate))
    })
}

pub(crate) fn is_proxy(certificate: &X509Certificate<'_>) -> bool {
    certificate.extensions().iter().any(|one| one.oid == PROXY_CERT_INFO)
}

/// The rights of a proxy; none for a certificate that is no proxy.
fn rights(certificate: &X509Certificate<'_>, place: usize) -> Result<Option<Rights>, X509Error> {
    let malformed = |what| X509Error::Malformed { place, what };
    let found = certificate
        .get_extension_unique(&PROXY_CERT_INFO)
        .map_err(|_| malformed("one proxyCertInfo"))?;
    let Some(info) = found else { return Ok(None) };
    let language = policy_language(info.value).map_err(malformed)?;
    if language == INHERIT_ALL {
        Ok(Some(Rights::All))
    } else if language == LIMITED {
        Ok(Some(Rights::Limited))
    } else {
        Err(X509Error::ProxyPolicy {
            subject: slash_form(certificate.subject()),
            language: language.to_id_string(),
        })
    }
}

/// `ProxyCertInfo ::= SEQUENCE { pCPathLenConstraint INTEGER OPTIONAL, proxyPolicy SEQUENCE { policyLanguage OBJECT
/// IDENTIFIER, policy OCTET STRING OPTIONAL } }` (RFC 3820 section 3.8).
pub(crate) fn policy_language(info: &[u8]) -> Result<Oid<'_>, &'static str> {
    let mut outer = Der::new(info);
    let mut fields = outer.expect(SEQUENCE, "a proxyCertInfo")?.inside();
    let _path_length = fields.next_if(|field| field.is(INTEGER));
    let mut policy = fields.expect(SEQUENCE, "a proxy policy")?.inside();
    let language = policy.expect(OID, "a policy language")?;
    let _text = policy.next_if(|field| field.is(OCTET_STRING));
    if !(outer.is_empty() && fields.is_empty() && policy.is_empty()) {
        return Err("the end of proxyCertInfo");
    }
    Ok(Oid::new(language.content.into()))
}

/// RFC 3820 section 3.4: the subject is the issuer's with one common name more.
fn extends(proxy: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    let (Some(name), Some(above)) = (content(proxy.subject().as_raw()), content(issuer.subject().as_raw())) else {
        return false;
    };
    proxy.subject().iter_rdn().count() == issuer.subject().iter_rdn().count() + 1
        && last_common_name(proxy.subject()).is_some()
        && name.starts_with(above)
}

fn content(name: &[u8]) -> Option<&[u8]> {
    Der::new(name).next().map(|name| name.content)
}
