//! Adding VOMS attributes to a delegated proxy: requests them in that proxy's name, and makes a proxy below it (RFC
//! 3820), with a key of its own, that carries them.

use std::time::{Duration, SystemTime};

use openssl::asn1::{Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::{BigNum, MsbOption};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::x509::extension::KeyUsage;
use openssl::x509::{X509, X509Builder, X509Extension, X509Name, X509NameRef};
use thiserror::Error;
use tokio::sync::Semaphore;
use x509_parser::asn1_rs::Oid;

use super::authorities::unix;
use super::delegation::Credential;
use super::der::{Der, encode};
use super::error::X509Error;
use super::identity::Identity;
use super::proxy::{INHERIT_ALL, LIMITED, PROXY_CERT_INFO};
use super::voms::ATTRIBUTE_CERTIFICATES;
use super::voms::client::{VomsClient, VomsError, certificates_of};
use super::voms::request::AttributeRequest;
use super::voms::vomses::Vomses;
use crate::secret::Secret;

/// How long a new proxy and its attributes are to live, if the one above it does: the usual time of `voms-proxy-init`, which
/// FTS leaves as it is.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Seconds by which a new proxy begins before its time, for hosts whose clocks are late: as other proxy tools do.
const EARLIER: i64 = 300;
/// The key size of a delegated proxy.
const KEY_BITS: u32 = 2048;

/// One key is made at a time: it costs some 100 ms of CPU, and many may ask for one.
static MAKING: Semaphore = Semaphore::const_new(1);

/// Why a proxy gets no attributes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndowError {
    /// The servers gave none.
    #[error(transparent)]
    Voms(#[from] VomsError),
    /// The delegated proxy, or the one made below it, is not taken.
    #[error("the proxy is not taken")]
    Refused(#[from] X509Error),
    /// The proxy could not be made.
    #[error("the proxy could not be made")]
    Make(#[from] ErrorStack),
    /// The process is about to end.
    #[error("the proxy was not made: the process ends")]
    Stopped,
    /// The new proxy lacks attributes that it should have.
    #[error("the proxy that was made carries attributes of {taken} VOs in place of {given}")]
    Lost {
        /// Attribute certificates that were put into it.
        given: usize,
        /// The attributes found in it.
        taken: usize,
    },
}

/// Asks VOMS servers for all requested attributes, and makes a proxy with them below the delegated one.
///
/// The new proxy lives as long as the one above it and its attributes do, 12 hours at most; it is limited if that one
/// is. Its file ends with the key of the delegated one: earlier additions are dropped, and each call starts from the
/// delegated proxy. `identity.not_after` of the result is the earliest end of all parts.
///
/// # Errors
/// [`EndowError`].
pub async fn endow(
    client: &VomsClient,
    vomses: &Vomses,
    delegated: &Secret,
    requests: &[AttributeRequest],
    now: SystemTime,
) -> Result<Credential, EndowError> {
    let delegated = &above(delegated);
    let identity = client.certificates().verify(&certificates_of(delegated), now)?;
    let left = identity.not_after.duration_since(now).unwrap_or_default();
    let lifetime = left.min(LIFETIME);
    let mut attributes = Vec::with_capacity(requests.len());
    for request in requests {
        attributes.push(client.ask(vomses, delegated, request, lifetime, now).await?);
    }
    let ends = attributes.iter().map(|granted| granted.attributes.not_after);
    let until = ends.chain([now + lifetime]).min().unwrap_or(now);
    let carried: Vec<Vec<u8>> = attributes.into_iter().map(|granted| granted.certificate).collect();
    let (delegated, is_limited) = (delegated.clone(), identity.is_limited);
    let certificates = client.certificates().clone();
    let turn = MAKING.acquire().await;
    let making = tokio::task::spawn_blocking(move || {
        // Held to the end of the work, even if its caller has gone.
        let _turn = turn;
        let pem = below(&delegated, &carried, is_limited, (now, until))?;
        let made = certificates.verify(&certificates_of(&pem), now)?;
        Ok((pem, made, carried.len()))
    });
    let made: Result<_, EndowError> = making.await.unwrap_or(Err(EndowError::Stopped));
    let (pem, made, given) = made?;
    let taken = made.voms.len();
    if taken != given {
        return Err(EndowError::Lost { given, taken });
    }
    let ends = made.voms.iter().map(|attributes| attributes.not_after);
    let not_after = ends.chain([made.not_after]).min().unwrap_or(made.not_after);
    Ok(Credential {
        pem,
        identity: Identity {
            not_after,
            ..Identity::clone(&made)
        },
    })
}

/// The delegated proxy file: of a file with attributes, the part after the new proxy and its key.
fn above(file: &Secret) -> Secret {
    const END: &str = "-----END PRIVATE KEY-----\n";
    match file.expose().split_once(END) {
        Some((_, rest)) if rest.contains(END) => Secret::new(rest),
        _ => file.clone(),
    }
}

/// A proxy file with a new proxy below the one of another file, and the key of that one at its end.
fn below(
    above: &Secret,
    attributes: &[Vec<u8>],
    is_limited: bool,
    (now, until): (SystemTime, SystemTime),
) -> Result<Secret, ErrorStack> {
    let pem = above.expose().as_bytes();
    let (issuer, issuer_key) = (X509::from_pem(pem)?, PKey::private_key_from_pem(pem)?);
    let key = PKey::from_rsa(Rsa::generate(KEY_BITS)?)?;
    let mut serial = BigNum::new()?;
    serial.rand(63, MsbOption::ONE, false)?;

    let mut builder = X509Builder::new()?;
    builder.set_version(2)?;
    let number = serial.to_asn1_integer()?;
    builder.set_serial_number(&number)?;
    builder.set_issuer_name(issuer.subject_name())?;
    let name = longer(issuer.subject_name(), &serial.to_dec_str()?)?;
    builder.set_subject_name(&name)?;
    builder.set_pubkey(&key)?;
    let at = |time: SystemTime, earlier| Asn1Time::from_unix(unix(time) - earlier);
    let (start, end) = (at(now, EARLIER)?, at(until, 0)?);
    builder.set_not_before(&start)?;
    builder.set_not_after(&end)?;
    let usage = KeyUsage::new()
        .critical()
        .digital_signature()
        .key_encipherment()
        .build()?;
    builder.append_extension2(&usage)?;
    let language = if is_limited { LIMITED } else { INHERIT_ALL };
    let policy = encode(0x30, &[&encode(0x06, &[language.as_bytes()])]);
    let info = encode(0x30, &[&policy]);
    let info = extension(&PROXY_CERT_INFO, true, &info)?;
    builder.append_extension2(&info)?;
    let list = encode(0x30, &[&attributes.concat()]);
    let list = extension(&ATTRIBUTE_CERTIFICATES, false, &encode(0x30, &[&list]))?;
    builder.append_extension2(&list)?;
    builder.sign(&issuer_key, MessageDigest::sha256())?;

    let mut file = builder.build().to_pem()?;
    file.extend(key.private_key_to_pem_pkcs8()?);
    for certificate in X509::stack_from_pem(pem)? {
        file.extend(certificate.to_pem()?);
    }
    file.extend(issuer_key.private_key_to_pem_pkcs8()?);
    // PEM is ASCII.
    Ok(Secret::new(String::from_utf8(file).unwrap_or_default()))
}

/// The name with one common name more, and byte for byte the same before that (RFC 3820 section 3.4).
fn longer(name: &X509NameRef, common_name: &str) -> Result<X509Name, ErrorStack> {
    const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let name = name.to_der()?;
    let above = Der::new(&name).next().map_or(&[][..], |name| name.content);
    let text = encode(0x13, &[common_name.as_bytes()]);
    let more = encode(0x31, &[&encode(0x30, &[&COMMON_NAME, &text])]);
    X509Name::from_der(&encode(0x30, &[above, &more]))
}

fn extension(id: &Oid<'_>, critical: bool, value: &[u8]) -> Result<X509Extension, ErrorStack> {
    let id = Asn1Object::from_str(&id.to_id_string())?;
    let value = Asn1OctetString::new_from_bytes(value)?;
    X509Extension::new_from_der(&id, critical, &value)
}
