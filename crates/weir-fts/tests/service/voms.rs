//! VOMS attributes for delegated proxies, fetched by the service.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use http::{Method, StatusCode};
use openssl::{pkey::PKey, x509::X509};
use serde_json::{Value, json};
use weir_auth::{
    ca::San,
    x509::{ClientCertificates, ClientCertificatesConfig},
};
use weir_http::Identity;

use crate::{
    attributes::Attributes,
    certificates::{Grid, User, job, storage},
    lab::Answer,
    pki::{HOUR, Party},
    proxies::is_in,
    voms_server::{Says, VomsStub},
};

const SERVER: &str = "/O=Weir/CN=voms.example.org";
const FQANS: [&str; 2] = [
    "/testvo/Role=lcgadmin/Capability=NULL",
    "/testvo/Role=NULL/Capability=NULL",
];

/// A service that asks a VOMS server, and Ada with a certificate.
struct Scene {
    grid: Grid,
    server: Party,
    stub: VomsStub,
    ada: Identity,
    vomses: PathBuf,
}

impl Scene {
    async fn start() -> Self {
        let mut made = None;
        let grid = Grid::start_managed(|config, authority, dir| {
            let server = authority.issue(&[San::from("127.0.0.1")], "voms.example.org").unwrap();
            let lsc = dir.join("vomsdir/testvo/voms.example.org.lsc");
            fs::create_dir_all(lsc.parent().unwrap()).unwrap();
            let above = X509::from_pem(authority.pem().as_bytes()).unwrap();
            fs::write(lsc, format!("{SERVER}\n{}\n", slash_form(&above))).unwrap();
            let stub = VomsStub::start(&server);
            let vomses = dir.join("vomses");
            fs::create_dir(&vomses).unwrap();
            fs::write(vomses.join("testvo"), stub.line("testvo", SERVER, "testvo")).unwrap();
            let x509 = config.x509.as_mut().unwrap();
            x509.vomsdir = Some(dir.join("vomsdir"));
            x509.vomses = Some(vomses.clone());
            made = Some((party(&server), stub, vomses));
        })
        .await;
        let (server, stub, vomses) = made.unwrap();
        let ada = grid.certificate("Ada");
        Self {
            grid,
            server,
            stub,
            ada,
            vomses,
        }
    }

    fn ada(&self) -> User<'_> {
        self.grid.with(&self.ada)
    }

    fn holder(&self) -> Party {
        party(&self.ada)
    }

    /// The server gives what is right, but for a change.
    fn gives(&self, change: impl FnOnce(&mut Attributes<'_>)) {
        self.stub.say(Says::Gives(self.certificate(&self.holder(), change)));
    }

    fn certificate(&self, holder: &Party, change: impl FnOnce(&mut Attributes<'_>)) -> Vec<u8> {
        let mut attributes = Attributes {
            authority: "testvo://voms.example.org:15000",
            fqans: FQANS.to_vec(),
            valid: (-60, 6 * HOUR),
            ..Attributes::new(holder, &self.server)
        };
        change(&mut attributes);
        attributes.certificate()
    }

    async fn voms(&self, wanted: &Value) -> Answer {
        let ada = self.ada();
        let path = format!("/delegation/{}/voms", ada.id().await);
        ada.post(&path, wanted).await
    }

    async fn delegated(&self) -> Value {
        let ada = self.ada();
        ada.get(&format!("/delegation/{}", ada.id().await)).await.json
    }
}

/// Without the authority, which signed itself.
fn party(identity: &Identity) -> Party {
    let mut chain = X509::stack_from_pem(identity.chain_pem.as_bytes()).unwrap();
    chain.truncate(1);
    Party {
        key: PKey::private_key_from_pem(identity.key_pem.as_bytes()).unwrap(),
        chain,
    }
}

fn slash_form(certificate: &X509) -> String {
    let entries = certificate.subject_name().entries();
    let text = |entry: &openssl::x509::X509NameEntryRef| {
        let key = entry.object().nid().short_name().unwrap();
        format!("/{key}={}", entry.data().to_string().unwrap())
    };
    entries.map(text).collect()
}

/// Users who come without attributes could not use what their VO allows them, or would have to delegate anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_delegated_proxy_gets_attributes_and_files_move_with_them() {
    let mut scene = Scene::start().await;
    let id = scene.ada().id().await;
    assert_eq!(scene.voms(&json!(["testvo"])).await.status, StatusCode::NOT_FOUND);
    assert_eq!(scene.ada().delegate(&scene.ada, 12).await.status, StatusCode::CREATED);
    assert_eq!(scene.delegated().await["voms_attrs"], json!([]));

    scene.gives(|_| {});
    let answer = scene.voms(&json!(["testvo:/testvo/Role=lcgadmin", "testvo"])).await;
    assert_eq!(answer.status.as_u16(), 203, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert!(is_in(6, &answer.text), "{}", answer.text);
    let now = scene.delegated().await;
    assert_eq!(now, json!({ "termination_time": answer.text, "voms_attrs": FQANS }));
    assert_eq!(scene.ada().id().await, id, "the id is that of the certificate");
    let [asked] = scene.stub.asked().try_into().unwrap();
    let target = "/generate-ac?fqans=/testvo/Role=lcgadmin&lifetime=";
    assert!(asked.target.starts_with(target), "{}", asked.target);
    let by = X509::from_der(&asked.by).unwrap();
    assert_eq!(
        slash_form(&by),
        "/O=Weir/CN=Ada/CN=1700000000",
        "in the name of who delegated"
    );

    let (a, b) = (storage(&scene.grid.lab), storage(&scene.grid.lab));
    a.put("/f", b"content");
    let ada = scene.ada();
    let taken = ada.post("/jobs", &job(&a.url("/f"), &b.url("/g"))).await;
    assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
    let path = format!("/jobs/{}?files=reason", taken.json["job_id"].as_str().unwrap());
    let done = scene.grid.lab.settled(async || ada.get(&path).await.json).await;
    assert_eq!(done["job_state"], "FINISHED", "{done}");
    assert_eq!(done["cred_id"], json!(id));
    let dir = scene.grid.lab.directory.path();
    let mut site = ClientCertificatesConfig::new(dir.join("trusted"));
    site.vomsdir = Some(dir.join("vomsdir"));
    let site = ClientCertificates::open(site, SystemTime::now()).unwrap();
    for seen in a.all_seen().iter().chain(&b.all_seen()) {
        let shown = seen.shown.as_ref().unwrap();
        let identity = site.verify(&shown.0, SystemTime::now()).unwrap();
        assert_eq!(
            identity.fqans().collect::<Vec<_>>(),
            FQANS,
            "{} {}",
            seen.method,
            seen.path
        );
    }

    drop(ada);
    scene.grid.lab.down().await;
    let mut store = fs::read(scene.grid.lab.store()).unwrap();
    store.extend(fs::read(scene.grid.lab.store().with_extension("db-wal")).unwrap_or_default());
    for secret in ["PRIVATE KEY", "CERTIFICATE"] {
        assert!(
            !store.windows(secret.len()).any(|window| window == secret.as_bytes()),
            "{secret}"
        );
    }
    scene.grid.lab.up().await;
    assert_eq!(scene.delegated().await, now, "it outlives the process");
}

/// A user would lose a good proxy to a bad answer, or not learn what is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_why_and_changes_nothing() {
    let scene = Scene::start().await;
    assert_eq!(scene.ada().delegate(&scene.ada, 12).await.status, StatusCode::CREATED);
    let before = scene.delegated().await;
    let fails = async |wanted: &str, expected: &str| {
        let answer = scene.voms(&json!([wanted])).await;
        assert_eq!(answer.status.as_u16(), 424, "{expected}: {}", answer.text);
        let message = answer.message();
        assert!(message.starts_with("Failed to generate a proxy: "), "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(message.len() < 700, "{message}");
        assert_eq!(scene.delegated().await, before, "{expected}");
    };
    fails("atlas", "no VOMS server of atlas is known").await;
    scene.stub.say(Says::refuses("NoSuchUser", "User unknown to this VO."));
    fails("testvo", "it refused: NoSuchUser: User unknown to this VO.").await;
    let secret = format!("{} Authorization: Bearer abcdefgh.ijklmnop.qrstuvwx", "x".repeat(100));
    scene.stub.say(Says::refuses("InternalError", &secret));
    fails("testvo", "***").await;
    scene.stub.say(Says::refuses("InternalError", &"x".repeat(100_000)));
    fails("testvo", "xxx...").await;
    scene.stub.say(Says::Text(200, "<voms><ac>".to_owned()));
    fails("testvo", "its answer is not understood").await;
    scene.stub.say(Says::Endless);
    fails("testvo", "body is larger than").await;
    scene.gives(|attributes| attributes.valid = (-2 * HOUR, -HOUR));
    fails("testvo", "they expired 36").await;
    let bob = scene.grid.certificate("Bob");
    let bob = party(&bob);
    scene.stub.say(Says::Gives(scene.certificate(&bob, |_| {})));
    fails("testvo", "they belong to another certificate").await;
    scene.gives(|attributes| attributes.authority = "testvo://elsewhere.example.org:15000");
    fails(
        "testvo",
        &format!(
            "{}: its attributes are not taken: there is no testvo/elsewhere",
            scene.stub.name()
        ),
    )
    .await;
    scene.gives(|_| {});
    fails("testvo:/testvo/Role=production", "it gave no /testvo/Role=production").await;

    scene.stub.asked();
    let file = scene.vomses.join("testvo");
    fs::write(
        &file,
        scene.stub.line("testvo", "/O=Weir/CN=other.example.org", "testvo"),
    )
    .unwrap();
    fails("testvo", &format!("it is {SERVER}, not /O=Weir/CN=other.example.org")).await;
    assert!(scene.stub.asked().is_empty(), "a server of another name was asked");
    fs::write(&file, "nonsense").unwrap();
    fails("testvo", "no VOMS server of testvo is known").await;
    fs::remove_dir_all(&scene.vomses).unwrap();
    fails("testvo", "could not read").await;
    fs::create_dir(&scene.vomses).unwrap();
    fs::write(&file, scene.stub.line("testvo", SERVER, "testvo")).unwrap();
    assert_eq!(scene.voms(&json!(["testvo"])).await.status.as_u16(), 203);
}

/// A user would get attributes into another's proxy, or an odd request would reach the VOMS server.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_user_and_only_sound_requests_reach_the_server() {
    let scene = Scene::start().await;
    scene.gives(|_| {});
    assert_eq!(scene.ada().delegate(&scene.ada, 12).await.status, StatusCode::CREATED);
    for wrong in [
        json!({ "vo": "testvo" }),
        json!("testvo"),
        json!([1]),
        json!([["testvo"]]),
        json!(null),
    ] {
        let answer = scene.voms(&wrong).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.text);
        assert_eq!(answer.message(), "Expecting a list of strings");
    }
    for wrong in [
        "",
        "testvo:",
        "testvo:x",
        "testvo:/testvo&lifetime=1",
        "testvo:/a,/b",
        "a b",
    ] {
        let answer = scene.voms(&json!([wrong])).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.text);
        assert!(answer.message().contains("neither a VO nor"), "{}", answer.text);
    }
    let many: Vec<_> = (0..17).map(|number| format!("vo{number}")).collect();
    assert_eq!(scene.voms(&json!(many)).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(scene.voms(&json!([])).await.status.as_u16(), 203);

    let path = format!("/delegation/{}/voms", scene.ada().id().await);
    let foreign = scene.grid.user("Bob").post(&path, &json!(["testvo"])).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "{}", foreign.text);
    let own = scene.grid.lab.get("/whoami").await.json["delegation_id"].clone();
    let path = format!("/delegation/{}/voms", own.as_str().unwrap());
    let token = scene
        .grid
        .lab
        .ask("alice", Method::POST, &path, Some(&json!(["testvo"])))
        .await;
    assert_eq!(token.status, StatusCode::FORBIDDEN, "{}", token.text);
    assert!(token.message().contains("certificate"), "{}", token.text);
    assert!(scene.stub.asked().is_empty());
}

/// A proxy that a user has taken back would be there again when a slow VOMS server answers at last.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_was_taken_back_does_not_come_back() {
    let scene = Scene::start().await;
    assert_eq!(scene.ada().delegate(&scene.ada, 12).await.status, StatusCode::CREATED);
    let certificate = scene.certificate(&scene.holder(), |_| {});
    scene.stub.say(Says::Late(Duration::from_secs(2), certificate));
    let path = format!("/delegation/{}", scene.ada().id().await);
    let deleting = async {
        while scene.stub.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.ada().delete(&path).await
    };
    let wanted = json!(["testvo"]);
    let (answer, deleted) = tokio::join!(scene.voms(&wanted), deleting);
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.text);
    assert_eq!(scene.delegated().await, json!([]));
}

/// One user whose VOMS server does not answer would keep all others from theirs, or these would take it for their server's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_user_does_not_delay_attributes_of_others() {
    let scene = Scene::start().await;
    let bob = scene.grid.certificate("Bob");
    let user = scene.grid.with(&bob);
    assert_eq!(scene.ada().delegate(&scene.ada, 12).await.status, StatusCode::CREATED);
    assert_eq!(user.delegate(&bob, 12).await.status, StatusCode::CREATED);
    let late = Says::Late(Duration::from_secs(9), scene.certificate(&scene.holder(), |_| {}));
    scene.stub.say(late);
    let wanted = json!(["testvo"]);
    let others = async {
        let mut asked = 0;
        while asked < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            asked += scene.stub.asked().len();
        }
        scene.stub.say(Says::Gives(scene.certificate(&party(&bob), |_| {})));
        let refused = scene.voms(&wanted).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
        assert_eq!(refused.headers["retry-after"], "5");
        let message = refused.message();
        assert!(message.contains("too many requests for VOMS attributes"), "{message}");
        let path = format!("/delegation/{}/voms", user.id().await);
        let served = user.post(&path, &wanted).await;
        assert_eq!(served.status.as_u16(), 203, "{}", served.text);
        assert_eq!(scene.stub.asked().len(), 1, "only Bob's request went on");
    };
    let (first, second, ()) = tokio::join!(scene.voms(&wanted), scene.voms(&wanted), others);
    // Both began with the same proxy: one of them came first.
    let mut both = [first.status.as_u16(), second.status.as_u16()];
    both.sort_unstable();
    assert_eq!(both, [203, 409]);
}
