//! Copies between real storage endpoints: over TLS, each side with its own token of least privilege.

use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use weir_auth::{
    Secret, StoragePath,
    ca::{San, write_identity},
};
use weir_http::body;
use weir_storage::{AreaConfig, Durability, Storage, StorageConfig, TlsFiles};

use crate::{
    lab::{Lab, loopback},
    stub::adler32,
};

pub(crate) struct Endpoint {
    pub(crate) running: weir_storage::Running,
}

impl Endpoint {
    pub(crate) async fn start(lab: &Lab, name: &str, change: impl FnOnce(&mut StorageConfig)) -> Self {
        let folder = lab.directory.path().join(name);
        let identity = lab.authority.issue(&[San::from("127.0.0.1")], name).unwrap();
        let (certificate, key) = write_identity(&identity, &folder, "storage").unwrap();
        let area = AreaConfig {
            create_root: true,
            durability: Durability::Cache,
            checksums: vec![weir_units::Algorithm::Adler32],
            ..AreaConfig::new(name, StoragePath::root(), folder.join("area"))
        };
        std::fs::create_dir_all(&area.root).unwrap();
        let mut config = StorageConfig::new(loopback(), vec![area]);
        config.tls = Some(TlsFiles { certificate, key });
        config.trust.files = vec![lab.authority.file()];
        config.any_audience = false;
        config.issuers = vec![weir_storage::IssuerConfig::new(lab.issuer_url())];
        config.tpc.allow = vec!["127.0.0.0/8".parse().unwrap()];
        change(&mut config);
        Self {
            running: Storage::start(config).await.unwrap(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.running.url())
    }

    async fn token(&self, lab: &Lab, scopes: &str) -> Secret {
        lab.token_for("mover", scopes, self.running.url()).await
    }

    pub(crate) async fn send(&self, lab: &Lab, method: Method, path: &str, content: &[u8]) -> (StatusCode, Vec<u8>) {
        let token = self.token(lab, "storage.read:/ storage.modify:/").await;
        let mut request = Request::new(body::full(content.to_vec()));
        *request.method_mut() = method;
        *request.uri_mut() = self.url(path).parse().unwrap();
        request.headers_mut().insert(
            header::AUTHORIZATION,
            format!("Bearer {}", token.expose()).parse().unwrap(),
        );
        let response = lab.client.send(request).await.unwrap();
        let status = response.status();
        let limit = std::time::Duration::from_secs(30);
        (
            status,
            body::read_limited(response.into_body(), 1 << 24, limit)
                .await
                .unwrap()
                .to_vec(),
        )
    }
}

/// One transfer with tokens for exactly its two paths; gives the file's object.
async fn transfer(lab: &Lab, (a, b): (&Endpoint, &Endpoint), path: &str, checksum: String, params: Value) -> Value {
    let source = a.token(lab, &format!("storage.read:{path}")).await;
    let destination = b
        .token(
            lab,
            &format!("storage.create:{path} storage.modify:{path} storage.read:{path}"),
        )
        .await;
    let files = json!([{
        "sources": [a.url(path)], "destinations": [b.url(path)],
        "source_tokens": [source.expose()], "destination_tokens": [destination.expose()],
        "checksum": format!("ADLER32:{checksum}"),
    }]);
    let id = lab.submit(files, params).await;
    lab.wait(&id).await;
    lab.get(&format!("/jobs/{id}/files")).await.json[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn hops_and_sources_each_have_tokens_of_their_own() {
    let lab = Lab::start().await;
    let (a, b) = (
        Endpoint::start(&lab, "a", |_| {}).await,
        Endpoint::start(&lab, "b", |_| {}).await,
    );
    let c = Endpoint::start(&lab, "c", |_| {}).await;
    let content = b"bytes that go two hops".as_slice();
    assert_eq!(a.send(&lab, Method::PUT, "/f", content).await.0, StatusCode::CREATED);
    let write = "storage.create:/f storage.modify:/f storage.read:/f";
    let mut hops = Vec::new();
    for (from, to) in [(&a, &b), (&b, &c)] {
        let (source, destination) = (from.token(&lab, "storage.read:/f").await, to.token(&lab, write).await);
        hops.push(json!({
            "sources": [from.url("/f")], "destinations": [to.url("/f")],
            "source_tokens": [source.expose()], "destination_tokens": [destination.expose()],
        }));
    }
    let params = json!({ "multihop": true, "verify_checksum": "both", "retry": -1 });
    let id = lab.submit(json!(hops), params).await;
    assert_eq!(
        lab.wait(&id).await,
        "FINISHED",
        "{}",
        lab.get(&format!("/jobs/{id}/files")).await.text
    );
    assert_eq!(c.send(&lab, Method::GET, "/f", b"").await.1, content);

    // The first source has no such file, the second has it; each is asked with its own token.
    let path = "/g";
    assert_eq!(b.send(&lab, Method::PUT, path, content).await.0, StatusCode::CREATED);
    let (of_a, of_b) = (
        a.token(&lab, "storage.read:/g").await,
        b.token(&lab, "storage.read:/g").await,
    );
    let of_c = c
        .token(&lab, "storage.create:/g storage.modify:/g storage.read:/g")
        .await;
    let files = json!([{
        "sources": [a.url(path), b.url(path)], "destinations": [c.url(path)], "selection_strategy": "orderly",
        "source_tokens": [of_a.expose(), of_b.expose()], "destination_tokens": [of_c.expose()],
    }]);
    let id = lab.submit(files, json!({ "verify_checksum": "both" })).await;
    assert_eq!(
        lab.wait(&id).await,
        "FINISHED",
        "{}",
        lab.get(&format!("/jobs/{id}/files")).await.text
    );
    assert_eq!(c.send(&lab, Method::GET, path, b"").await.1, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_three_modes_work_between_real_storages() {
    let lab = Lab::start().await;
    let (a, b) = (
        Endpoint::start(&lab, "a", |_| {}).await,
        Endpoint::start(&lab, "b", |_| {}).await,
    );
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for mode in ["pull", "push", "streamed"] {
        let path = format!("/deep/folder/{mode}");
        assert_eq!(a.send(&lab, Method::PUT, &path, &content).await.0, StatusCode::CREATED);
        let params = json!({ "copy_mode": mode, "verify_checksum": "both", "retry": -1 });
        let file = transfer(&lab, (&a, &b), &path, adler32(&content), params).await;
        assert_eq!(
            (&file["file_state"], &file["weir"]["mode"]),
            (&json!("FINISHED"), &json!(mode)),
            "{file}"
        );
        assert_eq!(file["filesize"], 3_000_000);
        assert_eq!(b.send(&lab, Method::GET, &path, b"").await.1, content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_storage_that_refuses_is_understood() {
    let lab = Lab::start().await;
    let a = Endpoint::start(&lab, "a", |_| {}).await;
    let full = Endpoint::start(&lab, "full", |config| {
        config.areas[0].quota = Some(weir_units::Bytes(10));
    })
    .await;
    let read_only = Endpoint::start(&lab, "ro", |config| config.areas[0].read_only = true).await;
    let content = b"more than ten bytes";
    a.send(&lab, Method::PUT, "/f", content).await;
    let params = || json!({ "verify_checksum": "both", "retry": -1 });
    for (endpoint, class) in [(&full, "no-space"), (&read_only, "read-only")] {
        let file = transfer(&lab, (&a, endpoint), "/f", adler32(content), params()).await;
        assert_eq!(
            (&file["file_state"], &file["weir"]["error_class"]),
            (&json!("FAILED"), &json!(class)),
            "{file}"
        );
        assert_eq!(file["weir"]["party"], "destination", "{file}");
    }
    let b = Endpoint::start(&lab, "b", |_| {}).await;
    let missing = transfer(&lab, (&a, &b), "/missing", adler32(content), params()).await;
    assert_eq!(
        (&missing["weir"]["error_class"], &missing["weir"]["party"]),
        (&json!("not-found"), &json!("source"))
    );
    let wrong = transfer(&lab, (&a, &b), "/f", "00000001".into(), params()).await;
    assert_eq!(wrong["weir"]["error_class"], "checksum", "{wrong}");
    assert_eq!(b.send(&lab, Method::GET, "/f", b"").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_another_path_or_endpoint_is_refused_by_name() {
    let lab = Lab::start().await;
    let (a, b) = (
        Endpoint::start(&lab, "a", |_| {}).await,
        Endpoint::start(&lab, "b", |_| {}).await,
    );
    a.send(&lab, Method::PUT, "/f", b"bytes").await;
    let good = a.token(&lab, "storage.read:/f").await;
    let write = b.token(&lab, "storage.modify:/f storage.read:/f").await;
    let elsewhere = a.token(&lab, "storage.read:/g").await;
    for (source, destination, class, party) in [
        (&elsewhere, &write, "permission", "source"),
        (&write, &write, "token", "source"),
        (&good, &good, "token", "destination"),
    ] {
        let files = json!([{
            "sources": [a.url("/f")], "destinations": [b.url("/f")],
            "source_tokens": [source.expose()], "destination_tokens": [destination.expose()],
        }]);
        let id = lab.submit(files, json!({ "retry": -1 })).await;
        assert_eq!(lab.wait(&id).await, "FAILED");
        let file = lab.get(&format!("/jobs/{id}/files")).await.json[0].clone();
        assert_eq!(
            (&file["weir"]["error_class"], &file["weir"]["party"]),
            (&json!(class), &json!(party)),
            "{file}"
        );
    }
}
