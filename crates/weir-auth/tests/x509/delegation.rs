//! Delegation: a proxy that a client signs for our key is taken if it is the client's, and nothing else.

use std::time::{Duration, SystemTime};

use openssl::x509::X509Req;
use weir_auth::Secret;
use weir_auth::x509::delegation::{DelegationError, Request, accept, delegation_id};
use weir_auth::x509::{Identity, SignError};

use crate::pki::{INHERIT_ALL, LIMITED, Party, Site, Wish};

/// The FTS client would delegate to an id that the service does not know.
#[test]
fn the_id_is_that_of_fts() {
    let fqan = "/testvo/Role=lcgadmin/Capability=NULL";
    assert_eq!(delegation_id("/DC=ch/DC=cern/CN=Test User", [fqan]), "9e2539dfc15d6427");
}

/// A client's answer to a request: it signs the key with the certificate or proxy that it holds.
fn sign(request: &Request, issuer: &Party, language: &str) -> Party {
    let request = X509Req::from_pem(request.csr_pem.as_bytes()).unwrap();
    let key = request.public_key().unwrap();
    assert!(request.verify(&key).unwrap(), "clients check the signature");
    assert_eq!(key.rsa().unwrap().size(), 256, "clients take RSA only");
    let mut wish = Wish::proxy(issuer, "1700000000", language, None);
    wish.public = Some(key);
    wish.signed_by(issuer)
}

fn chain_pem(party: &Party) -> String {
    let pem = party
        .chain
        .iter()
        .map(|one| String::from_utf8(one.to_pem().unwrap()).unwrap());
    pem.collect()
}

/// A client could delegate in somebody else's name, or the service would hold a proxy without its key.
#[test]
fn only_the_clients_own_proxy_for_our_key_is_taken() {
    let site = Site::new();
    let certificates = site.open();
    let now = SystemTime::now();
    let user = site.user();
    let proxy = Wish::proxy(&user, "1", INHERIT_ALL, None).signed_by(&user);
    let client = Identity::clone(&certificates.verify(&proxy.der(), now).unwrap());
    let request = Request::new().unwrap();
    let take = |pem: &str| accept(&request.key_pem, pem, &client, &certificates, now);

    let delegated = chain_pem(&sign(&request, &proxy, INHERIT_ALL));
    let credential = take(&delegated).unwrap();
    assert_eq!(credential.identity.subject, client.subject);
    assert_eq!(credential.identity.n_proxies, 2);
    let file = credential.pem.expose();
    let kinds: Vec<_> = file.lines().filter(|line| line.starts_with("-----BEGIN")).collect();
    assert_eq!(kinds[0], "-----BEGIN CERTIFICATE-----");
    assert_eq!(kinds[1], "-----BEGIN PRIVATE KEY-----");
    assert_eq!(kinds.len(), 4, "proxy, key, client's proxy, user");
    assert!(!format!("{credential:?}{request:?}").contains("BEGIN PRIVATE"));

    let other_request = Request::new().unwrap();
    assert!(matches!(
        take(&chain_pem(&sign(&other_request, &proxy, INHERIT_ALL))),
        Err(DelegationError::OtherKey)
    ));
    let mallory = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Mallory").signed_by(&site.authority);
    let error = take(&chain_pem(&sign(&request, &mallory, INHERIT_ALL))).unwrap_err();
    assert!(error.to_string().contains("CN=Mallory, the client is"), "{error}");
    let stranger = Wish::authority("/C=XY/O=Grid/CN=Stranger").root();
    let untrusted = Wish::end_entity("/CN=x").signed_by(&stranger);
    assert!(matches!(
        take(&chain_pem(&sign(&request, &untrusted, INHERIT_ALL))),
        Err(DelegationError::Refused(_))
    ));
    let first = delegated.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    for pem in ["", "hello", first] {
        assert!(matches!(take(pem), Err(DelegationError::Chain)), "{pem}");
    }
    let bad_key = accept(&Secret::new("no key"), &delegated, &client, &certificates, now);
    assert!(matches!(bad_key, Err(DelegationError::Key)));
}

/// A limited proxy would become a full one by delegating.
#[test]
fn a_limited_proxy_does_not_delegate() {
    let site = Site::new();
    let certificates = site.open();
    let now = SystemTime::now();
    let user = site.user();
    let limited = Wish::proxy(&user, "1", LIMITED, None).signed_by(&user);
    let client = certificates.verify(&limited.der(), now).unwrap();
    let request = Request::new().unwrap();
    let pem = chain_pem(&sign(&request, &limited, INHERIT_ALL));
    let error = accept(&request.key_pem, &pem, &client, &certificates, now).unwrap_err();
    assert!(matches!(error, DelegationError::Refused(_)), "{error}");
}

/// Our own client could not delegate: by certificate or by proxy, with keys of both kinds.
#[test]
fn a_proxy_that_our_client_signs_is_taken() {
    let site = Site::new();
    let certificates = site.open();
    let now = SystemTime::now();
    let user = site.user();
    let proxy = Wish::proxy(&user, "1", INHERIT_ALL, None).signed_by(&user);
    let request = Request::new().unwrap();
    for (holder, n_proxies) in [(&user, 1), (&proxy, 2)] {
        let client = Identity::clone(&certificates.verify(&holder.der(), now).unwrap());
        let life = Duration::from_secs(600);
        let (chain, end) = weir_auth::x509::sign(request.csr_pem.as_bytes(), &holder.identity(), now, life).unwrap();
        assert_eq!(end, now + life);
        let credential = accept(&request.key_pem, &chain, &client, &certificates, now).unwrap();
        assert_eq!(credential.identity.n_proxies, n_proxies);
        assert_eq!(credential.identity.subject, client.subject);
        let late = now + life + Duration::from_secs(1);
        assert!(accept(&request.key_pem, &chain, &client, &certificates, late).is_err());
    }
    // Not beyond the certificate's own end, and not for a key that is not the request's.
    let years = Duration::from_secs(100 * 366 * 86_400);
    let (_, end) = weir_auth::x509::sign(request.csr_pem.as_bytes(), &user.identity(), now, years).unwrap();
    assert!(end < now + years);
    let error = weir_auth::x509::sign(request.csr_pem.as_bytes(), &user.identity(), now + years, years).unwrap_err();
    assert!(matches!(error, SignError::Expired), "{error}");
    let error = weir_auth::x509::sign(b"no request", &user.identity(), now, years).unwrap_err();
    assert!(matches!(error, SignError::Request), "{error}");
}
