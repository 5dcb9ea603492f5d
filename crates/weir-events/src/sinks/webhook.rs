//! A webhook: `POST` of a JSON array of `{"type", "vo", "data"}`. Any 2xx takes the batch; 400, 413, 415 and 422 refuse it for good;
//! all else is tried again: 401, 403 and 404 are the operator's to mend.

use std::{io, path::Path, time::Duration};

use http::{HeaderValue, Request, header};
use weir_http::{Client, body};

use super::{SinkError, Undelivered, file::envelopes, secret};
use crate::config::WebhookSinkConfig;
use crate::lines::Message;

/// Limit for the head of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A header that is not shown when it is printed. A token that fits no header is refused: without it every batch would be.
fn bearer(file: &Path) -> Result<HeaderValue, SinkError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", secret(file)?)).map_err(|error| SinkError::Secret {
        path: file.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, error),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) struct Webhook {
    url: String,
    authorization: Option<HeaderValue>,
    client: Client,
}

impl Webhook {
    pub(super) fn new(config: &WebhookSinkConfig, client: Client) -> Result<Self, SinkError> {
        let authorization = config.token_file.as_deref().map(bearer).transpose()?;
        Ok(Self {
            url: config.url.clone(),
            authorization,
            client,
        })
    }

    pub(super) async fn deliver(&mut self, batch: &[Message<'_>]) -> Result<(), Undelivered> {
        let mut content = vec![b'['];
        content.extend(envelopes(batch, b","));
        content.pop();
        content.push(b']');
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body::full(content))
            .map_err(|error| Undelivered::Later(format!("the URL cannot be used: {error}")))?;
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, authorization.clone());
        }
        let answer = self.client.send_within(request, PATIENCE).await;
        let status = match answer {
            Ok(answer) => answer.status(),
            Err(error) => return Err(Undelivered::Later(weir_auth::error_chain(&error))),
        };
        match status.as_u16() {
            200..300 => Ok(()),
            400 | 413 | 415 | 422 => Err(Undelivered::Never(format!("the webhook answered {status}"))),
            _ => Err(Undelivered::Later(format!("the webhook answered {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_token_that_fits_no_header_is_refused_and_one_that_does_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "a\u{1}b\n").unwrap();
        assert!(matches!(bearer(&file), Err(SinkError::Secret { .. })));
        std::fs::write(&file, "hidden\n").unwrap();
        assert!(!format!("{:?}", bearer(&file).unwrap()).contains("hidden"));
    }
}
