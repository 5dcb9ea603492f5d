//! Users with certificates: their names, their delegations, and the credentials that move their files.

use std::{fs, future::ready, path::Path, sync::Arc};

use http::{Method, Request, StatusCode, header};
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use weir_auth::ca::{CertificateAuthority, San};
use weir_fts::TransferConfig;
use weir_http::{CertificateError, ChainCheck, Client, Identity, body, testing::until};
use weir_transfer::config::{AdminConfig, X509Config};

use crate::{
    lab::{Answer, Lab},
    proxies::{answer, is_in, limited, proxy},
    stub::Stub,
};

const ADA: &str = "/O=Weir/CN=Ada";

pub(crate) struct Grid {
    pub(crate) lab: Lab,
}

/// A user with a certificate, and perhaps a token.
pub(crate) struct User<'a> {
    lab: &'a Lab,
    client: Client,
    token: Option<&'a str>,
}

impl Grid {
    /// Ada and Bob are of a VO by the grid-mapfile, Eve is not; Root is an administrator.
    async fn start() -> Self {
        Self::start_managed(|_, _, _| {}).await
    }

    /// The change also sees who signs certificates here, and the lab's directory.
    pub(crate) async fn start_managed(change: impl FnOnce(&mut TransferConfig, &CertificateAuthority, &Path)) -> Self {
        let lab = Lab::start_managed(|config, authority, dir| {
            let trusted = dir.join("trusted");
            fs::create_dir(&trusted).unwrap();
            fs::copy(authority.file(), trusted.join("ca.pem")).unwrap();
            let gridmap = dir.join("grid-mapfile");
            let lines = "\"/O=Weir/CN=Ada\" .testvo\n\"/O=Weir/CN=Bob\" .testvo\n\"/O=Weir/CN=Root\" robot\n";
            fs::write(&gridmap, lines).unwrap();
            config.x509 = Some(X509Config {
                authorities: trusted,
                vomsdir: None,
                vomses: None,
                revocation: weir_auth::x509::RevocationCheck::default(),
                host_names: Vec::new(),
                refuse_in_handshake: false,
                gridmap: Some(gridmap),
                accounts: [("robot".to_owned(), "opsvo".to_owned())].into(),
            });
            config.admins.push(AdminConfig {
                dn: Some("/O=Weir/CN=Root".into()),
                ..AdminConfig::default()
            });
            change(config, authority, dir);
        })
        .await;
        Self { lab }
    }

    pub(crate) fn certificate(&self, name: &str) -> Identity {
        self.lab.authority.issue(&[], name).unwrap()
    }

    pub(crate) fn with(&self, identity: &Identity) -> User<'_> {
        User {
            lab: &self.lab,
            client: self.lab.client.showing(identity).unwrap(),
            token: None,
        }
    }

    pub(crate) fn user(&self, name: &str) -> User<'_> {
        self.with(&self.certificate(name))
    }
}

impl User<'_> {
    async fn send(&self, method: Method, path: &str, kind: &str, content: String) -> Answer {
        let mut request = Request::new(body::full(content));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.lab.url()).parse().unwrap();
        let headers = request.headers_mut();
        if !kind.is_empty() {
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        if let Some(token) = self.token {
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        let response = self.client.send(request).await.unwrap();
        Answer::read(response).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", String::new()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "", String::new()).await
    }

    pub(crate) async fn post(&self, path: &str, value: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", value.to_string())
            .await
    }

    pub(crate) async fn id(&self) -> String {
        self.get("/whoami").await.json["delegation_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// As clients delegate: `PUT` without a content type.
    pub(crate) async fn delegate(&self, identity: &Identity, hours: i64) -> Answer {
        let id = self.id().await;
        let request = self.get(&format!("/delegation/{id}/request")).await;
        assert_eq!(request.status, StatusCode::OK, "{}", request.text);
        assert_eq!(request.headers["x-delegation-id"], *id);
        let signed = answer(&request.text, identity, hours);
        self.send(Method::PUT, &format!("/delegation/{id}/credential"), "", signed)
            .await
    }
}

pub(crate) fn job(source: &str, destination: &str) -> Value {
    json!({ "files": [{ "sources": [source], "destinations": [destination] }], "params": { "job_metadata": { "m": 1 } } })
}

/// A user would be taken for somebody else, or for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_says_who_somebody_is() {
    let grid = Grid::start().await;
    let ada = grid.certificate("Ada");
    for identity in [&ada, &proxy(&ada), &proxy(&proxy(&ada))] {
        let who = grid.with(identity).get("/whoami").await;
        assert_eq!(who.status, StatusCode::OK, "{}", who.text);
        let id = who.json["delegation_id"].clone();
        assert_eq!(id.as_str().unwrap().len(), 16);
        let expected = json!({
            "user_dn": ADA,
            "dn": [ADA],
            "base_id": "01874efb-4735-4595-bc9c-591aef8240c9",
            "voms_cred": [],
            "vos": ["testvo"],
            "vos_id": ["477b9065-8416-5b27-be32-ff1573788e71"],
            "roles": [],
            "level": { "transfer": "vo", "datamanagement": "all", "config": null },
            "delegation_id": id,
            "method": "certificate",
            "is_root": false,
        });
        assert_eq!(who.json, expected);
        let shown = grid.with(identity).get("/whoami/certificate").await;
        assert_eq!(shown.headers["content-type"], "application/x-pem-file");
        assert!(
            ada.chain_pem
                .replace('\n', "")
                .starts_with(&shown.text.replace('\n', "")),
            "the user's own"
        );
    }
    assert_eq!(grid.user("Root").get("/config/links").await.status, StatusCode::OK);
    assert_eq!(
        grid.user("Ada").get("/config/links").await.status,
        StatusCode::FORBIDDEN
    );
    let by_token = grid.lab.ask("alice", Method::GET, "/whoami/certificate", None).await;
    assert_eq!(by_token.status, StatusCode::FORBIDDEN);
}

/// A bad certificate would let somebody in, or keep somebody with a good token out.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_no_good_is_refused_unless_a_token_decides() {
    let grid = Grid::start().await;
    let stranger = tempfile::tempdir().unwrap();
    let stranger = weir_auth::ca::CertificateAuthority::create(stranger.path()).unwrap();
    let stranger = stranger.issue(&[], "Ada").unwrap();
    let mut user = grid.with(&stranger);
    let refused = user.get("/whoami").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.message().contains("not trusted"), "{}", refused.text);
    let token = grid.lab.token("alice").await;
    user.token = Some(token.expose());
    assert_eq!(user.get("/whoami").await.json["user_dn"], "alice");

    let mut ada = grid.user("Ada");
    ada.token = Some("nonsense");
    assert_eq!(ada.get("/whoami").await.status, StatusCode::UNAUTHORIZED);
    let nobody = grid.user("Eve").get("/whoami").await;
    assert_eq!(nobody.status, StatusCode::FORBIDDEN);
    assert!(nobody.message().contains("no VO"), "{}", nobody.text);
    assert_eq!(
        grid.lab.ask("", Method::GET, "/whoami", None).await.status,
        StatusCode::UNAUTHORIZED
    );

    let ada = grid.certificate("Ada");
    let limited = grid.with(&limited(&ada));
    assert_eq!(limited.get("/whoami").await.status, StatusCode::OK);
    let refused = limited.post("/jobs", &job("https://a/f", "https://b/f")).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.message().contains("limited"), "{}", refused.text);
    assert_eq!(limited.delegate(&ada, 12).await.status, StatusCode::FORBIDDEN);
}

/// Jobs would wait for a proxy that is not there, or somebody would hand in another's.
#[tokio::test(flavor = "multi_thread")]
async fn delegation_goes_as_clients_know_it() {
    let mut grid = Grid::start().await;
    let identity = grid.certificate("Ada");
    let job = job("https://a.example.org/f", "https://b.example.org/f");
    let ada = grid.with(&identity);
    let id = ada.id().await;
    let path = |rest: &str| format!("/delegation/{id}{rest}");
    assert_eq!(ada.get(&path("")).await.json, json!([]));
    assert_eq!(ada.delete(&path("")).await.status, StatusCode::NOT_FOUND);
    let refused = ada.post("/jobs", &job).await;
    assert_eq!(refused.status.as_u16(), 419);
    assert_eq!(refused.json["status"], "419 Authentication Timeout");

    let early = ada.send(Method::PUT, &path("/credential"), "", "x".into()).await;
    assert_eq!(
        (early.status, early.message()),
        (StatusCode::BAD_REQUEST, "No credential cache found")
    );
    let first = ada.get(&path("/request")).await;
    assert!(
        first.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain")
    );
    assert_eq!(
        ada.get(&path("/request")).await.text,
        first.text,
        "two clients of one user get the same"
    );
    let bob = grid.certificate("Bob");
    for wrong in [
        "x".to_owned(),
        answer(&first.text, &bob, 12),
        identity.chain_pem.clone(),
    ] {
        let refused = ada.send(Method::PUT, &path("/credential"), "", wrong).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(
            refused.message().starts_with("Could not process the proxy: "),
            "{}",
            refused.text
        );
    }
    for (method, rest) in [
        (Method::GET, ""),
        (Method::GET, "/request"),
        (Method::DELETE, ""),
        (Method::PUT, "/credential"),
    ] {
        let other = grid.with(&bob).send(method, &path(rest), "", String::new()).await;
        assert_eq!(other.status, StatusCode::FORBIDDEN, "{rest}");
    }

    let short = ada.delegate(&identity, 1).await;
    assert_eq!((short.status, short.text.as_str()), (StatusCode::CREATED, ""));
    let refused = ada.post("/jobs", &job).await;
    assert_eq!(refused.status.as_u16(), 419);
    assert!(refused.message().contains("less than one hour"), "{}", refused.text);
    assert_eq!(ada.delegate(&identity, 12).await.status, StatusCode::CREATED);
    let now = ada.get(&path("")).await.json;
    assert!(is_in(12, now["termination_time"].as_str().unwrap()), "{now}");
    assert_eq!(now["voms_attrs"], json!([]));
    let refused = ada.post(&path("/voms"), &json!(["testvo"])).await;
    assert_eq!(refused.status.as_u16(), 424);
    assert!(refused.message().contains("set vomses in [x509]"), "{}", refused.text);
    assert_eq!(ada.post(&path("/voms"), &json!([])).await.status.as_u16(), 203);

    let taken = ada.post("/jobs", &job).await;
    assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
    let shown = ada
        .get(&format!("/jobs/{}", taken.json["job_id"].as_str().unwrap()))
        .await
        .json;
    assert_eq!(shown["job_metadata"], json!({ "m": 1, "auth_method": "certificate" }));
    assert_eq!((&shown["cred_id"], &shown["user_dn"]), (&json!(id), &json!(ADA)));

    drop(ada);
    grid.lab.down().await;
    let mut store = fs::read(grid.lab.store()).unwrap();
    store.extend(fs::read(grid.lab.store().with_extension("db-wal")).unwrap_or_default());
    let holds = |text: &str| store.windows(text.len()).any(|window| window == text.as_bytes());
    // Its name is there, so this is where it would be.
    assert!(
        holds(&format!("proxy/{id}")),
        "these are not the bytes that hold the proxy"
    );
    assert!(
        !holds("PRIVATE KEY") && !holds("CERTIFICATE"),
        "the store holds a proxy or its key"
    );
    grid.lab.up().await;
    let ada = grid.with(&identity);
    assert!(
        ada.get(&path("")).await.json["termination_time"].is_string(),
        "it outlives the process"
    );
    assert_eq!(ada.delete(&path("")).await.status, StatusCode::NO_CONTENT);
    assert_eq!(ada.get(&path("")).await.json, json!([]));
}

/// Takes every certificate: its subject is on record.
#[derive(Debug)]
struct All;

impl ChainCheck for All {
    fn check(&self, _: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        Ok(())
    }
}

pub(crate) fn storage(lab: &Lab) -> Stub {
    let identity = lab.authority.issue(&[San::from("127.0.0.1")], "storage").unwrap();
    Stub::start_with(Some(weir_http::server_config_asking(&identity, Arc::new(All)).unwrap()))
}

/// Files would be read and written in the name of nobody, or of somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn files_move_in_the_name_of_who_delegated() {
    let grid = Grid::start().await;
    let (a, b) = (storage(&grid.lab), storage(&grid.lab));
    let mut ids = Vec::new();
    for name in ["Ada", "Bob"] {
        let identity = grid.certificate(name);
        let user = grid.with(&identity);
        assert_eq!(user.delegate(&identity, 12).await.status, StatusCode::CREATED);
        for number in 0..3 {
            let path = format!("/{name}/{number}");
            a.put(&path, b"content");
            let taken = user.post("/jobs", &job(&a.url(&path), &b.url(&path))).await;
            assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
            ids.push((name, taken.json["job_id"].as_str().unwrap().to_owned()));
        }
    }
    for (name, id) in &ids {
        let root = grid.user("Root");
        let done = grid
            .lab
            .settled(async || root.get(&format!("/jobs/{id}?files=reason")).await.json)
            .await;
        assert_eq!(done["job_state"], "FINISHED", "{name}: {done}");
    }
    for stub in [&a, &b] {
        let mut connections = std::collections::BTreeMap::new();
        for seen in stub.all_seen() {
            let owner = seen.path.split('/').nth(1).unwrap().to_owned();
            let peer = seen.peer.unwrap_or_default();
            assert_eq!(
                peer,
                format!("/Weir/{owner}/1700000000"),
                "{} {}",
                seen.method,
                seen.path
            );
            let known = connections.entry(seen.from.unwrap()).or_insert(owner.clone());
            assert_eq!(*known, owner, "one connection served two users");
        }
        assert!(!connections.is_empty());
    }
    // A proxy that is taken back is not used any more.
    let ada = grid.user("Ada");
    let (path, id) = ("/Ada/late", ada.id().await);
    a.put(path, b"content");
    assert_eq!(
        grid.user("Root")
            .post("/config/drain", &json!({ "hostname": grid.lab.host(), "drain": true }))
            .await
            .status,
        StatusCode::OK
    );
    let taken = ada.post("/jobs", &job(&a.url(path), &b.url(path))).await;
    assert_eq!(
        ada.delete(&format!("/delegation/{id}")).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        grid.user("Root")
            .post("/config/drain", &json!({ "hostname": grid.lab.host(), "drain": false }))
            .await
            .status,
        StatusCode::OK
    );
    let path = format!("/jobs/{}?files=reason,weir", taken.json["job_id"].as_str().unwrap());
    let done = grid.lab.settled(async || ada.get(&path).await.json).await;
    assert_eq!(done["job_state"], "FAILED");
    let reason = done["files"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("is gone") && reason.contains("fts-rest-delegate"),
        "{reason}"
    );
}

/// Tape was shut to users with certificates: Rucio with a robot's certificate staged nothing.
#[tokio::test(flavor = "multi_thread")]
async fn tape_is_asked_in_the_name_of_who_delegated() {
    let grid = Grid::start().await;
    let (a, b) = (storage(&grid.lab), storage(&grid.lab));
    let identity = grid.certificate("Ada");
    let ada = grid.with(&identity);
    let delegate = async || assert_eq!(ada.delegate(&identity, 12).await.status, StatusCode::CREATED);
    delegate().await;
    let submit = async |path: &str| {
        a.put(path, b"from tape");
        let mut job = job(&a.url(path), &b.url(path));
        job["params"] = json!({ "bring_online": 60, "copy_pin_lifetime": 600, "archive_timeout": 600, "retry": -1 });
        let taken = ada.post("/jobs", &job).await;
        assert_eq!(taken.status, StatusCode::OK, "{}", taken.text);
        format!("/jobs/{}?files=reason", taken.json["job_id"].as_str().unwrap())
    };
    let first = submit("/f").await;
    until("it is asked for", || ready(a.library().polled()), |seen| *seen > 0).await;
    // Waiting files go on with the proxy that was delegated last.
    delegate().await;
    a.library().delivers(Some(2));
    until("the copy is watched", || ready(b.library().looked()), |seen| *seen > 0).await;
    b.library().archives("/f");
    let done = grid.lab.settled(async || ada.get(&first).await.json).await;
    assert_eq!(done["job_state"], "FINISHED", "{done}");
    assert_eq!(b.get("/f").unwrap(), "from tape");
    until(
        "the pin is given back",
        || ready(a.library().released()),
        |seen| *seen == ["/f"],
    )
    .await;
    for stub in [&a, &b] {
        let seen = stub.all_seen();
        assert!(seen.iter().any(|seen| seen.path.starts_with("/api/v1/")));
        for seen in seen {
            assert!(
                seen.peer.as_ref().is_some_and(|peer| peer.starts_with("/Weir/Ada/")),
                "{} {} in the name of {:?}",
                seen.method,
                seen.path,
                seen.peer
            );
        }
    }
    // A proxy that was taken back is not used any more.
    a.library().delivers(None);
    let (second, polled) = (submit("/g").await, a.library().polled());
    until("it is asked for", || ready(a.library().polled()), |seen| *seen > polled).await;
    ada.delete(&format!("/delegation/{}", ada.id().await)).await;
    let done = grid.lab.settled(async || ada.get(&second).await.json).await;
    let reason = done["files"][0]["reason"].as_str().unwrap();
    assert_eq!(done["job_state"], "FAILED", "{done}");
    assert!(
        reason.contains("is gone") && reason.contains("fts-rest-delegate"),
        "{reason}"
    );
}

/// Directories would be read and files removed in the name of nobody, or of somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_asked_in_the_name_of_who_delegated() {
    let grid = Grid::start().await;
    let stub = storage(&grid.lab);
    for name in ["Ada", "Bob"] {
        let folder = format!("/{name}");
        stub.make_directory(&folder);
        stub.put(&format!("{folder}/f"), b"content");
        let identity = grid.certificate(name);
        let user = grid.with(&identity);
        let list = format!("/dm/list?surl={}", stub.url(&folder));
        let early = user.get(&list).await;
        assert_eq!(
            (early.status.as_u16(), early.message()),
            (419, "No delegated proxy available")
        );
        assert!(stub.seen("PROPFIND", &folder).is_empty());
        assert_eq!(user.delegate(&identity, 1).await.status, StatusCode::CREATED);
        let listed = user.get(&list).await;
        assert_eq!(listed.json["f"]["size"], 7, "{}", listed.text);
        let file = json!({ "surl": stub.url(&format!("{folder}/f")) });
        let limited = grid.with(&limited(&identity)).post("/dm/unlink", &file).await;
        assert_eq!(limited.status, StatusCode::FORBIDDEN, "{}", limited.text);
        let removed = user.post("/dm/unlink", &file).await;
        assert_eq!(removed.json, json!(0), "{}", removed.text);
        let id = user.id().await;
        user.delete(&format!("/delegation/{id}")).await;
        assert_eq!(user.get(&list).await.status.as_u16(), 419);
    }
    let mut connections = std::collections::BTreeMap::new();
    for seen in stub.all_seen() {
        let owner = seen.path.split('/').nth(1).unwrap().to_owned();
        assert_eq!(seen.peer, Some(format!("/Weir/{owner}/1700000000")), "{}", seen.method);
        assert!(!seen.headers.contains_key("authorization"));
        let known = connections.entry(seen.from.unwrap()).or_insert(owner.clone());
        assert_eq!(*known, owner, "one connection served two users");
    }
    assert!(stub.get("/Ada/f").is_none() && stub.get("/Bob/f").is_none());
}
