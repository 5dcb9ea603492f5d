//! Changes by authorities and operators to a directory while a door is open: revoke, renew, add, take away, limit.

use std::fs;
use std::time::{Duration, SystemTime};

use weir_auth::x509::{ClientCertificates, RevocationCheck, X509Error};

use crate::pki::{HOUR, INHERIT_ALL, Party, Site, Wish};

fn list(authority: &Party, revoked: &[u64], next_update: i64) -> Vec<u8> {
    let key = String::from_utf8(authority.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let key = rcgen::KeyPair::from_pem(&key).unwrap();
    let certificate = authority.certificate().to_der().unwrap().into();
    let issuer = rcgen::Issuer::from_ca_cert_der(&certificate, key).unwrap();
    let at = |seconds: i64| {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        let now = SystemTime::now();
        if seconds < 0 {
            (now - distance).into()
        } else {
            (now + distance).into()
        }
    };
    let revoked = revoked.iter().map(|serial| rcgen::RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: at(-HOUR),
        reason_code: None,
        invalidity_date: None,
    });
    let params = rcgen::CertificateRevocationListParams {
        this_update: at(-2 * HOUR),
        next_update: at(next_update),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    params.signed_by(&issuer).unwrap().pem().unwrap().into_bytes()
}

fn person(site: &Site, common_name: &str, serial: u32) -> Party {
    let mut wish = Wish::end_entity(&format!("/C=XY/O=Grid/CN={common_name}"));
    wish.serial = serial;
    wish.signed_by(&site.authority)
}

fn verify(certificates: &ClientCertificates, party: &Party) -> Result<(), X509Error> {
    certificates.verify(&party.der(), SystemTime::now()).map(drop)
}

fn open(site: &Site, check: RevocationCheck) -> ClientCertificates {
    let mut config = site.config();
    config.revocation = check;
    ClientCertificates::open(config, SystemTime::now()).unwrap()
}

/// A stolen key would go on being trusted, or a single list out of date would shut everybody out.
#[test]
fn revocation_lists_count_as_configured() {
    use RevocationCheck::{IfPresent, Off, Required};
    let site = Site::new();
    let (good, bad) = (person(&site, "Good", 41), person(&site, "Bad", 300));
    let proxy_of_bad = Wish::proxy(&bad, "1", INHERIT_ALL, None).signed_by(&bad);
    let check = |mode, party: &Party, expected: &str| match verify(&open(&site, mode), party) {
        Ok(()) => assert_eq!(expected, "", "taken"),
        Err(error) => assert!(
            !expected.is_empty() && error.to_string().contains(expected),
            "{error} should say {expected:?}"
        ),
    };

    check(IfPresent, &bad, "");
    check(
        Required,
        &good,
        "the revocation list of /C=XY/O=Grid/CN=Test CA is missing",
    );

    site.put("ca.r0", &list(&site.authority, &[300], HOUR));
    let revoked = "/C=XY/O=Grid/CN=Bad was revoked by /C=XY/O=Grid/CN=Test CA";
    for mode in [IfPresent, Required] {
        check(mode, &good, "");
        check(mode, &bad, revoked);
        check(mode, &proxy_of_bad, revoked);
    }
    check(Off, &bad, "");

    site.put("ca.r0", &list(&site.authority, &[300], -HOUR));
    check(IfPresent, &good, "");
    check(IfPresent, &bad, revoked);
    check(Required, &good, "is out of date");

    // Of the right name and the wrong key: somebody wants others shut out, or one let in.
    let stranger = Wish::authority("/C=XY/O=Grid/CN=Test CA").root();
    site.put("ca.r0", &list(&stranger, &[41], HOUR));
    check(IfPresent, &good, "");
    check(Required, &good, "is missing");
    site.put("ca.r0", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    check(IfPresent, &good, "");
}

/// An authority could sign the names of another's users.
#[test]
fn an_authority_stays_within_its_signing_policy() {
    let site = Site::new();
    let policy = "access_id_CA X509 '/C=XY/O=Grid/CN=Test CA'\npos_rights globus CA:sign\n\
                  cond_subjects globus '\"/C=XY/O=Grid/*\"'\n";
    site.put("ca.signing_policy", policy.as_bytes());
    let certificates = site.open();
    let within = person(&site, "A", 1);
    verify(&certificates, &within).unwrap();
    verify(
        &certificates,
        &Wish::proxy(&within, "1", INHERIT_ALL, None).signed_by(&within),
    )
    .unwrap();
    let error = verify(&certificates, &site.user()).unwrap_err().to_string();
    assert_eq!(
        error,
        "/C=XY/O=Grid/CN=Test CA may not sign /DC=xy/DC=grid/OU=People/CN=Ada Lovelace: its signing policy does not name it"
    );
}

/// A new authority or list would count only after a restart; or a directory that is being replaced would shut all out.
#[test]
fn changes_count_without_a_restart() {
    let site = Site::new();
    let certificates = site.open();
    let other = Wish::authority("/C=XY/O=Other/CN=Other CA").root();
    let theirs = Wish::end_entity("/C=XY/O=Other/CN=B").signed_by(&other);
    let ours = person(&site, "A", 41);
    let now = SystemTime::now;
    assert!(!certificates.refresh(now()).unwrap());
    verify(&certificates, &ours).unwrap();
    verify(&certificates, &theirs).unwrap_err();

    site.trust(&other, "12345678.0");
    assert!(certificates.refresh(now()).unwrap());
    verify(&certificates, &theirs).unwrap();

    site.put("ca.r0", &list(&site.authority, &[41], HOUR));
    assert!(certificates.refresh(now()).unwrap());
    assert!(
        matches!(verify(&certificates, &ours), Err(X509Error::Revoked { .. })),
        "known from before"
    );

    let away = site.dir.path().join("away");
    fs::rename(site.authorities(), &away).unwrap();
    assert_eq!(certificates.refresh(now()).unwrap_err().status(), 503);
    verify(&certificates, &theirs).unwrap();
    fs::create_dir(site.authorities()).unwrap();
    certificates.refresh(now()).unwrap_err();
    verify(&certificates, &theirs).unwrap();
    ClientCertificates::open(site.config(), now()).unwrap_err();
}

/// An authority that was renewed under its name would be tried with the old certificate only.
#[test]
fn a_renewed_authority_is_trusted_beside_its_old_certificate() {
    let site = Site::new();
    let mut old = Wish::authority("/C=XY/O=Grid/CN=Test CA").valid(-100 * HOUR, -HOUR);
    old.key = site.authority.key.clone();
    site.trust(&old.root(), "00-old.pem");
    site.put(
        "01-odd.pem",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    verify(&site.open(), &site.user()).unwrap();
}
