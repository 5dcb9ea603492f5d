//! The transfer service that the arguments name.

use std::time::Duration;

use anyhow::Context;
use http::{Method, StatusCode};
use serde_json::Value;
use weir_auth::Secret;
use weir_fts_api::{Bearer, FtsClient, FtsCredential, FtsError};
use weir_http::{Client, ClientConfig};

use crate::cli::DoorArguments;
use crate::failure::Failure;

/// An answer may carry 50,000 files with their reasons.
const ANSWER_MAX: usize = 512 << 20;

/// Limit for one exchange. A cancellation waits up to 10 s for running copies.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service that the arguments and the environment name. Answers are shown as they came, also those of other services.
pub(crate) struct TransferClient {
    client: FtsClient,
    token: Secret,
}

impl TransferClient {
    pub(crate) fn open(arguments: &DoorArguments) -> Result<Self, Failure> {
        let url = arguments.endpoint.trim_end_matches('/');
        let parsed = url.parse::<http::Uri>().with_context(|| format!("{url} is no URL"));
        parsed.map_err(Failure::bad_input)?;
        let roots = crate::trust::roots(&arguments.access)?;
        let client = Client::new(ClientConfig::new(roots));
        let client = client.context("could not use the certificate authorities")?;
        let token = crate::token::find(arguments.access.token_file.as_deref())?;
        let credential = FtsCredential::Bearer(Bearer::fixed(token.clone()));
        let client = FtsClient::new(url, client, credential);
        Ok(Self {
            client: client.patient(PATIENCE).reading(ANSWER_MAX),
            token,
        })
    }

    /// The token of the caller.
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }

    /// The answer to a request, which must be a success. Null: it has no content.
    pub(super) async fn ask(&self, method: Method, path: &str, content: Option<&Value>) -> Result<Value, Failure> {
        let answer = self.client.ask(method, path, content.map(Value::to_string)).await;
        let answer = answer.map_err(failure)?;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// The answer to a question.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, None).await
    }
}

fn failure(error: FtsError) -> Failure {
    match error.status() {
        Some(StatusCode::UNAUTHORIZED) => {
            Failure::could_not_run(error).with_remedy("get a token for this service, and see that it has not expired")
        }
        Some(StatusCode::FORBIDDEN) => Failure::could_not_run(error).with_remedy(
            "ask the service's operator for the right to do this; in a grid of your own, \
             `weir grid env DIR --operator` gives a token with it",
        ),
        Some(
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PAYLOAD_TOO_LARGE,
        ) => Failure::bad_input(error),
        Some(_) if error.is_busy() => Failure::could_not_run(error).with_remedy("try again later"),
        _ => Failure::could_not_run(error),
    }
}
