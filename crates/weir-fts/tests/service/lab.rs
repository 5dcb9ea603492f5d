//! An issuer, a service and a way to talk to it.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use weir_auth::{
    Secret,
    ca::{CertificateAuthority, San, write_identity},
    client::TokenSource,
};
use weir_fts::{Running, TransferConfig, TransferService};
use weir_http::{Client, ClientConfig, TrustRoots, body, testing};
use weir_issuer::{Issuer, IssuerConfig};
use weir_transfer::config::{AdminConfig, IssuerConfig as Trusted, TlsFiles, Trust};

pub(crate) const SECRET: &str = "a secret of at least sixteen characters";

/// How long anything may take that should happen at once: generous, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Lab {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) authority: CertificateAuthority,
    pub(crate) client: Client,
    issuer: weir_issuer::Running,
    service: Option<Running>,
    config: TransferConfig,
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

impl Lab {
    /// A service with quick retries.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut TransferConfig)) -> Self {
        Self::start_managed(|config, _, _| change(config)).await
    }

    /// The change also sees who signs certificates here, and the lab's directory.
    pub(crate) async fn start_managed(
        change: impl FnOnce(&mut TransferConfig, &CertificateAuthority, &std::path::Path),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::create(&directory.path().join("ca")).unwrap();
        let identity = authority.issue(&[San::from("127.0.0.1")], "lab").unwrap();
        let (certificate, key) = write_identity(&identity, directory.path(), "service").unwrap();

        let secret = Secret::new(SECRET);
        let user = |name: &str| weir_issuer::Client::with_secret(name, &secret, &["storage.read:/", "fts"], &["*"]);
        let scopes = ["storage.read:/", "storage.create:/", "storage.modify:/"];
        let mover = weir_issuer::Client::with_secret("mover", &secret, &scopes, &["*"]);
        let clients = vec![user("alice"), user("bob"), user("root"), mover];
        let issuer = IssuerConfig::new(loopback(), directory.path().join("keys"), clients);
        let issuer = Issuer::start(&issuer, &identity).unwrap();

        let mut config = TransferConfig::new(loopback());
        config.tls = Some(TlsFiles { certificate, key });
        config.trust = Trust {
            files: vec![authority.file()],
            directories: Vec::new(),
        };
        config.store = Some(directory.path().join("transfer.db"));
        config.issuers = vec![Trusted::new(issuer.url(), "testvo")];
        config.admins = vec![AdminConfig {
            issuer: Some(issuer.url().to_owned()),
            subject: Some("root".into()),
            ..AdminConfig::default()
        }];
        config.plain_http = true;
        config.retry.delay = Duration::from_millis(50);
        config.retry.delay_max = Duration::from_millis(200);
        config.copy.allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.copy.busy_patience = Duration::from_secs(3);
        change(&mut config, &authority, directory.path());

        let client = Client::new(ClientConfig::new(TrustRoots::file(authority.file()))).unwrap();
        let mut lab = Self {
            directory,
            authority,
            client,
            issuer,
            service: None,
            config,
        };
        lab.up().await;
        lab
    }

    /// Starts the service (again).
    pub(crate) async fn up(&mut self) {
        let running = TransferService::start(self.config.clone()).await.unwrap();
        self.service = Some(running);
    }

    /// Stops the service in good order.
    pub(crate) async fn down(&mut self) {
        self.service.take().unwrap().shutdown().await;
    }

    /// Has the service look at directories of authorities.
    pub(crate) async fn look(&self) {
        self.service.as_ref().unwrap().look().await;
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.config.store.clone().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.service.as_ref().unwrap().url().to_owned()
    }

    pub(crate) async fn token(&self, user: &str) -> Secret {
        self.token_for(user, "storage.read:/ fts", &self.url()).await
    }

    pub(crate) async fn token_for(&self, user: &str, scopes: &str, audience: &str) -> Secret {
        let url = self.issuer.token_url();
        let source = TokenSource::client_credentials(self.client.clone(), url, user, &Secret::new(SECRET));
        source.token(scopes, audience).await.unwrap()
    }

    pub(crate) fn issuer_url(&self) -> &str {
        self.issuer.url()
    }

    /// A request as this user; nobody if the name is empty.
    pub(crate) async fn ask(&self, user: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::new(body.map_or_else(body::empty, |body| body::full(body.to_string())));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.url()).parse().unwrap();
        if body.is_some() {
            request
                .headers_mut()
                .insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        }
        if !user.is_empty() {
            let token = format!("Bearer {}", self.token(user).await.expose());
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, token.parse().unwrap());
        }
        Answer::read(self.client.send(request).await.unwrap()).await
    }

    /// How the service names its host.
    pub(crate) fn host(&self) -> String {
        self.url().trim_start_matches("https://").to_owned()
    }

    /// Waits until a job that is looked at in this way has come to its end, and gives it.
    pub(crate) async fn settled(&self, look: impl AsyncFn() -> Value) -> Value {
        let is_over = |job: &Value| {
            let state = job["job_state"].as_str();
            matches!(state, Some("FINISHED" | "FAILED" | "FINISHEDDIRTY" | "CANCELED"))
        };
        testing::until("the end of the job", || look(), is_over).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("alice", Method::GET, path, None).await
    }

    /// Submits as alice, and gives the job's id.
    pub(crate) async fn submit(&self, files: Value, params: Value) -> String {
        let body = json!({ "files": files, "params": params });
        let answer = self.ask("alice", Method::POST, "/jobs", Some(&body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        answer.json["job_id"].as_str().unwrap().to_owned()
    }

    /// Submits one file, waits for its end, and gives the file's object.
    pub(crate) async fn transfer(&self, source: &str, destination: &str, params: Value) -> Value {
        let mut file = json!({ "sources": [source], "destinations": [destination] });
        let mut params = params;
        if let Some(checksum) = params.as_object_mut().unwrap().remove("checksum") {
            file["checksum"] = checksum;
        }
        if let Some(size) = params.as_object_mut().unwrap().remove("filesize") {
            file["filesize"] = size;
        }
        let id = self.submit(json!([file]), params).await;
        self.wait(&id).await;
        self.get(&format!("/jobs/{id}/files")).await.json[0].clone()
    }

    /// Waits for a job's end, and gives its state.
    pub(crate) async fn wait(&self, id: &str) -> String {
        self.until(id, |job| {
            matches!(
                job["job_state"].as_str(),
                Some("FINISHED" | "FAILED" | "FINISHEDDIRTY" | "CANCELED")
            )
        })
        .await["job_state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Waits until a job looks as it should.
    pub(crate) async fn until(&self, id: &str, done: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/jobs/{id}?files=file_state,reason,weir");
        testing::until("the job", || async { self.get(&path).await.json }, done).await
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Answer {
    pub(crate) async fn read(response: http::Response<hyper::body::Incoming>) -> Self {
        let status = response.status();
        let headers = response.headers().clone();
        let bytes = body::read_limited(response.into_body(), 64 << 20, PATIENCE)
            .await
            .unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self {
            status,
            headers,
            text,
            json,
        }
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }
}
