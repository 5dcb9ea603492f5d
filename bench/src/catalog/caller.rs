//! A client of a catalogue.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use weir_http::{Client, ClientConfig, TrustRoots, body};

/// Time for one exchange: Rucio takes minutes for large rules.
const PATIENCE: Duration = Duration::from_secs(900);

/// A session, on connections of its own.
#[derive(Clone)]
pub(crate) struct Caller {
    url: String,
    client: Client,
    token: HeaderValue,
}

/// An exchange.
pub(crate) struct Told {
    pub(crate) text: Vec<u8>,
    /// Until the first byte of the body.
    pub(crate) first: Duration,
}

impl Caller {
    pub(crate) async fn login(url: &str, user: &str, password: &str) -> Result<Self> {
        Self::login_with(url, (user, password), TrustRoots::default()).await
    }

    pub(crate) async fn login_with(url: &str, (user, password): (&str, &str), trust: TrustRoots) -> Result<Self> {
        let mut config = ClientConfig::new(trust);
        config.response_timeout = PATIENCE;
        config.idle_per_host = 64;
        let client = Client::new(config)?;
        let request = Request::get(format!("{url}/auth/userpass"))
            .header("X-Rucio-Account", "root")
            .header("X-Rucio-Username", user)
            .header("X-Rucio-Password", password)
            .body(body::empty())?;
        let response = client.send(request).await?;
        let token = response.headers().get("x-rucio-auth-token");
        let token = token.with_context(|| format!("the login was answered {}", response.status()))?;
        Ok(Self {
            url: url.to_owned(),
            client: client.clone(),
            token: token.clone(),
        })
    }

    /// The port of the catalogue.
    pub(crate) fn port(&self) -> Option<u16> {
        self.url.rsplit(':').next()?.parse().ok()
    }

    /// One exchange, which has to be done.
    pub(crate) async fn ask(&self, method: &str, path: &str, content: Option<&Value>) -> Result<Told> {
        let begun = Instant::now();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .body(content.map_or_else(body::empty, |content| body::full(content.to_string())))?;
        request.headers_mut().insert("x-rucio-auth-token", self.token.clone());
        let response = self.client.send(request).await?;
        let status = response.status();
        let (mut body, mut text, mut first) = (response.into_body(), Vec::new(), None);
        while let Some(frame) = body.frame().await {
            first.get_or_insert_with(|| begun.elapsed());
            if let Ok(data) = frame?.into_data() {
                text.extend_from_slice(&data);
            }
        }
        let is_known = status == StatusCode::CONFLICT && method == "POST" && path.starts_with("/accounts");
        ensure!(
            status.is_success() || is_known,
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(&text)
        );
        Ok(Told {
            text,
            first: first.unwrap_or_else(|| begun.elapsed()),
        })
    }
}
