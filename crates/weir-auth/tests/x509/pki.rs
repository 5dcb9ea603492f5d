//! A small public key infrastructure, made with OpenSSL: authorities, users, proxies and VOMS servers, good and bad.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openssl::asn1::{Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private, Public};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, ExtendedKeyUsage, KeyUsage};
use openssl::x509::{X509, X509Builder, X509Extension, X509Name, X509NameBuilder, X509NameRef};
use rustls_pki_types::CertificateDer;
use tempfile::TempDir;
use weir_auth::x509::{ClientCertificates, ClientCertificatesConfig};

pub(crate) const INHERIT_ALL: &str = "1.3.6.1.5.5.7.21.1";
pub(crate) const INDEPENDENT: &str = "1.3.6.1.5.5.7.21.2";
pub(crate) const LIMITED: &str = "1.3.6.1.4.1.3536.1.1.1.9";
pub(crate) const HOUR: i64 = 3600;

/// A user with a key and a certificate.
#[derive(Clone)]
pub(crate) struct Party {
    pub(crate) key: PKey<Private>,
    /// The own certificate first, then those that vouch for it, without the root.
    pub(crate) chain: Vec<X509>,
}

impl Party {
    pub(crate) fn certificate(&self) -> &X509 {
        &self.chain[0]
    }

    /// As TLS takes it.
    pub(crate) fn identity(&self) -> weir_http::Identity {
        let text = |pem: Vec<u8>| String::from_utf8(pem).unwrap();
        weir_http::Identity {
            chain_pem: self.chain.iter().map(|one| text(one.to_pem().unwrap())).collect(),
            key_pem: text(self.key.private_key_to_pem_pkcs8().unwrap()),
        }
    }

    pub(crate) fn der(&self) -> Vec<CertificateDer<'static>> {
        self.chain.iter().map(|one| one.to_der().unwrap().into()).collect()
    }
}

/// The content of a certificate.
pub(crate) struct Wish {
    pub(crate) subject: X509Name,
    pub(crate) key: PKey<Private>,
    /// Another's key, of which only this half is known.
    pub(crate) public: Option<PKey<Public>>,
    /// Seconds from now.
    pub(crate) valid: (i64, i64),
    pub(crate) serial: u32,
    pub(crate) extensions: Vec<X509Extension>,
}

impl Wish {
    pub(crate) fn new(subject: X509Name) -> Self {
        Self {
            subject,
            key: ec_key(),
            public: None,
            valid: (-HOUR, HOUR),
            serial: 7,
            extensions: Vec::new(),
        }
    }

    /// An authority: with all that one needs.
    pub(crate) fn authority(subject: &str) -> Self {
        let mut wish = Self::new(name(subject));
        wish.extensions = vec![
            BasicConstraints::new().critical().ca().build().unwrap(),
            KeyUsage::new().critical().key_cert_sign().crl_sign().build().unwrap(),
        ];
        wish.valid = (-1000 * HOUR, 1000 * HOUR);
        wish
    }

    /// A person or a host.
    pub(crate) fn end_entity(subject: &str) -> Self {
        Self::end_entity_named(name(subject))
    }

    pub(crate) fn end_entity_named(subject: X509Name) -> Self {
        let mut wish = Self::new(subject);
        wish.extensions = vec![
            KeyUsage::new()
                .critical()
                .digital_signature()
                .key_encipherment()
                .build()
                .unwrap(),
            ExtendedKeyUsage::new().client_auth().server_auth().build().unwrap(),
        ];
        wish.valid = (-100 * HOUR, 100 * HOUR);
        wish
    }

    /// A proxy of the issuer, with one common name more.
    pub(crate) fn proxy(issuer: &Party, common_name: &str, language: &str, path_length: Option<u8>) -> Self {
        let mut wish = Self::new(longer(issuer.certificate().subject_name(), common_name));
        wish.extensions = vec![
            KeyUsage::new()
                .critical()
                .digital_signature()
                .key_encipherment()
                .build()
                .unwrap(),
            extension("1.3.6.1.5.5.7.1.14", true, &proxy_info(language, path_length)),
        ];
        wish
    }

    pub(crate) fn valid(mut self, from: i64, until: i64) -> Self {
        self.valid = (from, until);
        self
    }

    pub(crate) fn with(mut self, extension: X509Extension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Signed by itself.
    pub(crate) fn root(self) -> Party {
        let certificate = self.sign(&self.subject, &self.key);
        Party {
            key: self.key,
            chain: vec![certificate],
        }
    }

    /// Signed by an authority or, if it is a proxy, by a party; the chain leaves the root out.
    pub(crate) fn signed_by(self, issuer: &Party) -> Party {
        let certificate = self.sign(issuer.certificate().subject_name(), &issuer.key);
        let above = issuer.certificate();
        let is_root = above.issuer_name().try_cmp(above.subject_name()).unwrap().is_eq();
        let mut chain = vec![certificate];
        if !is_root {
            chain.extend(issuer.chain.iter().cloned());
        }
        Party { key: self.key, chain }
    }

    fn sign(&self, issuer: &X509NameRef, key: &PKey<Private>) -> X509 {
        let mut builder = X509Builder::new().unwrap();
        builder.set_version(2).unwrap();
        let serial = BigNum::from_u32(self.serial).unwrap().to_asn1_integer().unwrap();
        builder.set_serial_number(&serial).unwrap();
        builder.set_subject_name(&self.subject).unwrap();
        builder.set_issuer_name(issuer).unwrap();
        match &self.public {
            Some(public) => builder.set_pubkey(public).unwrap(),
            None => builder.set_pubkey(&self.key).unwrap(),
        }
        let at = |seconds| Asn1Time::from_unix(now_unix() + seconds).unwrap();
        builder.set_not_before(&at(self.valid.0)).unwrap();
        builder.set_not_after(&at(self.valid.1)).unwrap();
        for extension in &self.extensions {
            builder.append_extension2(extension).unwrap();
        }
        builder.sign(key, MessageDigest::sha256()).unwrap();
        builder.build()
    }
}

pub(crate) fn now_unix() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

pub(crate) fn later(seconds: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(seconds)
}

pub(crate) fn ec_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

pub(crate) fn rsa_key(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
}

/// A name from its slash form.
pub(crate) fn name(text: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().unwrap();
    for part in text.split('/').skip(1) {
        let (key, value) = part.split_once('=').unwrap();
        builder.append_entry_by_text(key, value).unwrap();
    }
    builder.build()
}

fn longer(name: &X509NameRef, common_name: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().unwrap();
    for entry in name.entries() {
        builder.append_entry(entry).unwrap();
    }
    builder.append_entry_by_text("CN", common_name).unwrap();
    builder.build()
}

pub(crate) fn extension(oid: &str, critical: bool, value: &[u8]) -> X509Extension {
    let oid = Asn1Object::from_str(oid).unwrap();
    let value = Asn1OctetString::new_from_bytes(value).unwrap();
    X509Extension::new_from_der(&oid, critical, &value).unwrap()
}

/// DER: a tag and what is inside.
pub(crate) fn der(tag: u8, inside: &[&[u8]]) -> Vec<u8> {
    let content = inside.concat();
    let mut der = vec![tag];
    match u16::try_from(content.len()).unwrap() {
        short @ 0..=127 => der.push(u8::try_from(short).unwrap()),
        long => der.extend([&[0x82], long.to_be_bytes().as_slice()].concat()),
    }
    der.extend(content);
    der
}

pub(crate) fn oid(text: &str) -> Vec<u8> {
    der(6, &[Asn1Object::from_str(text).unwrap().as_slice()])
}

fn proxy_info(language: &str, path_length: Option<u8>) -> Vec<u8> {
    let path_length = path_length.map(|length| der(2, &[&[length]])).unwrap_or_default();
    der(0x30, &[&path_length, &der(0x30, &[&oid(language)])])
}

/// Directories as a site keeps them.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) authority: Party,
}

impl Site {
    /// With one authority.
    pub(crate) fn new() -> Self {
        let site = Self {
            dir: TempDir::new().unwrap(),
            authority: Wish::authority("/C=XY/O=Grid/CN=Test CA").root(),
        };
        fs::create_dir(site.authorities()).unwrap();
        fs::create_dir(site.vomsdir()).unwrap();
        site.trust(&site.authority, "ca.pem");
        site
    }

    pub(crate) fn authorities(&self) -> PathBuf {
        self.dir.path().join("certificates")
    }

    pub(crate) fn vomsdir(&self) -> PathBuf {
        self.dir.path().join("vomsdir")
    }

    pub(crate) fn trust(&self, authority: &Party, file: &str) {
        self.put(file, &authority.certificate().to_pem().unwrap());
    }

    /// Puts a file beside the authorities.
    pub(crate) fn put(&self, file: &str, content: &[u8]) {
        fs::write(self.authorities().join(file), content).unwrap();
    }

    pub(crate) fn lsc(&self, vo: &str, host: &str, names: &[&str]) {
        let dir = self.vomsdir().join(vo);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{host}.lsc")), names.join("\n")).unwrap();
    }

    pub(crate) fn config(&self) -> ClientCertificatesConfig {
        let mut config = ClientCertificatesConfig::new(self.authorities());
        config.vomsdir = Some(self.vomsdir());
        config
    }

    pub(crate) fn open(&self) -> ClientCertificates {
        ClientCertificates::open(self.config(), SystemTime::now()).unwrap()
    }

    pub(crate) fn user(&self) -> Party {
        Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Ada Lovelace").signed_by(&self.authority)
    }
}
