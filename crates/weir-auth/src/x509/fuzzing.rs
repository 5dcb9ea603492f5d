//! Invariants of the certificate readers here, for any input. Built for tests and for the targets of `fuzz/` only.
#![allow(clippy::unwrap_used, reason = "a panic is how a target fails")]

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::authorities::Authorities;
use super::clients::ClientCertificates;
use super::delegation::{Request, accept};
use super::der::Der;
use super::gridmap::Gridmap;
use super::identity::Identity;
use super::revocation::{RevocationCheck, Revocations};
use super::signing_policy::SigningPolicies;
use super::voms::answer::{self, MESSAGE_MAX, WARNINGS_MAX};
use super::voms::attribute_certificate::in_extension;
use super::voms::client::url;
use super::voms::lsc::{Servers, chains as lsc_chains};
use super::voms::request::AttributeRequest;
use super::voms::vomses::{VomsServer, Vomses};

/// The authority that the seeds are signed by. Its key is gone, so that no other certificate of it can come up.
const AUTHORITY: &[u8] = include_bytes!("fuzzing.pem");
/// When the seeds were made.
const NOW: u64 = 1_795_288_931;
const AUTHORITY_NAME: &str = "/C=XY/O=Grid/CN=Test CA";
/// All subjects of its certificates.
const SUBJECTS: [&str; 4] = [
    AUTHORITY_NAME,
    "/C=XY/O=Grid/CN=Sub CA",
    "/C=XY/O=Grid/CN=B",
    "/DC=xy/DC=grid/OU=People/CN=Ada Lovelace",
];
const FQANS: [&str; 2] = [
    "/dune/Role=NULL/Capability=NULL",
    "/dune/prod/Role=pilot/Capability=NULL",
];

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn authority() -> Vec<u8> {
    CertificateDer::from_pem_slice(AUTHORITY).unwrap().to_vec()
}

static CERTIFICATES: LazyLock<ClientCertificates> = LazyLock::new(|| {
    let check = RevocationCheck::IfPresent;
    let authorities = Authorities::new(
        &[authority()],
        Revocations::default(),
        SigningPolicies::default(),
        check,
    );
    let lsc = format!("/C=XY/O=Grid/CN=voms.example.org\n{AUTHORITY_NAME}\n");
    ClientCertificates::of(authorities.unwrap(), Servers::of("dune", "voms.example.org", &lsc))
});

/// The certificates in a row of DER: a client's chain.
fn split(data: &[u8]) -> Vec<CertificateDer<'_>> {
    let mut row = Der::new(data);
    let mut chain = Vec::new();
    while let Some(element) = row.next() {
        chain.push(CertificateDer::from(element.raw));
    }
    chain
}

/// A client's chain: an accepted client is one that the authority has certified, in time, and of no other VO or group
/// than the server stated.
pub fn chains(data: &[u8]) {
    let Ok(identity) = CERTIFICATES.verify(&split(data), now()) else {
        return;
    };
    assert!(SUBJECTS.contains(&identity.subject.as_str()), "{identity:?}");
    assert!(identity.not_after > now());
    assert!(identity.voms.is_empty() || identity.vo() == Some("dune"));
    assert!(identity.fqans().all(|fqan| FQANS.contains(&fqan)), "{identity:?}");
}

/// The extension with attribute certificates: accepted values are fit for a log line and of the server's own VO.
pub fn attributes(data: &[u8]) {
    let Ok(certificates) = in_extension(data) else { return };
    for certificate in certificates.into_iter().flatten() {
        let root = format!("/{}", certificate.vo);
        for fqan in &certificate.fqans {
            assert!(fqan.bytes().all(|byte| byte.is_ascii_graphic()));
            let rest = fqan.strip_prefix(&root).unwrap();
            assert!(rest.is_empty() || rest.starts_with('/'));
        }
        let names = certificate.holder_names.iter().chain(&certificate.issuers);
        names.for_each(|name| assert!(is_printable(name), "{name:?}"));
        assert!(!certificate.host.contains('/') && !certificate.vo.contains('/'));
    }
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Files beside the authorities, all kinds of them: none may crash us, and only an authority's own list counts.
pub fn trust_files(data: &[u8]) {
    let mut revocations = Revocations::default();
    let _ = revocations.add(data, &[authority()]);
    let text = String::from_utf8_lossy(data);
    for chain in lsc_chains(&text) {
        assert!(chain.len() >= 2 && chain.iter().all(|name| name.starts_with('/')));
    }
    let mut policies = SigningPolicies::default();
    policies.add(&text);
    policies.allow(AUTHORITY_NAME, SUBJECTS[3]);
    let last = text.lines().last().unwrap_or_default();
    policies.allow(last, last);
}

/// A grid-mapfile: names are printable and lead to accounts.
pub fn gridmap(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(map) = Gridmap::parse(text) else { return };
    for name in map.names() {
        assert!(name.starts_with('/') && is_printable(name), "{name:?}");
        let accounts = map.accounts(name);
        assert!(
            !accounts.is_empty() && accounts.iter().all(|account| !account.is_empty()),
            "{name:?}"
        );
    }
}

/// A client's message for a delegation: only we have signed a proxy for this key, so none is accepted.
pub fn delegation(data: &[u8]) {
    static REQUEST: LazyLock<Request> = LazyLock::new(|| Request::new().unwrap());
    static CLIENT: LazyLock<Identity> = LazyLock::new(|| Identity {
        subject: SUBJECTS[3].to_owned(),
        issuer: AUTHORITY_NAME.to_owned(),
        not_after: now(),
        n_proxies: 1,
        is_limited: false,
        voms: Vec::new(),
        certificate: Vec::new(),
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    accept(&REQUEST.key_pem, text, &CLIENT, &CERTIFICATES, now()).unwrap_err();
}

/// A VOMS server's answer: the part that is passed on is printable and bounded.
pub fn voms_answers(data: &[u8]) {
    let is_told = |text: &str| assert!(text.len() <= 3 * MESSAGE_MAX && is_printable(text), "{text:?}");
    match answer::read(data) {
        Ok(given) => {
            assert!(!given.certificate.is_empty() && given.warnings.len() <= WARNINGS_MAX);
            given.warnings.iter().for_each(|warning| is_told(warning));
        }
        Err(error) => is_told(&error.to_string()),
    }
}

/// A `vomses` file, and a user's request: for any content, a request goes to the server's host and port, for the
/// requested attributes and nothing else.
pub fn vomses(data: &[u8]) {
    const USUAL: &str = "\"dune\" \"voms.example.org\" \"15000\" \"/CN=voms.example.org\" \"dune\"";
    let Ok(text) = std::str::from_utf8(data) else { return };
    let nothing = AttributeRequest {
        vo: "dune".to_owned(),
        fqans: Vec::new(),
    };
    let vomses = Vomses::parse(text).unwrap_or_default();
    for server in vomses.servers() {
        assert!(server.subject.starts_with('/') && is_printable(&server.subject));
        assert!(vomses.of(&server.alias).contains(&server) && !vomses.of(&server.vo).is_empty());
        goes_to(server, &nothing);
    }
    let commands: Vec<String> = text.lines().map(str::to_owned).collect();
    let usual = Vomses::parse(USUAL).unwrap();
    match AttributeRequest::read(&commands) {
        Ok(requests) => requests
            .iter()
            .for_each(|request| goes_to(&usual.servers()[0], request)),
        Err(error) => assert!(is_printable(&error.to_string())),
    }
}

fn goes_to(server: &VomsServer, request: &AttributeRequest) {
    let uri: http::Uri = url(server, request, Duration::from_secs(1)).parse().unwrap();
    assert_eq!(
        (uri.host(), uri.port_u16()),
        (Some(server.host.as_str()), Some(server.port))
    );
    assert_eq!(uri.path(), "/generate-ac");
    let [fqans, lifetime] = uri.query().unwrap().split('&').collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(lifetime, "lifetime=1");
    let asked = fqans.strip_prefix("fqans=").unwrap().split(',');
    assert!(request.fqans.is_empty() || asked.eq(request.fqans.iter()));
}

#[cfg(test)]
mod tests {
    use super::super::authorities::unix;
    use super::super::voms::attribute_certificate;
    use super::*;

    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

    /// A crash that was fixed must stay fixed, and a corpus must not get lost.
    #[test]
    fn corpora_hold() {
        run("auth_chains", chains);
        run("auth_attributes", attributes);
        run("auth_trust_files", trust_files);
        run("auth_gridmap", gridmap);
        run("auth_delegation", delegation);
        run("auth_voms_answers", voms_answers);
        run("auth_vomses", vomses);
    }

    /// Seeds that are refused at once would make the fuzzer knock at a closed door.
    #[test]
    fn the_seeds_lead_far_inside() {
        let seed =
            |path: &str| std::fs::read(format!("{}/../../fuzz/corpus/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let good = CERTIFICATES
            .verify(&split(&seed("auth_chains/attributes")), now())
            .unwrap();
        assert_eq!(good.fqans().collect::<Vec<_>>(), FQANS);
        let limited = CERTIFICATES
            .verify(&split(&seed("auth_chains/limited")), now())
            .unwrap();
        assert!(limited.is_limited && unix(limited.not_after) > unix(now()));
        for name in ["good", "by-voms-proxy-fake"] {
            let seed = seed(&format!("auth_attributes/{name}"));
            let read = in_extension(&seed).unwrap();
            assert_eq!(read[0].as_ref().unwrap().fqans, FQANS, "{name}");
        }
        let answer = answer::read(&seed("auth_voms_answers/attributes")).unwrap();
        assert_eq!(attribute_certificate::parse(&answer.certificate).unwrap().fqans, FQANS);
        let vomses = Vomses::parse(std::str::from_utf8(&seed("auth_vomses/usual")).unwrap()).unwrap();
        assert_eq!(vomses.of("dune").len(), 2);
        for name in ["list-pem", "list-der"] {
            let list = seed(&format!("auth_trust_files/{name}"));
            Revocations::default().add(&list, &[authority()]).unwrap();
        }
    }
}
