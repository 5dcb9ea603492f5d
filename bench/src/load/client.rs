//! How the client speaks.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_http::{Body, Client, ClientConfig, TrustRoots, body, client_config};

/// Long enough for any row: a server that hangs must fail it and not hold it.
const LIMIT: Duration = Duration::from_secs(900);

/// A client with or without a token.
#[derive(Clone)]
pub(crate) struct Door {
    client: Client,
    authorization: Option<HeaderValue>,
}

impl Door {
    /// `fresh`: every request has a connection of its own, with a whole handshake.
    pub(crate) fn new(ca: &Path, token: Option<&str>, fresh: bool) -> Result<Self> {
        let mut config = ClientConfig::new(TrustRoots::file(ca));
        config.idle_per_host = if fresh { 0 } else { 2000 };
        let mut client = Client::new(config.clone())?;
        if fresh {
            let mut tls = (*client_config(&config.roots)?).clone();
            tls.resumption = rustls::client::Resumption::disabled();
            client = client.presenting(Arc::new(tls));
        }
        let authorization = token
            .map(|token| HeaderValue::from_str(&format!("Bearer {token}")))
            .transpose()?;
        Ok(Self { client, authorization })
    }

    pub(crate) fn request(&self, method: &str, url: &str) -> http::request::Builder {
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap_or_default())
            .uri(url);
        match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        }
    }

    /// Sends it, and takes an answer of the 2xx kind.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>> {
        let answer = self.client.send_within(request, LIMIT).await?;
        let status = answer.status();
        if !status.is_success() {
            let text = body::read_limited(answer.into_body(), 10_000, Duration::from_secs(10)).await;
            let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
            anyhow::bail!("{status}: {}", text.trim());
        }
        Ok(answer)
    }

    /// Sends a request without a body and reads the answer's to its end; gives its length.
    pub(crate) async fn ask(&self, method: &str, url: &str) -> Result<u64> {
        let mut request = self.request(method, url);
        if method == "PROPFIND" {
            request = request.header("Depth", "1");
        }
        let answer = self.send(request.body(body::empty())?).await?;
        drain(answer.into_body()).await
    }

    /// As [`Self::ask`] for a body of so many bytes.
    pub(crate) async fn fetch(&self, url: &str, size: u64) -> Result<u64> {
        let answer = self.send(self.request("GET", url).body(body::empty())?).await?;
        ensure!(answer.status() == StatusCode::OK, "got {}", answer.status());
        let length = drain(answer.into_body()).await?;
        ensure!(length == size, "got {length} bytes, not {size}");
        Ok(length)
    }
}

async fn drain(mut body: Incoming) -> Result<u64> {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(length)
}
