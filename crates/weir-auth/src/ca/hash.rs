//! The names under which OpenSSL looks certificates up in a directory: `<hash of the subject>.<number>`.

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::error::CaError;

/// The hash of a certificate's subject, as `openssl x509 -subject_hash` prints it in hexadecimal.
///
/// The first four bytes, little endian, of the SHA-1 of the subject's canonical form (OpenSSL `X509_NAME_hash_ex`,
/// `crypto/x509/x_name.c`). In that form string values are UTF-8, in lower case, without white space around and with single blanks
/// within, and without the sequence around the whole. None if the bytes are no certificate.
pub fn subject_hash(certificate: &[u8]) -> Option<u32> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let canonical = canonical_name(certificate.subject())?;
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &canonical);
    Some(u32::from_le_bytes(hash.as_ref()[..4].try_into().ok()?))
}

/// Fills a directory with the certificates of the files, each under its hashed name; the directory is made if missing.
///
/// Different certificates of one subject get successive numbers; existing ones are kept and not repeated.
///
/// # Errors
/// [`CaError::File`], or [`CaError::Content`] if a file holds no certificate.
pub fn hashed_directory(dir: &Path, files: &[&Path]) -> Result<(), CaError> {
    fs::create_dir_all(dir).map_err(CaError::file(dir))?;
    for file in files {
        let pem = fs::read_to_string(file).map_err(CaError::file(file))?;
        for certificate in read_certificates(&pem, file)? {
            let hash = subject_hash(&certificate).ok_or_else(|| CaError::Content {
                path: (*file).to_owned(),
                expected: "certificate in PEM",
            })?;
            let text = to_pem(&certificate);
            if let Some(target) = free_name(dir, hash, &text) {
                fs::write(&target, text).map_err(CaError::file(&target))?;
            }
        }
    }
    Ok(())
}

/// The first free `<hash>.<number>`; none if this very certificate is there.
fn free_name(dir: &Path, hash: u32, text: &str) -> Option<PathBuf> {
    for number in 0_u32.. {
        let target = dir.join(format!("{hash:08x}.{number}"));
        match fs::read_to_string(&target) {
            Ok(there) if there == text => return None,
            Ok(_) => {}
            Err(_) => return Some(target),
        }
    }
    None
}

/// A certificate in PEM.
pub fn to_pem(certificate: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// Relative names one after the other, each a SET of SEQUENCEs of type and canonical value.
fn canonical_name(name: &X509Name<'_>) -> Option<Vec<u8>> {
    let mut canonical = Vec::new();
    for relative in name.iter() {
        let mut attributes = Vec::new();
        for attribute in relative.iter() {
            let mut pair = attribute.attr_type().to_der_vec().ok()?;
            pair.extend(canonical_value(attribute.attr_value())?);
            attributes.push(wrap(0x30, &pair));
        }
        // DER orders the members of a SET OF by their encoding.
        attributes.sort();
        canonical.extend(wrap(0x31, &attributes.concat()));
    }
    Some(canonical)
}

fn canonical_value(value: &Any<'_>) -> Option<Vec<u8>> {
    let text = match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::VisibleString => {
            std::str::from_utf8(value.data).ok()?.to_owned()
        }
        // One byte a character: the Latin-1 that OpenSSL takes T61 strings for.
        Tag::T61String => value.data.iter().map(|byte| char::from(*byte)).collect(),
        Tag::BmpString => {
            let units: Vec<u16> = value
                .data
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
                .collect();
            String::from_utf16(&units).ok()?
        }
        Tag::UniversalString => value
            .data
            .chunks_exact(4)
            .map(|quad| char::from_u32(u32::from_be_bytes([quad[0], quad[1], quad[2], quad[3]])))
            .collect::<Option<String>>()?,
        _ => return value.to_der_vec().ok(),
    };
    let words: Vec<&str> = text
        .split([' ', '\t', '\n', '\r', '\u{b}', '\u{c}'])
        .filter(|word| !word.is_empty())
        .collect();
    Some(wrap(0x0c, words.join(" ").to_ascii_lowercase().as_bytes()))
}

/// DER: tag, length, content.
fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    if content.len() < 0x80 {
        der.push(content.len() as u8);
    } else {
        der.push(0x80 | significant.len() as u8);
        der.extend(significant);
    }
    der.extend(content);
    der
}

/// The certificates in PEM text, in order.
///
/// # Errors
/// [`CaError::Content`] if there is none, or one is broken; `path` is named in it.
pub fn read_certificates(pem: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, CaError> {
    let broken = || CaError::Content {
        path: path.to_owned(),
        expected: "certificate in PEM",
    };
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| broken())?;
    if all.is_empty() { Err(broken()) } else { Ok(all) }
}
