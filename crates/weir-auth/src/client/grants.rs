//! Renewing tokens that others were given: token exchange (RFC 8693) and the refresh grant (RFC 6749 section 6), asked for by a
//! service with credentials of its own.

use std::time::Duration;

use serde::Deserialize;

use super::{TokenError, basic, form, post};
use crate::secret::Secret;

/// RFC 8693 section 2.1.
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// RFC 8693 section 3.
const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
/// RFC 8693 section 3.
const REFRESH: &str = "urn:ietf:params:oauth:token-type:refresh_token";
/// Longest accepted life of a token: a year, so that every sum stays within the range of a clock.
const LIFE_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The wanted rights of a token, taken from its predecessor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Separated by blanks. Empty: left to the issuer.
    pub scope: String,
    /// Separated by blanks. Empty: left to the issuer.
    pub audience: String,
}

/// The tokens that an issuer granted. At least one of the two is there.
#[derive(Debug, Clone)]
pub struct Granted {
    /// To be shown to services.
    pub access: Option<Secret>,
    /// How long that is good for, if the issuer tells.
    pub life: Option<Duration>,
    /// The refresh token for the next one. A new one replaces the one that was shown.
    pub refresh: Option<Secret>,
    /// The granted scope, if the issuer names it.
    pub scope: Option<String>,
}

/// A token endpoint, with the client's identity there.
#[derive(Debug, Clone)]
pub struct Grants {
    client: weir_http::Client,
    token_url: String,
    authorization: Secret,
    limit: Duration,
}

impl Grants {
    /// The endpoint at this URL, asked as this client. No request takes longer than `limit`, from the first byte to the last.
    pub fn new(
        client: weir_http::Client,
        token_url: impl Into<String>,
        (client_id, secret): (&str, &Secret),
        limit: Duration,
    ) -> Self {
        Self {
            client,
            token_url: token_url.into(),
            authorization: basic(client_id, secret),
            limit,
        }
    }

    /// Exchanges an unexpired token for one that can be refreshed: `offline_access` is requested beside its scope.
    ///
    /// # Errors
    /// [`TokenError`]; none holds a token or a secret.
    pub async fn exchange(&self, subject: &Secret, wanted: &Wanted) -> Result<Granted, TokenError> {
        let offline = wanted.scope.split(' ').any(|scope| scope == "offline_access");
        let scope = match (offline, wanted.scope.as_str()) {
            (true, scope) => scope.to_owned(),
            (false, "") => "offline_access".to_owned(),
            (false, scope) => format!("{scope} offline_access"),
        };
        let fields = [
            ("subject_token", subject.expose()),
            ("subject_token_type", ACCESS),
            ("requested_token_type", REFRESH),
            ("scope", &scope),
            ("audience", &wanted.audience),
        ];
        self.ask(form(EXCHANGE, &fields), wanted).await
    }

    /// Shows a refresh token, for a fresh access token.
    ///
    /// # Errors
    /// [`TokenError`]; none holds a token or a secret.
    pub async fn refresh(&self, refresh: &Secret, wanted: &Wanted) -> Result<Granted, TokenError> {
        let fields = [
            ("refresh_token", refresh.expose()),
            ("scope", wanted.scope.as_str()),
            ("audience", &wanted.audience),
        ];
        self.ask(form("refresh_token", &fields), wanted).await
    }

    async fn ask(&self, form: String, wanted: &Wanted) -> Result<Granted, TokenError> {
        let endpoint = (self.token_url.as_str(), &self.authorization);
        let asked = post(&self.client, endpoint, form, (&wanted.scope, &wanted.audience));
        let answer = tokio::time::timeout(self.limit, asked).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(TokenError::Timeout {
                token_url: self.token_url.clone(),
                limit: self.limit,
            })
        })?;
        Granted::read(&answer).ok_or_else(|| TokenError::NoToken {
            token_url: self.token_url.clone(),
        })
    }
}

impl Granted {
    /// Reads the body of an answer: none if there is no token in it. RFC 8693 has a refresh token that was asked for under `access_token`,
    /// and most issuers have it under its own name.
    pub fn read(answer: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Answer {
            access_token: Option<Secret>,
            refresh_token: Option<Secret>,
            issued_token_type: Option<String>,
            expires_in: Option<u64>,
            scope: Option<String>,
        }
        let answer: Answer = serde_json::from_slice(answer).ok()?;
        let usable = |token: &Secret| {
            let text = token.expose();
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let (mut access, mut refresh) = (answer.access_token.filter(usable), answer.refresh_token.filter(usable));
        if refresh.is_none() && answer.issued_token_type.as_deref() == Some(REFRESH) {
            refresh = access.take();
        }
        if access.is_none() && refresh.is_none() {
            return None;
        }
        Some(Self {
            access,
            life: answer
                .expires_in
                .map(|seconds| Duration::from_secs(seconds).min(LIFE_MAX)),
            refresh,
            scope: answer.scope,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use super::*;

    fn tokens(answer: &str) -> Option<(Option<String>, Option<String>)> {
        let granted = Granted::read(answer.as_bytes())?;
        let text = |token: Option<Secret>| token.map(|token| token.expose().to_owned());
        Some((text(granted.access), text(granted.refresh)))
    }

    #[test]
    fn both_ways_to_hand_over_a_refresh_token_are_read() {
        // A refresh token would be sent to a storage, or an access token back to the issuer.
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            tokens(r#"{"access_token":"a","token_type":"Bearer","refresh_token":"r"}"#),
            Some((some("a"), some("r")))
        );
        let strict = format!(r#"{{"access_token":"r","token_type":"N_A","issued_token_type":"{REFRESH}"}}"#);
        assert_eq!(tokens(&strict), Some((None, some("r"))));
        assert_eq!(tokens(r#"{"access_token":"a"}"#), Some((some("a"), None)));
    }

    #[test]
    fn other_text_is_not_taken_for_a_token() {
        // A line end in a token would become a header of its own.
        for answer in [
            "",
            "[]",
            "{}",
            r#"{"access_token":""}"#,
            r#"{"access_token":"a\r\nb"}"#,
            r#"{"access_token":7}"#,
        ] {
            assert_eq!(tokens(answer), None, "{answer}");
        }
        let long = Granted::read(br#"{"access_token":"a","expires_in":18446744073709551615}"#).unwrap();
        assert_eq!(long.life, Some(LIFE_MAX));
    }
}
