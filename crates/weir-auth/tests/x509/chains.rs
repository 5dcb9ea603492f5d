//! Chains, good and bad: whom each speaks for, or what is said of it.

use std::time::SystemTime;

use weir_auth::x509::{ClientCertificates, Identity, X509Error};

use crate::pki::{HOUR, INDEPENDENT, INHERIT_ALL, LIMITED, Party, Site, Wish, extension, later, rsa_key};

const ADA: &str = "/DC=xy/DC=grid/OU=People/CN=Ada Lovelace";

fn verify(certificates: &ClientCertificates, party: &Party) -> Result<Identity, X509Error> {
    let identity = certificates.verify(&party.der(), SystemTime::now())?;
    Ok(Identity::clone(&identity))
}

fn refused(certificates: &ClientCertificates, party: &Party, expected: &str) {
    let error = verify(certificates, party).expect_err(expected);
    assert!(error.to_string().contains(expected), "{error} should say {expected:?}");
}

fn proxy(issuer: &Party, language: &str, path_length: Option<u8>) -> Party {
    Wish::proxy(issuer, "1234567", language, path_length).signed_by(issuer)
}

/// A user would be another one with a proxy than without, or nobody.
#[test]
fn the_end_entity_speaks_through_its_proxies() {
    let site = Site::new();
    let certificates = site.open();
    let user = site.user();
    let identity = verify(&certificates, &user).unwrap();
    assert_eq!(identity.subject, ADA);
    assert_eq!(identity.issuer, "/C=XY/O=Grid/CN=Test CA");
    assert_eq!((identity.n_proxies, identity.is_limited), (0, false));
    assert!(identity.not_after > later(90 * 3600), "the user's own end");

    let first = proxy(&user, INHERIT_ALL, None);
    let second = Wish::proxy(&first, "2", INHERIT_ALL, Some(0))
        .valid(-60, 600)
        .signed_by(&first);
    for (party, n_proxies) in [(&first, 1), (&second, 2)] {
        let identity = verify(&certificates, party).unwrap();
        assert_eq!(identity.subject, ADA);
        assert_eq!((identity.n_proxies, identity.is_limited), (n_proxies, false));
        assert_eq!(identity.certificate, user.certificate().to_der().unwrap());
        identity.require_full().unwrap();
    }
    let least = verify(&certificates, &second).unwrap().not_after;
    assert!(least < later(610), "the least of the chain");
}

/// A client that sends the chain in another order, or the root as well, would be refused.
#[test]
fn the_order_of_a_chain_does_not_matter_behind_the_first() {
    let site = Site::new();
    let intermediate = Wish::authority("/C=XY/O=Grid/CN=Sub CA").signed_by(&site.authority);
    let user = Wish::end_entity("/C=XY/O=Grid/CN=A").signed_by(&intermediate);
    let mut party = proxy(&proxy(&user, INHERIT_ALL, None), INHERIT_ALL, None);
    party.chain.push(site.authority.certificate().clone());
    party.chain[1..].reverse();
    let identity = verify(&site.open(), &party).unwrap();
    assert_eq!(identity.subject, "/C=XY/O=Grid/CN=A");
    assert_eq!(identity.issuer, "/C=XY/O=Grid/CN=Sub CA");
}

/// Grid clients leave intermediates out: every site has them in its directory.
#[test]
fn an_intermediate_may_come_from_the_directory() {
    let site = Site::new();
    let intermediate = Wish::authority("/C=XY/O=Grid/CN=Sub CA").signed_by(&site.authority);
    let user = Wish::end_entity("/C=XY/O=Grid/CN=A").signed_by(&intermediate);
    let mut party = proxy(&user, INHERIT_ALL, None);
    party.chain.truncate(2);
    refused(&site.open(), &party, "unable to get local issuer certificate");
    site.trust(&intermediate, "0a1b2c3d.0");
    assert_eq!(verify(&site.open(), &party).unwrap().subject, "/C=XY/O=Grid/CN=A");
}

/// A limited proxy would start jobs, at once or by delegating itself.
#[test]
fn limited_once_is_limited_ever_after() {
    let site = Site::new();
    let certificates = site.open();
    let limited = proxy(&site.user(), LIMITED, None);
    for party in [
        &limited,
        &proxy(&limited, INHERIT_ALL, None),
        &proxy(&limited, LIMITED, None),
    ] {
        let identity = verify(&certificates, party).unwrap();
        assert!(identity.is_limited);
        let error = identity.require_full().unwrap_err();
        assert_eq!(error.status(), 403);
        assert!(error.to_string().contains(ADA), "{error}");
    }
}

/// A client would speak in another's name, or act longer than allowed.
#[test]
fn bad_proxies_are_refused_with_name_and_cause() {
    let site = Site::new();
    let certificates = site.open();
    let user = site.user();
    let check = |party: &Party, expected| refused(&certificates, party, expected);

    let last = proxy(&user, INHERIT_ALL, Some(0));
    check(
        &proxy(&last, INHERIT_ALL, None),
        "proxy path length constraint exceeded",
    );
    let one_more = proxy(&proxy(&user, INHERIT_ALL, Some(1)), INHERIT_ALL, None);
    verify(&certificates, &one_more).unwrap();
    check(
        &proxy(&one_more, INHERIT_ALL, None),
        "proxy path length constraint exceeded",
    );

    let expired = Wish::proxy(&user, "9", INHERIT_ALL, None).valid(-2 * HOUR, -HOUR);
    check(&expired.signed_by(&user), "/CN=Ada Lovelace/CN=9 expired 36");
    let future = Wish::proxy(&user, "9", INHERIT_ALL, None).valid(HOUR, 2 * HOUR);
    check(
        &future.signed_by(&user),
        "/CN=Ada Lovelace/CN=9 is not valid for another 3",
    );

    let soon = Wish::proxy(&user, "9", INHERIT_ALL, None).valid(30, HOUR);
    verify(&certificates, &soon.signed_by(&user)).expect("clocks differ");

    let mut wrong_signer = proxy(&user, INHERIT_ALL, None);
    wrong_signer.chain[0] = proxy(&site.user(), INHERIT_ALL, None).chain[0].clone();
    check(&wrong_signer, "signature failure");

    let other = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Mallory").signed_by(&site.authority);
    let mut other_name = Wish::proxy(&other, "1", INHERIT_ALL, None);
    other_name.subject = Wish::proxy(&user, "1", INHERIT_ALL, None).subject;
    check(
        &other_name.signed_by(&other),
        "is not trusted: proxy subject name violation",
    );

    check(&proxy(&user, INDEPENDENT, None), "has policy 1.3.6.1.5.5.7.21.2");
    check(&proxy(&user, "1.2.3.4", None), "has policy 1.2.3.4");

    let twice = Wish::proxy(&user, "1", INHERIT_ALL, None);
    let again = Wish::proxy(&user, "1", LIMITED, None).extensions.remove(1);
    check(&twice.with(again).signed_by(&user), "is not trusted");
    let garbage = Wish::proxy(&user, "1", INHERIT_ALL, None);
    let garbage = Wish {
        extensions: vec![extension("1.3.6.1.5.5.7.1.14", true, b"\x30\x03\x02\x01")],
        ..garbage
    };
    check(&garbage.signed_by(&user), "is not trusted");
    let unknown = Wish::proxy(&user, "1", INHERIT_ALL, None).with(extension("1.2.3.4.5", true, b"\x05\x00"));
    check(&unknown.signed_by(&user), "unhandled critical extension");
    let mut weak = Wish::proxy(&user, "1", INHERIT_ALL, None);
    weak.key = rsa_key(1024);
    check(&weak.signed_by(&user), "too weak");
}

/// A flipped bit anywhere in a proxy would go unseen.
#[test]
fn a_tampered_proxy_is_refused() {
    let site = Site::new();
    let certificates = site.open();
    let chain = proxy(&site.user(), INHERIT_ALL, None).der();
    certificates.verify(&chain, SystemTime::now()).unwrap();
    for place in 0..chain[0].len() {
        let mut bytes = chain[0].to_vec();
        bytes[place] ^= 1;
        let tampered = [bytes.into(), chain[1].clone()];
        assert!(
            certificates.verify(&tampered, SystemTime::now()).is_err(),
            "byte {place}"
        );
    }
}

/// A user could make certificates for others, or old proxies would be taken without the rules of new ones.
#[test]
fn a_user_is_no_authority() {
    let site = Site::new();
    let certificates = site.open();
    let user = site.user();
    let forged = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Grace Hopper").signed_by(&user);
    refused(&certificates, &forged, "is not trusted");
    let below_a_proxy = Wish::end_entity("/CN=Grace Hopper").signed_by(&proxy(&user, INHERIT_ALL, None));
    refused(&certificates, &below_a_proxy, "is not trusted");
    for common_name in ["proxy", "limited proxy"] {
        let mut legacy = Wish::proxy(&user, common_name, INHERIT_ALL, None);
        legacy.extensions.pop();
        refused(&certificates, &legacy.signed_by(&user), "is a legacy proxy");
    }
    let mut draft = Wish::proxy(&user, "123", INHERIT_ALL, None);
    draft.extensions[1] = extension("1.3.6.1.4.1.3536.1.222", true, b"\x30\x00");
    refused(&certificates, &draft.signed_by(&user), "is a legacy proxy");
    let stranger = Wish::authority("/C=XY/O=Grid/CN=Test CA").root();
    let theirs = Wish::end_entity(ADA).signed_by(&stranger);
    refused(&certificates, &theirs, "Ada Lovelace is not trusted");
    refused(&certificates, &proxy(&theirs, INHERIT_ALL, None), "is not trusted");
}

/// A proxy would outlive its user's certificate.
#[test]
fn every_certificate_of_the_chain_must_be_in_time() {
    let site = Site::new();
    let user = Wish::end_entity(ADA).valid(-2 * HOUR, -HOUR).signed_by(&site.authority);
    refused(
        &site.open(),
        &proxy(&user, INHERIT_ALL, None),
        "certificate /DC=xy/DC=grid/OU=People/CN=Ada Lovelace expired",
    );
    let party = proxy(&site.user(), INHERIT_ALL, None);
    let certificates = site.open();
    certificates.verify(&party.der(), SystemTime::now()).unwrap();
    let error = certificates
        .verify(&party.der(), later(3700))
        .expect_err("what was known would be taken for ever");
    assert_eq!(error.status(), 401);
    assert!(error.to_string().contains("expired"), "{error}");
}

/// A chain without end would take our time.
#[test]
fn long_and_odd_chains_are_refused() {
    let site = Site::new();
    let certificates = site.open();
    let user = site.user();
    let many = Party {
        chain: vec![user.certificate().clone(); 21],
        ..user.clone()
    };
    refused(&certificates, &many, "21 certificates, at most 20");
    assert!(certificates.verify(&[], SystemTime::now()).is_err());
    for bytes in [vec![], vec![0x30], b"hello".to_vec()] {
        assert!(certificates.verify(&[bytes.into()], SystemTime::now()).is_err());
    }
    let mut trailing = user.certificate().to_der().unwrap();
    trailing.push(0);
    assert!(certificates.verify(&[trailing.into()], SystemTime::now()).is_err());
}

/// A client that gets a value of a name past an authority would have the rights of anybody.
#[test]
fn a_value_that_reads_as_a_further_attribute_is_refused() {
    use openssl::x509::X509NameBuilder;
    let site = Site::new();
    let certificates = site.open();
    let wish = |values: &[(&str, &str)]| {
        let mut builder = X509NameBuilder::new().unwrap();
        for (key, value) in values {
            builder.append_entry_by_text(key, value).unwrap();
        }
        Wish::end_entity_named(builder.build()).signed_by(&site.authority)
    };
    for forged in [
        wish(&[("O", "Good/CN=admin")]),
        wish(&[("O", "Good"), ("CN", "eve/OU=People/CN=Ada Lovelace")]),
        wish(&[("O", "Good"), ("CN", "x/1.2.3=y")]),
        wish(&[("O", "Good"), ("CN", "x/emailAddress=a@b")]),
    ] {
        refused(&certificates, &forged, "cannot be told from another one");
        refused(
            &certificates,
            &proxy(&forged, INHERIT_ALL, None),
            "cannot be told from another one",
        );
    }
    for plain in ["host/node.example.org", "a/b", "x=y", "a/=b", "a/b=c", "CN=x", "/"] {
        let identity = verify(&certificates, &wish(&[("O", "Good"), ("CN", plain)])).unwrap();
        assert_eq!(identity.subject, format!("/O=Good/CN={plain}"));
    }
}
