//! Other people's programs: certificates by `openssl`, proxies with attributes by VOMS's own `voms-proxy-fake`, delegation by
//! FTS's client, requests by curl. `scripts/peers.sh` installs them for `make test`; only `PEERS=no` leaves out what is missing.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use weir_auth::ca::CertificateAuthority;
use weir_auth::x509::delegation::{Request, accept};
use weir_auth::x509::{ClientCertificates, Identity};

use crate::pki::Site;
use crate::tls::start;

const CONFIG: &str = "
[req]
distinguished_name = name
prompt = no
[name]
C = XY
O = Grid
CN = Another CA
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[end_entity]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature,keyEncipherment
extendedKeyUsage = clientAuth,serverAuth
[proxy]
keyUsage = critical,digitalSignature
proxyCertInfo = critical,language:id-ppl-inheritAll,pathlen:0
";

/// Runs a program in a directory and gives its output, or none if it is not installed and `PEERS=no` says that it need not be.
pub(crate) fn run(dir: &Path, line: &str) -> Option<String> {
    let mut words = line.split('|').flat_map(|part| match part.strip_prefix(' ') {
        Some(quoted) if quoted.starts_with('/') => vec![quoted],
        _ => part.split_whitespace().collect(),
    });
    let program = words.next().unwrap();
    let output = Command::new(program)
        .args(words)
        .current_dir(dir)
        .env("HOME", dir)
        .env("X509_CERT_DIR", dir.join("certificates"))
        .env("X509_VOMS_DIR", dir.join("vomsdir"))
        .output();
    match output {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, error) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{line}: {out}{error}");
            Some(out)
        }
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && std::env::var("PEERS").is_ok_and(|peers| peers == "no") =>
        {
            None
        }
        Err(error) => panic!("{line}: {error}"),
    }
}

/// An authority, a user and a VOMS server, by the `openssl` program; none without it.
pub(crate) fn by_openssl() -> Option<Site> {
    let site = Site::new();
    let dir = site.dir.path();
    std::fs::write(dir.join("config"), CONFIG).unwrap();
    run(
        dir,
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out certificates/ca.pem -config config \
         -extensions authority -days 3",
    )?;
    for (name, subject, serial) in [
        ("user", "/DC=xy/DC=grid/CN=Ada Lovelace", "0x00f1"),
        ("host", "/C=XY/O=Grid/CN=voms.example.org", "77"),
    ] {
        run(
            dir,
            &format!("openssl req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj | {subject}"),
        )?;
        run(
            dir,
            &format!(
                "openssl x509 -req -in {name}.csr -CA certificates/ca.pem -CAkey ca.key -set_serial {serial} -days 2 \
                 -extfile config -extensions end_entity -out {name}.pem"
            ),
        )?;
        let key = dir.join(format!("{name}.key"));
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    site.lsc(
        "dune",
        "voms.example.org",
        &["/C=XY/O=Grid/CN=voms.example.org", "/C=XY/O=Grid/CN=Another CA"],
    );
    Some(site)
}

/// Makes a proxy file with VOMS attributes; none without VOMS's clients.
pub(crate) fn voms_proxy(site: &Site, file: &str, options: &str) -> Option<()> {
    let line = format!(
        "voms-proxy-fake -rfc -cert user.pem -key user.key -certdir certificates -hostcert host.pem -hostkey host.key \
         -voms dune -uri voms.example.org:15000 -fqan /dune/Role=NULL/Capability=NULL \
         -fqan /dune/prod/Role=pilot/Capability=NULL -hours 1 -out {file} {options}"
    );
    run(site.dir.path(), &line).map(drop)
}

fn identity(site: &Site, file: &str) -> Identity {
    let pem = std::fs::read(site.dir.path().join(file)).unwrap();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap();
    Identity::clone(&site.open().verify(&chain, SystemTime::now()).unwrap())
}

/// Our own fixtures and our own reader could share a mistake that VOMS does not make.
#[test]
fn proxies_of_voms_itself_are_understood() {
    let Some(site) = by_openssl() else { return };
    let Some(()) = voms_proxy(&site, "full", "") else {
        return;
    };
    let full = identity(&site, "full");
    assert_eq!(full.subject, "/DC=xy/DC=grid/CN=Ada Lovelace");
    assert!(!full.is_limited);
    assert_eq!(full.vo(), Some("dune"));
    assert_eq!(
        full.fqans().collect::<Vec<_>>(),
        [
            "/dune/Role=NULL/Capability=NULL",
            "/dune/prod/Role=pilot/Capability=NULL"
        ]
    );
    let left = full.not_after.duration_since(SystemTime::now()).unwrap().as_secs();
    assert!((3000..=3600).contains(&left), "{left} s");

    voms_proxy(&site, "limited", "-limited").unwrap();
    assert!(identity(&site, "limited").is_limited);
    voms_proxy(&site, "targeted", "-target elsewhere.example.org").unwrap();
    assert_eq!(identity(&site, "targeted").voms, [], "it is for another host");
    voms_proxy(&site, "old", "-pastac 10:00 -vomslife 1").unwrap();
    assert_eq!(identity(&site, "old").voms, [], "its attributes have expired");
    voms_proxy(&site, "critical", "-acextension 1.2.3.4/true:0500").unwrap();
    assert_eq!(
        identity(&site, "critical").voms,
        [],
        "an extension that nobody knows is critical"
    );
}

/// A proxy by the `openssl` program would be another's, or none; or a name would read unlike everywhere else.
#[test]
fn names_and_proxies_are_those_of_openssl() {
    let Some(site) = by_openssl() else { return };
    let dir = site.dir.path();
    run(
        dir,
        "openssl req -newkey rsa:2048 -nodes -keyout proxy.key -out proxy.csr -subj | /DC=xy/DC=grid/CN=Ada Lovelace/CN=1",
    );
    run(
        dir,
        "openssl x509 -req -in proxy.csr -CA user.pem -CAkey user.key -set_serial 1 -days 1 -extfile config \
         -extensions proxy -out proxy.pem",
    );
    let chain = ["proxy.pem", "user.pem"].map(|file| std::fs::read_to_string(dir.join(file)).unwrap());
    std::fs::write(dir.join("chain.pem"), chain.concat()).unwrap();
    let identity = identity(&site, "chain.pem");
    assert_eq!(identity.subject, "/DC=xy/DC=grid/CN=Ada Lovelace");

    let odd = "/C=XY/O=Grid/OU=A+B, C/CN=Łukasz \"Ł\" O'Neill/emailAddress=l@example.org/serialNumber=7/UID=x";
    run(
        dir,
        &format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -utf8 -keyout odd.key -out certificates/odd.pem -subj | {odd}"
        ),
    );
    let printed = run(
        dir,
        "openssl x509 -in certificates/odd.pem -noout -subject -nameopt compat",
    )
    .unwrap();
    let printed = printed.trim().trim_start_matches("subject=").trim();
    let pem = std::fs::read(dir.join("certificates/odd.pem")).unwrap();
    let odd = CertificateDer::from_pem_slice(&pem).unwrap();
    let error = site
        .open()
        .verify(&[odd], SystemTime::now())
        .map(|identity| identity.subject.clone());
    assert_eq!(error.unwrap_or_else(|error| error.to_string()), printed);
}

/// The work of FTS's own client between the two steps of delegation, without the network.
const SIGN: &str = "
import sys, types, datetime
from M2Crypto import X509, EVP
from fts3.rest.client.delegator import Delegator
user = X509.load_cert('user.pem')
request = X509.load_request_string(open('request.pem').read())
assert request.verify(request.get_pubkey()) == 1, 'the request is not signed with its key'
context = types.SimpleNamespace(x509=user, x509_list=[user], evp_key=EVP.load_key('user.key'))
delegator = Delegator(context)
proxy = delegator._sign_request(request, datetime.timedelta(minutes=30), False)
sys.stdout.write(delegator._full_proxy_chain(proxy).decode())
";

/// FTS's client could not delegate: its proxies differ from everybody else's.
#[test]
fn a_proxy_that_the_fts3_client_signs_is_taken() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers/bin/python");
    let Some(site) = by_openssl().filter(|_| python.exists()) else {
        return;
    };
    let dir = site.dir.path();
    let request = Request::new().unwrap();
    std::fs::write(dir.join("request.pem"), &request.csr_pem).unwrap();
    let signed = Command::new(&python)
        .args(["-c", SIGN])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    let chain = String::from_utf8(signed.stdout).unwrap();

    let client = identity(&site, "user.pem");
    let now = SystemTime::now();
    let credential = accept(&request.key_pem, &chain, &client, &site.open(), now).unwrap();
    assert_eq!(credential.identity.subject, client.subject);
    assert_eq!(credential.identity.n_proxies, 1);
    let left = credential.identity.not_after.duration_since(now).unwrap().as_secs();
    assert!((1700..=1801).contains(&left), "{left} s");
}

/// The clients that the grid really uses could not connect with a proxy, or not without one.
#[tokio::test]
async fn curl_is_served_with_a_proxy_and_without() {
    let Some(site) = by_openssl() else { return };
    if voms_proxy(&site, "proxy.pem", "").is_none() || run(site.dir.path(), "curl --version").is_none() {
        return;
    }
    let certificates: ClientCertificates = site.open();
    let ours = CertificateAuthority::create(&site.dir.path().join("ours")).unwrap();
    let server = start(&certificates, &ours);
    let url = format!("https://{}/", server.address());
    for version in ["--tls-max 1.2", "--tlsv1.3"] {
        let curl = |options: &str| {
            let line = format!("curl --silent --show-error --cacert ours/ca.pem {version} {options} {url}");
            let dir = site.dir.path().to_owned();
            tokio::task::spawn_blocking(move || run(&dir, &line).unwrap())
        };
        let answer = curl("--cert proxy.pem --key proxy.pem").await.unwrap();
        assert_eq!(answer, "/DC=xy/DC=grid/CN=Ada Lovelace by 1 proxies");
        assert_eq!(curl("").await.unwrap(), "nobody");
        assert_eq!(curl("--oauth2-bearer token").await.unwrap(), "nobody");
    }
}
