//! Proxies (RFC 3820), made with OpenSSL.

use openssl::{
    asn1::{Asn1Object, Asn1OctetString, Asn1Time},
    bn::BigNum,
    hash::MessageDigest,
    pkey::{PKey, PKeyRef, Public},
    rsa::Rsa,
    x509::{X509, X509Builder, X509Extension, X509Name, X509Req, extension::KeyUsage},
};
use weir_http::{Identity, PeerCertificates};

const HOUR: i64 = 3600;

/// The common names on the first certificate, one after the other.
pub(crate) fn names(peer: &PeerCertificates) -> String {
    let certificate = X509::from_der(&peer.0[0]).unwrap();
    let names = certificate.subject_name().entries();
    names
        .map(|entry| format!("/{}", entry.data().to_string().unwrap()))
        .collect()
}

/// A proxy for a key, in PEM with the chain behind it.
fn sign(issuer: &Identity, key: &PKeyRef<Public>, policy: &[u8], hours: i64) -> String {
    let above = X509::from_pem(issuer.chain_pem.as_bytes()).unwrap();
    let mut name = X509Name::builder().unwrap();
    for entry in above.subject_name().entries() {
        name.append_entry(entry).unwrap();
    }
    name.append_entry_by_text("CN", "1700000000").unwrap();
    let mut builder = X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    let serial = BigNum::from_u32(7).unwrap().to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(&name.build()).unwrap();
    builder.set_issuer_name(above.subject_name()).unwrap();
    builder.set_pubkey(key).unwrap();
    let minutes = |minutes: i64| Asn1Time::from_unix(now() + minutes * 60).unwrap();
    builder.set_not_before(&minutes(-5)).unwrap();
    builder.set_not_after(&minutes(hours * 60)).unwrap();
    let usage = KeyUsage::new()
        .critical()
        .digital_signature()
        .key_encipherment()
        .build();
    builder.append_extension(usage.unwrap()).unwrap();
    let info = [
        &[
            0x30,
            policy.len() as u8 + 4,
            0x30,
            policy.len() as u8 + 2,
            6,
            policy.len() as u8,
        ],
        policy,
    ]
    .concat();
    let oid = Asn1Object::from_str("1.3.6.1.5.5.7.1.14").unwrap();
    let info = Asn1OctetString::new_from_bytes(&info).unwrap();
    builder
        .append_extension(X509Extension::new_from_der(&oid, true, &info).unwrap())
        .unwrap();
    let secret = PKey::private_key_from_pem(issuer.key_pem.as_bytes()).unwrap();
    builder.sign(&secret, MessageDigest::sha256()).unwrap();
    String::from_utf8(builder.build().to_pem().unwrap()).unwrap() + &issuer.chain_pem
}

fn now() -> i64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    now.as_secs() as i64
}

fn made(issuer: &Identity, policy: &str) -> Identity {
    let policy = Asn1Object::from_str(policy).unwrap();
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let public = PKey::public_key_from_pem(&key.public_key_to_pem().unwrap()).unwrap();
    Identity {
        chain_pem: sign(issuer, &public, policy.as_slice(), 12),
        key_pem: String::from_utf8(key.private_key_to_pem_pkcs8().unwrap()).unwrap(),
    }
}

/// A proxy that may do all that its issuer may.
pub(crate) fn proxy(issuer: &Identity) -> Identity {
    made(issuer, INHERIT_ALL)
}

/// A limited proxy.
pub(crate) fn limited(issuer: &Identity) -> Identity {
    made(issuer, "1.3.6.1.4.1.3536.1.1.1.9")
}

const INHERIT_ALL: &str = "1.3.6.1.5.5.7.21.1";

/// The body that a client sends for a request for delegation.
pub(crate) fn answer(request_pem: &str, issuer: &Identity, hours: i64) -> String {
    let request = X509Req::from_pem(request_pem.as_bytes()).unwrap();
    let key = request.public_key().unwrap();
    assert!(request.verify(&key).unwrap());
    let policy = Asn1Object::from_str(INHERIT_ALL).unwrap();
    sign(issuer, &key, policy.as_slice(), hours)
}

/// Seconds since the epoch of a time as FTS3 writes it, less than a minute off what was asked.
pub(crate) fn is_in(hours: i64, time: &str) -> bool {
    let at = jiff::civil::DateTime::strptime("%Y-%m-%dT%H:%M:%S", time).unwrap();
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_second();
    (at - now() - hours * HOUR).abs() < 60
}
