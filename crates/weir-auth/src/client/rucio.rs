//! Login at a Rucio authentication server: a password or a certificate for a token of an hour.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use weir_http::body;

use super::{ANSWER_MAX, Held, REQUEST_TIMEOUT, TokenError, held};
use crate::secret::Secret;

/// How the login is made.
#[derive(Debug, Clone)]
pub enum RucioLogin {
    /// By user name and password.
    Password {
        /// The user name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// By the certificate that the client shows.
    Certificate,
}

impl RucioLogin {
    pub(super) fn path(&self) -> &'static str {
        match self {
            Self::Password { .. } => "/auth/userpass",
            Self::Certificate => "/auth/x509",
        }
    }
}

/// Logs in to an account.
pub(super) async fn log_in(
    client: &weir_http::Client,
    url: &str,
    account: &str,
    login: &RucioLogin,
) -> Result<Held, TokenError> {
    let mut request = Request::get(url)
        .header("X-Rucio-Account", account)
        .header("X-Rucio-AppID", "weir");
    if let RucioLogin::Password { user, password } = login {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| unfit(url, account));
        let mut secret = value(password.expose())?;
        // A header that is marked so is in no dump of headers.
        secret.set_sensitive(true);
        request = request
            .header("X-Rucio-Username", value(user)?)
            .header("X-Rucio-Password", secret);
    }
    let request = request
        .body(body::empty())
        .map_err(|_| TokenError::Url(url.to_owned()))?;
    let asked = Instant::now();
    let response = client.send(request).await;
    let response = response.map_err(|error| TokenError::Ask(Arc::new(error)))?;
    let (head, answer) = response.into_parts();
    let answer = body::read_limited(answer, ANSWER_MAX, REQUEST_TIMEOUT).await;
    let answer = answer.map_err(|error| TokenError::Answer(Arc::new(error)))?;
    if head.status != StatusCode::OK {
        let reason = head.headers.get("ExceptionMessage").map(HeaderValue::as_bytes);
        let reason = crate::peer_line(reason.unwrap_or(&answer));
        return Err(refused(url, account, head.status, reason));
    }
    // Rucio's token holds the identity, of which a certificate's may have blanks.
    let token = text(&head.headers, "X-Rucio-Auth-Token").filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| TokenError::NoToken {
        token_url: url.to_owned(),
    })?;
    let life = text(&head.headers, "X-Rucio-Auth-Token-Expires").and_then(life);
    Ok(held(Secret::new(token.to_owned()), life, asked))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The time until a moment as Rucio writes it: `Sat, 21 Nov 2026 12:01:37 UTC`.
fn life(end: &str) -> Option<Duration> {
    let end = httpdate::parse_http_date(&end.replace("UTC", "GMT")).ok()?;
    end.duration_since(SystemTime::now()).ok()
}

fn unfit(url: &str, account: &str) -> TokenError {
    let reason = "the user name or the password has characters that fit into no header".to_owned();
    refused(url, account, StatusCode::BAD_REQUEST, reason)
}

fn refused(url: &str, account: &str, status: StatusCode, reason: String) -> TokenError {
    TokenError::Login {
        url: url.to_owned(),
        account: account.to_owned(),
        status,
        reason,
    }
}
