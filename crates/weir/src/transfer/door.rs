//! A transfer service's REST door, from the client's side.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use weir_auth::Secret;
use weir_http::{Client, ClientConfig, body};

use crate::cli::DoorArguments;
use crate::failure::Failure;

/// An answer may carry 50,000 files with their reasons.
const ANSWER_MAX: usize = 512 << 20;

/// Limit for one exchange. A cancellation waits up to 10 s for running copies.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service that the arguments and the environment name.
pub(crate) struct TransferClient {
    url: String,
    client: Client,
    token: Secret,
}

/// The answer to a request.
pub(super) struct TransferAnswer {
    pub(super) status: u16,
    pub(super) json: Value,
    text: String,
}

impl TransferAnswer {
    /// The service's message of a refusal.
    pub(super) fn message(&self) -> String {
        let told = ["message", "http_message"]
            .into_iter()
            .find_map(|key| self.json[key].as_str());
        told.map_or_else(|| weir_auth::peer_line(self.text.as_bytes()), weir_auth::peer_text)
    }
}

impl TransferClient {
    pub(crate) fn open(arguments: &DoorArguments) -> Result<Self, Failure> {
        let url = arguments.endpoint.trim_end_matches('/').to_owned();
        let roots = crate::trust::roots(&arguments.access)?;
        let client = Client::new(ClientConfig::new(roots));
        Ok(Self {
            url,
            client: client.context("could not use the certificate authorities")?,
            token: crate::token::find(arguments.access.token_file.as_deref())?,
        })
    }

    /// The token of the caller.
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }

    /// One exchange, of any status.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        content: Option<&Value>,
    ) -> Result<TransferAnswer, Failure> {
        let failed = |what: &str| format!("{what} the transfer service {}", self.url);
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {}", self.token.expose()))
            .header("Accept", "application/json");
        if content.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let request = request
            .body(content.map_or_else(body::empty, |content| body::full(content.to_string())))
            .with_context(|| format!("{} is no URL", self.url))
            .map_err(Failure::bad_input)?;
        let response = self.client.send_within(request, PATIENCE).await;
        let response = response.with_context(|| failed("could not reach"))?;
        let status = response.status().as_u16();
        let bytes = body::read_limited(response.into_body(), ANSWER_MAX, PATIENCE).await;
        let bytes = bytes.with_context(|| failed("could not read the answer of"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(TransferAnswer {
            status,
            json: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        })
    }

    /// One exchange that must work.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = self.ask("GET", path, None).await?;
        self.expect(answer).map(|answer| answer.json)
    }

    /// The answer, if it is a yes.
    pub(super) fn expect(&self, answer: TransferAnswer) -> Result<TransferAnswer, Failure> {
        let error = || anyhow::anyhow!("{} answered {}: {}", self.url, answer.status, answer.message());
        match answer.status {
            200..300 => Ok(answer),
            401 => Err(Failure::could_not_run(error())
                .with_remedy("get a token for this service, and see that it has not expired")),
            403 => Err(Failure::could_not_run(error()).with_remedy(
                "ask the service's operator for the right to do this; in a grid of your own, \
                     `weir grid env DIR --operator` gives a token with it",
            )),
            400 | 404 | 409 | 413 => Err(Failure::bad_input(error())),
            429 | 503 => Err(Failure::could_not_run(error()).with_remedy("try again later")),
            _ => Err(Failure::could_not_run(error())),
        }
    }
}
