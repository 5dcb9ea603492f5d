//! Delegation, the client's side: signs the proxy (RFC 3820) that a service asked for.

use std::time::{Duration, SystemTime};

use openssl::asn1::{Asn1Integer, Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::KeyUsage;
use openssl::x509::{X509, X509Extension, X509NameBuilder, X509Req};
use thiserror::Error;

/// The extension `proxyCertInfo` (RFC 3820 section 3.8).
const PROXY_CERT_INFO: &str = "1.3.6.1.5.5.7.1.14";

/// Its value: no limit on further proxies, and the policy language `id-ppl-inheritAll`: the proxy may do all that its signer may.
const INHERIT_ALL: [u8; 14] = [
    0x30, 0x0c, 0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x15, 0x01,
];

/// A proxy begins this much before it is signed, since clocks differ.
const EARLIER: Duration = Duration::from_secs(300);

/// Why a proxy was not signed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SignError {
    /// The certificate or its key is none.
    #[error("the certificate and its key cannot be read")]
    Identity(#[source] openssl::error::ErrorStack),
    /// The service's request is none, or not signed by its own key.
    #[error("the request for a proxy is not one that its key signed")]
    Request,
    /// The certificate has expired.
    #[error("the certificate has expired")]
    Expired,
    /// The proxy could not be made.
    #[error("could not sign a proxy")]
    Sign(#[from] openssl::error::ErrorStack),
}

/// Signs a proxy for the key of a request in PEM; gives the chain that the service takes, and the proxy's end. The proxy is good for `life`, or as
/// long as the certificate itself.
///
/// # Errors
/// [`SignError`].
pub fn sign(
    request_pem: &[u8],
    identity: &weir_http::Identity,
    now: SystemTime,
    life: Duration,
) -> Result<(String, SystemTime), SignError> {
    // Without a passphrase OpenSSL would ask for one on the terminal.
    let key = PKey::private_key_from_pem_passphrase(identity.key_pem.as_bytes(), b"").map_err(SignError::Identity)?;
    let chain = X509::stack_from_pem(identity.chain_pem.as_bytes()).map_err(SignError::Identity)?;
    let Some(own) = chain.first() else {
        return Err(SignError::Identity(openssl::error::ErrorStack::get()));
    };
    let request = X509Req::from_pem(request_pem).map_err(|_| SignError::Request)?;
    let asked = request.public_key().map_err(|_| SignError::Request)?;
    if !request.verify(&asked).unwrap_or(false) {
        return Err(SignError::Request);
    }
    let own_end = super::authorities::end(&own.to_der()?).unwrap_or(now);
    let end = own_end.min(now + life);
    if end <= now {
        return Err(SignError::Expired);
    }
    let proxy = proxy(own, (&key, &asked), (now - EARLIER, end))?;
    let mut pem = proxy.to_pem()?;
    for certificate in &chain {
        pem.extend(certificate.to_pem()?);
    }
    Ok((String::from_utf8(pem).expect("PEM is ASCII"), end))
}

fn proxy(
    own: &X509,
    (key, asked): (&PKey<Private>, &PKey<openssl::pkey::Public>),
    (begin, end): (SystemTime, SystemTime),
) -> Result<X509, openssl::error::ErrorStack> {
    // Each proxy of a certificate needs a name and a number of its own (RFC 3820 section 3.4).
    let mut random = [0; 8];
    openssl::rand::rand_bytes(&mut random)?;
    random[0] &= 0x7f;
    let number = u64::from_be_bytes(random);
    let mut name = X509NameBuilder::new()?;
    for entry in own.subject_name().entries() {
        name.append_entry(entry)?;
    }
    name.append_entry_by_nid(Nid::COMMONNAME, &number.to_string())?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = Asn1Integer::from_bn(BigNum::from_slice(&random)?.as_ref())?;
    builder.set_serial_number(&serial)?;
    builder.set_issuer_name(own.subject_name())?;
    builder.set_subject_name(&name.build())?;
    builder.set_pubkey(asked)?;
    builder.set_not_before(&*time(begin)?)?;
    builder.set_not_after(&*time(end)?)?;
    let info = Asn1OctetString::new_from_bytes(&INHERIT_ALL)?;
    let info = X509Extension::new_from_der(Asn1Object::from_str(PROXY_CERT_INFO)?.as_ref(), true, &info)?;
    builder.append_extension(info)?;
    let usage = KeyUsage::new()
        .critical()
        .digital_signature()
        .key_encipherment()
        .build()?;
    builder.append_extension(usage)?;
    builder.sign(key, MessageDigest::sha256())?;
    Ok(builder.build())
}

fn time(moment: SystemTime) -> Result<Asn1Time, openssl::error::ErrorStack> {
    let seconds = moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Asn1Time::from_unix(i64::try_from(seconds).unwrap_or(i64::MAX))
}
