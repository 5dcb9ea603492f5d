//! Attribute certificates as VOMS servers make them, good and bad.

use openssl::hash::MessageDigest;
use openssl::sign::Signer;
use openssl::x509::X509;
use x509_parser::time::ASN1Time;

use crate::pki::{HOUR, INHERIT_ALL, Party, Wish, der, extension, now_unix, oid};

pub(crate) const FQANS: [&str; 2] = [
    "/dune/Role=NULL/Capability=NULL",
    "/dune/prod/Role=pilot/Capability=NULL",
];

/// The content of an attribute certificate.
pub(crate) struct Attributes<'a> {
    pub(crate) holder: &'a X509,
    /// Whether the holder is named by its issuer, as the standard has it, or by its subject, as vomsd does.
    pub(crate) by_issuer: bool,
    pub(crate) server: &'a Party,
    pub(crate) authority: &'a str,
    pub(crate) fqans: Vec<&'a str>,
    pub(crate) valid: (i64, i64),
    pub(crate) extensions: Vec<Vec<u8>>,
    pub(crate) digest: MessageDigest,
    pub(crate) algorithm: &'a str,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(holder: &'a Party, server: &'a Party) -> Self {
        Self {
            holder: holder.certificate(),
            by_issuer: true,
            server,
            authority: "dune://voms.example.org:15000",
            fqans: FQANS.to_vec(),
            valid: (-60, HOUR),
            extensions: Vec::new(),
            digest: MessageDigest::sha256(),
            algorithm: "1.2.840.10045.4.3.2",
        }
    }

    /// RFC 5755 in VOMS's shape: see GFD.182.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        let general_name = |name: Vec<u8>| der(0x30, &[&der(0xa4, &[&name])]);
        let mut serial = self.holder.serial_number().to_bn().unwrap().to_vec();
        // A number, not a negative one: one serial in 256 begins with such a bit once its zeros are gone.
        if serial.first().is_some_and(|first| *first >= 0x80) {
            serial.insert(0, 0);
        }
        let name = if self.by_issuer {
            self.holder.issuer_name()
        } else {
            self.holder.subject_name()
        };
        let name = general_name(name.to_der().unwrap());
        let holder = der(0x30, &[&der(0xa0, &[&name, &der(2, &[&serial])])]);
        let server = general_name(self.server.certificate().subject_name().to_der().unwrap());
        let algorithm = der(0x30, &[&oid(self.algorithm)]);
        let validity = der(0x30, &[&time(self.valid.0), &time(self.valid.1)]);

        let fqans: Vec<Vec<u8>> = self.fqans.iter().map(|fqan| der(4, &[fqan.as_bytes()])).collect();
        let authority = der(0xa0, &[&der(0x86, &[self.authority.as_bytes()])]);
        let syntax = der(0x30, &[&authority, &der(0x30, &[&fqans.concat()])]);
        let attribute = der(0x30, &[&oid("1.3.6.1.4.1.8005.100.100.4"), &der(0x31, &[&syntax])]);

        let chain: Vec<u8> = self.server.chain.iter().flat_map(|one| one.to_der().unwrap()).collect();
        let chain = der(0x30, &[&der(0x30, &[&chain])]);
        let mut extensions = vec![ac_extension("1.3.6.1.4.1.8005.100.100.10", false, &chain)];
        extensions.push(ac_extension("2.5.29.56", false, &[5, 0]));
        extensions.extend(self.extensions.iter().cloned());

        let info = der(
            0x30,
            &[
                &der(2, &[&[1]]),
                &holder,
                &der(0xa0, &[&server]),
                &algorithm,
                &der(2, &[&[0x12, 0x34]]),
                &validity,
                &der(0x30, &[&attribute]),
                &der(0x30, &[&extensions.concat()]),
            ],
        );
        let mut signer = Signer::new(self.digest, &self.server.key).unwrap();
        let signature = signer.sign_oneshot_to_vec(&info).unwrap();
        der(0x30, &[&info, &algorithm, &der(3, &[&[0], &signature])])
    }

    pub(crate) fn proxy(&self, user: &Party) -> Party {
        proxy_with(user, &[self.certificate()])
    }
}

pub(crate) fn proxy_with(user: &Party, certificates: &[Vec<u8>]) -> Party {
    let value = der(0x30, &[&der(0x30, &[&certificates.concat()])]);
    Wish::proxy(user, "1", INHERIT_ALL, None)
        .with(extension("1.3.6.1.4.1.8005.100.100.5", false, &value))
        .signed_by(user)
}

pub(crate) fn ac_extension(id: &str, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der(1, &[&[0xff]]) } else { Vec::new() };
    der(0x30, &[&oid(id), &critical, &der(4, &[value])])
}

fn time(seconds: i64) -> Vec<u8> {
    let time = ASN1Time::from_timestamp(now_unix() + seconds).unwrap().to_datetime();
    let (date, clock) = (time.date(), time.time());
    let text = format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    );
    der(0x18, &[text.as_bytes()])
}
