//! VOMS attributes for a proxy that was delegated: asked for at the VO's servers, and carried by a new proxy below it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use openssl::pkey::{PKey, Private};
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509Req};
use weir_auth::Secret;
use weir_auth::ca::hashed_directory;
use weir_auth::x509::delegation::{Credential, Request, accept};
use weir_auth::x509::{
    AttributeRequest, ClientCertificates, EndowError, Identity, VomsClient, VomsError, Vomses, endow,
};
use weir_http::{Client, ClientConfig, TrustRoots};
use x509_parser::asn1_rs::{Any, FromDer as _};
use x509_parser::prelude::X509Certificate;

use crate::attributes::{Attributes, FQANS, ac_extension};
use crate::peers::{by_openssl, run, voms_proxy};
use crate::pki::{HOUR, INHERIT_ALL, LIMITED, Party, Site, Wish};
use crate::voms_server::{Says, VomsStub};

const SERVER: &str = "/C=XY/O=Grid/CN=voms.example.org";
const PATIENCE: Duration = Duration::from_secs(2);
const AUTHORITY: &str = "/C=XY/O=Grid/CN=Test CA";

struct Scene {
    site: Site,
    user: Party,
    server: Party,
    stub: VomsStub,
    certificates: ClientCertificates,
}

/// A VOMS server's certificate, for `127.0.0.1`.
fn server(site: &Site, subject: &str) -> Party {
    let builder = X509::builder().unwrap();
    let name = SubjectAlternativeName::new()
        .ip("127.0.0.1")
        .build(&builder.x509v3_context(None, None))
        .unwrap();
    Wish::end_entity(subject).with(name).signed_by(&site.authority)
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.lsc("dune", "voms.example.org", &[SERVER, AUTHORITY]);
        let user = site.user();
        Self::of(site, user)
    }

    /// With the directories as they are.
    fn of(site: Site, user: Party) -> Self {
        let server = server(&site, SERVER);
        Self {
            stub: VomsStub::start(&server.identity()),
            user,
            certificates: site.open(),
            server,
            site,
        }
    }

    /// The proxy that Ada has delegated.
    fn delegated(&self, language: &str, valid: i64) -> Credential {
        let request = Request::new().unwrap();
        let asked = X509Req::from_pem(request.csr_pem.as_bytes()).unwrap();
        let mut wish = Wish::proxy(&self.user, "1700000000", language, None).valid(-60, valid);
        wish.public = Some(asked.public_key().unwrap());
        let proxy = wish.signed_by(&self.user);
        let client = self.certificates.verify(&self.user.der(), SystemTime::now()).unwrap();
        let chain = proxy.identity().chain_pem;
        accept(&request.key_pem, &chain, &client, &self.certificates, SystemTime::now()).unwrap()
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes::new(&self.user, &self.server)
    }

    fn gives(&self, attributes: &Attributes<'_>) {
        self.stub.say(Says::Gives(attributes.certificate()));
    }

    async fn endow(&self, delegated: &Secret, vomses: &str, commands: &[&str]) -> Result<Credential, EndowError> {
        let commands: Vec<_> = commands.iter().map(|command| (*command).to_owned()).collect();
        let requests = AttributeRequest::read(&commands).unwrap();
        let roots = TrustRoots {
            files: Vec::new(),
            directories: vec![self.site.authorities()],
        };
        let client = Client::new(ClientConfig::new(roots)).unwrap();
        let client = VomsClient::new(client, self.certificates.clone(), PATIENCE);
        let vomses = Vomses::parse(vomses).unwrap();
        endow(&client, &vomses, delegated, &requests, SystemTime::now()).await
    }

    /// With the stub as the only server of `dune`.
    async fn refused(&self, command: &str, expected: &str) {
        let delegated = self.delegated(INHERIT_ALL, 10 * HOUR).pem;
        let line = self.stub.line("dune", SERVER, "dune");
        let error = self.endow(&delegated, &line, &[command]).await.unwrap_err();
        let text = weir_auth::error_chain(&error);
        assert!(text.starts_with("no attributes of dune: "), "{text}");
        assert!(
            text.contains(&self.stub.name()) && text.contains(expected),
            "{expected}: {text}"
        );
        assert!(text.len() < 600, "{text}");
    }
}

fn chain(pem: &Secret) -> Vec<X509> {
    X509::stack_from_pem(pem.expose().as_bytes()).unwrap()
}

fn fqans(identity: &Identity) -> Vec<&str> {
    identity.fqans().collect()
}

/// Users would not get the attributes that their VO gives them, or storages would not take the proxy that carries them.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_the_attributes_that_were_asked_for() {
    let scene = Scene::new();
    let delegated = scene.delegated(INHERIT_ALL, 10 * HOUR);
    scene.gives(&scene.attributes());
    let line = scene.stub.line("d", SERVER, "dune");
    let made = scene
        .endow(&delegated.pem, &line, &["d:/dune/prod/Role=pilot"])
        .await
        .unwrap();
    assert_eq!(fqans(&made.identity), FQANS);
    assert_eq!(made.identity.subject, delegated.identity.subject);
    assert_eq!(made.identity.n_proxies, 2);
    assert!(!made.identity.is_limited);
    // The attributes end first.
    let left = made
        .identity
        .not_after
        .duration_since(SystemTime::now())
        .unwrap()
        .as_secs();
    assert!((3500..=3600).contains(&left), "{left} s");

    let (above, below) = (chain(&delegated.pem), chain(&made.pem));
    assert_eq!(below.len(), above.len() + 1);
    let ders = |chain: &[X509]| chain.iter().map(|one| one.to_der().unwrap()).collect::<Vec<_>>();
    assert_eq!(ders(&below[1..]), ders(&above));
    assert!(
        below[0].public_key().unwrap().public_eq(&key(&made.pem)),
        "it comes with its key"
    );
    assert!(
        !below[0].public_key().unwrap().public_eq(&key(&delegated.pem)),
        "it has a key of its own"
    );
    assert_eq!(key(&made.pem).bits(), 2048);

    let [asked] = scene.stub.asked().try_into().unwrap();
    assert_eq!(asked.by, ders(&above)[0], "asked in the name of who delegated");
    let (fqan, lifetime) = asked.target.split_once("&lifetime=").unwrap();
    assert_eq!(fqan, "/generate-ac?fqans=/dune/prod/Role=pilot");
    assert!(
        (35_900..=36_000).contains(&lifetime.parse::<i64>().unwrap()),
        "{lifetime}"
    );

    // A proxy with attributes can get others, for as long as if it had none.
    scene.gives(&Attributes {
        fqans: vec!["/dune/Role=production/Capability=NULL"],
        valid: (-60, 6 * HOUR),
        ..scene.attributes()
    });
    let again = scene.endow(&made.pem, &line, &["d"]).await.unwrap();
    assert_eq!(fqans(&again.identity), ["/dune/Role=production/Capability=NULL"]);
    let left = again.identity.not_after.duration_since(SystemTime::now()).unwrap();
    assert!((21_500..=21_600).contains(&left.as_secs()), "{left:?}");
    assert_eq!(ders(&chain(&again.pem)[1..]), ders(&above));
    assert!(chain(&again.pem)[0].public_key().unwrap().public_eq(&key(&again.pem)));
    let [asked] = scene.stub.asked().try_into().unwrap();
    assert_eq!(asked.by, ders(&above)[0]);
    assert_eq!(asked.target.split('&').next(), Some("/generate-ac?fqans=/dune"));
    let third = scene.endow(&again.pem, &line, &["d"]).await.unwrap();
    assert_eq!(chain(&third.pem).len(), above.len() + 1);
}

fn key(pem: &Secret) -> PKey<Private> {
    PKey::private_key_from_pem(pem.expose().as_bytes()).unwrap()
}

/// The first VO that is asked for is the primary one; others would be lost, or come before it.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_of_several_vos_ride_together_in_their_order() {
    let scene = Scene::new();
    scene.site.lsc("atlas", "voms.example.org", &[SERVER, AUTHORITY]);
    scene.certificates.refresh(SystemTime::now()).unwrap();
    scene.gives(&scene.attributes());
    let second = VomsStub::start(&scene.server.identity());
    let atlas = Attributes {
        authority: "atlas://voms.example.org:15001",
        fqans: vec!["/atlas/Role=NULL/Capability=NULL"],
        valid: (-60, 2 * HOUR),
        ..scene.attributes()
    };
    second.say(Says::Gives(atlas.certificate()));
    let vomses = scene.stub.line("dune", SERVER, "dune") + &second.line("atlas", SERVER, "atlas");
    let delegated = scene.delegated(INHERIT_ALL, 10 * HOUR).pem;
    let made = scene.endow(&delegated, &vomses, &["atlas", "dune"]).await.unwrap();
    let vos: Vec<_> = made.identity.voms.iter().map(|of| of.vo.as_str()).collect();
    assert_eq!(vos, ["atlas", "dune"]);
    let left = made
        .identity
        .not_after
        .duration_since(SystemTime::now())
        .unwrap()
        .as_secs();
    assert!((3500..=3600).contains(&left), "the first that ends: {left} s");

    second.say(Says::refuses("NoSuchUser", "User unknown to this VO."));
    let error = scene.endow(&delegated, &vomses, &["dune", "atlas"]).await.unwrap_err();
    assert!(
        error.to_string().starts_with("no attributes of atlas: "),
        "half of it was taken: {error}"
    );
}

/// A limited proxy would become a full one; a short one would live on.
#[tokio::test(flavor = "multi_thread")]
async fn no_right_and_no_time_is_gained() {
    let scene = Scene::new();
    scene.gives(&Attributes {
        valid: (-60, 24 * HOUR),
        ..scene.attributes()
    });
    let line = scene.stub.line("dune", SERVER, "dune");
    let ends = |credential: &Credential| {
        let left = credential.identity.not_after.duration_since(SystemTime::now()).unwrap();
        i64::try_from(left.as_secs()).unwrap()
    };
    let limited = scene.delegated(LIMITED, 2 * HOUR);
    let made = scene.endow(&limited.pem, &line, &["dune"]).await.unwrap();
    assert!(made.identity.is_limited);
    assert!((ends(&made) - 2 * HOUR).abs() < 60, "{} s", ends(&made));
    let long = scene.delegated(INHERIT_ALL, 90 * HOUR);
    let made = scene.endow(&long.pem, &line, &["dune"]).await.unwrap();
    assert!((ends(&made) - 12 * HOUR).abs() < 60, "{} s", ends(&made));
    assert!(scene.stub.asked()[1].target.ends_with("&lifetime=43200"));

    let expired = scene.delegated(INHERIT_ALL, 1).pem;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let error = scene.endow(&expired, &line, &["dune"]).await.unwrap_err();
    assert!(matches!(error, EndowError::Refused(_)), "{error:?}");
    assert!(scene.stub.asked().is_empty());
}

/// A VO would be spoken for by somebody else, or for somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn only_attributes_that_we_would_take_from_a_user_are_put_in() {
    let scene = Scene::new();
    let mut grace = Wish::end_entity("/DC=xy/DC=grid/OU=People/CN=Grace Hopper");
    grace.serial = 8;
    let grace = grace.signed_by(&scene.site.authority);
    scene.gives(&Attributes::new(&grace, &scene.server));
    scene.refused("dune", "they belong to another certificate").await;
    for (valid, expected) in [
        ((-2 * HOUR, -HOUR), "they expired 36"),
        ((-HOUR, -60), "they have expired"),
        ((HOUR, 2 * HOUR), "they begin in"),
    ] {
        scene.gives(&Attributes {
            valid,
            ..scene.attributes()
        });
        scene.refused("dune", expected).await;
    }
    scene.gives(&Attributes {
        authority: "dune://elsewhere.example.org:15000",
        ..scene.attributes()
    });
    scene
        .refused("dune", "there is no dune/elsewhere.example.org.lsc")
        .await;
    let another = server(&scene.site, "/C=XY/O=Grid/CN=another.example.org");
    scene.gives(&Attributes::new(&scene.user, &another));
    scene
        .refused(
            "dune",
            "voms.example.org.lsc does not name /C=XY/O=Grid/CN=another.example.org",
        )
        .await;
    scene.site.lsc("atlas", "voms.example.org", &[SERVER, AUTHORITY]);
    scene.certificates.refresh(SystemTime::now()).unwrap();
    scene.gives(&Attributes {
        authority: "atlas://voms.example.org:15000",
        fqans: vec!["/atlas"],
        ..scene.attributes()
    });
    scene.refused("dune", "they are of atlas").await;
    scene.gives(&Attributes {
        extensions: vec![ac_extension("1.2.3.4", true, &[5, 0])],
        ..scene.attributes()
    });
    scene.refused("dune", "critical extension").await;
    let mut tampered = scene.attributes().certificate();
    *tampered.last_mut().unwrap() ^= 1;
    scene.stub.say(Says::Gives(tampered));
    scene.refused("dune", "their signature does not match").await;
    scene.stub.say(Says::Gives([0x30, 0x80].repeat(50)));
    scene.refused("dune", "the attribute certificate should hold").await;
    scene.gives(&scene.attributes());
    scene
        .refused(
            "dune:/dune/Role=production",
            "it gave no /dune/Role=production (WARNING: dune",
        )
        .await;
}

/// A user would not learn why there is nothing, would wait for ever, or fill the memory.
#[tokio::test(flavor = "multi_thread")]
async fn another_answer_of_a_server_is_passed_on() {
    let scene = Scene::new();
    scene.stub.say(Says::refuses("NoSuchUser", "User unknown to this VO."));
    scene
        .refused("dune", "HTTP 403, it refused: NoSuchUser: User unknown to this VO.")
        .await;
    scene.stub.say(Says::refuses("InternalError", &"x".repeat(100_000)));
    scene.refused("dune", "xxxx...").await;
    scene
        .stub
        .say(Says::Text(502, "<html><body>Bad gateway</body></html>".to_owned()));
    scene.refused("dune", "HTTP 502, its answer is not understood").await;
    scene.stub.say(Says::Text(200, "\u{0}\u{1}garbage".to_owned()));
    scene.refused("dune", "its answer is not understood").await;
    scene.stub.say(Says::Endless);
    scene.refused("dune", "body is larger than 262144 bytes").await;
    scene
        .stub
        .say(Says::Late(Duration::from_secs(60), scene.attributes().certificate()));
    scene.refused("dune", "it did not answer within 2 s").await;
}

/// The proxy would be shown to whoever sits at the address, or nobody would be found where one server is down.
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_those_of_vomses_and_tried_in_turn() {
    let scene = Scene::new();
    scene.gives(&scene.attributes());
    let delegated = scene.delegated(INHERIT_ALL, 10 * HOUR).pem;
    let wrong = scene.stub.line("dune", "/C=XY/O=Grid/CN=another.example.org", "dune");
    let error = scene
        .endow(&delegated, &wrong, &["dune"])
        .await
        .unwrap_err()
        .to_string();
    let expected = format!("its certificate is not the one that vomses names: it is {SERVER}, not ");
    assert!(error.contains(&expected), "{error}");
    assert!(scene.stub.asked().is_empty(), "it was asked");

    let good = scene.stub.line("dune", SERVER, "dune");
    let silent = "\"dune\" \"127.0.0.1\" \"1\" \"/CN=x\" \"dune\"\n";
    let made = scene
        .endow(&delegated, &format!("{silent}{wrong}{good}"), &["dune"])
        .await
        .unwrap();
    assert_eq!(made.identity.vo(), Some("dune"));
    let error = scene
        .endow(&delegated, &format!("{silent}{wrong}"), &["dune"])
        .await
        .unwrap_err();
    let EndowError::Voms(VomsError::Servers { failures, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(failures[0].server, "127.0.0.1:1");
    assert_eq!(failures.len(), 2);

    let error = scene.endow(&delegated, &good, &["atlas"]).await.unwrap_err();
    assert!(
        matches!(&error, EndowError::Voms(VomsError::UnknownVo(vo)) if vo == "atlas"),
        "{error:?}"
    );
    let error = scene.endow(&delegated, &good, &["dune", "atlas"]).await.unwrap_err();
    assert!(matches!(error, EndowError::Voms(VomsError::UnknownVo(_))), "{error:?}");
}

/// The attribute certificates in a proxy file.
fn carried(file: &Path) -> Vec<u8> {
    let proxy = X509::from_pem(&std::fs::read(file).unwrap()).unwrap().to_der().unwrap();
    let (_, proxy) = X509Certificate::from_der(&proxy).unwrap();
    let extensions = proxy.extensions().iter();
    let mut found = extensions.filter(|one| one.oid.to_id_string() == "1.3.6.1.4.1.8005.100.100.5");
    let (_, outer) = Any::from_der(found.next().unwrap().value).unwrap();
    let (_, list) = Any::from_der(outer.data).unwrap();
    list.data.to_vec()
}

/// Our writer and our reader could share a mistake: VOMS's own programs give the attributes, and judge the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn voms_takes_the_proxy_with_its_attributes() {
    let Some(site) = by_openssl() else { return };
    let Some(()) = voms_proxy(&site, "fake", "") else {
        return;
    };
    let dir = site.dir.path().to_owned();
    let read = |file: &str| std::fs::read(dir.join(file)).unwrap();
    let user = Party {
        key: PKey::private_key_from_pem(&read("user.key")).unwrap(),
        chain: vec![X509::from_pem(&read("user.pem")).unwrap()],
    };
    site.trust(&site.authority, "test.pem");
    let authorities = site.authorities();
    let files = [authorities.join("ca.pem"), authorities.join("test.pem")];
    hashed_directory(&authorities, &files.each_ref().map(PathBuf::as_path)).unwrap();
    let scene = Scene::of(site, user);
    scene.stub.say(Says::Gives(carried(&dir.join("fake"))));
    let delegated = scene.delegated(INHERIT_ALL, 10 * HOUR).pem;
    let line = scene.stub.line("dune", SERVER, "dune");
    let made = scene
        .endow(&delegated, &line, &["dune:/dune/prod/Role=pilot"])
        .await
        .unwrap();
    assert_eq!(fqans(&made.identity), FQANS);

    weir_auth::files::write_private(&dir.join("proxy.pem"), made.pem.expose().as_bytes()).unwrap();
    let told = run(&dir, "voms-proxy-info -file proxy.pem -all").unwrap();
    for expected in [
        "subject   : /DC=xy/DC=grid/CN=Ada Lovelace/CN=1700000000/CN=",
        "type      : RFC compliant proxy",
        "strength  : 2048 bits",
        "VO        : dune",
        "attribute : /dune/prod/Role=pilot/Capability=NULL",
        "issuer    : /C=XY/O=Grid/CN=voms.example.org",
        "uri       : voms.example.org:15000",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("WARNING") && !told.contains("Error"), "{told}");
}
