//! Tokens of the services' issuer: those that it gives, and those that its key makes.

use std::{fs, path::PathBuf, time::SystemTime};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_auth::{ANY_AUDIENCE, Secret, SigningKey};

use super::{Answer, Services};
use crate::{run, write_private};

impl Services {
    /// The audiences of tokens: every storage by `any`, and each node of the transfer service by name, since a transfer
    /// service does not take `any` unless it is configured to.
    fn audiences(&self) -> Vec<&str> {
        let nodes = self.nodes.iter().map(|node| node.url.as_str());
        [ANY_AUDIENCE, &self.transfer.url].into_iter().chain(nodes).collect()
    }

    /// A fresh token of the issuer, for every storage and the transfer service.
    pub fn token(&self, scopes: &str) -> Result<String> {
        self.token_for(scopes, &self.audiences())
    }

    /// A file with the form that asks the issuer for such a token.
    pub fn token_form(&self, scopes: &str) -> Result<PathBuf> {
        self.form(scopes, &self.audiences())
    }

    fn form(&self, scopes: &str, audiences: &[&str]) -> Result<PathBuf> {
        let form = self.file("token.form");
        let (secret, audiences) = (&self.secret, audiences.join("+"));
        write_private(
            &form,
            &format!(
                "grant_type=client_credentials&client_id=tester&client_secret={secret}&audience={audiences}&scope={}",
                scopes.replace(' ', "+")
            ),
        )?;
        Ok(form)
    }

    /// A fresh token of the issuer for these audiences.
    pub fn token_for(&self, scopes: &str, audiences: &[&str]) -> Result<String> {
        let form = self.form(scopes, audiences)?;
        let url = format!("{}/token", self.issuer.url);
        let data = format!("@{}", form.display());
        let answer = Answer::of(&run(self.bare_curl().args(["-d", &data, &url]))?);
        let token = answer.json()?["access_token"].as_str().map(str::to_owned);
        token.with_context(|| format!("no token: {answer:?}"))
    }

    /// A token of the issuer that is good only an hour from now.
    pub fn early_token(&self, scopes: &str) -> Result<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        self.token_with(&json!({"nbf": now + 3600, "exp": now + 7200, "jti": "early", "scope": scopes}))
    }

    /// A token of the issuer, of this name, that ends so many seconds from now.
    pub fn token_until(&self, scopes: &str, name: &str, seconds: i64) -> Result<String> {
        let now = i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs())?;
        self.token_with(&json!({"exp": now + seconds, "jti": name, "scope": scopes}))
    }

    /// A token of the issuer, good for an hour, with these claims in place of the usual ones; null takes one away.
    pub fn token_with(&self, claims: &Value) -> Result<String> {
        let ring: Value = serde_json::from_slice(&fs::read(self.file("keys/signing-keys.json"))?)?;
        let key = ring["current"].as_str().context("no signing key")?;
        let key = SigningKey::from_base64(&Secret::new(key))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let mut all = json!({
            "wlcg.ver": "1.0",
            "iss": self.issuer.url,
            "sub": "tester",
            "aud": self.audiences(),
            "iat": now - 7200,
            "nbf": now - 7200,
            "exp": now + 3600,
            "jti": "tester",
        });
        if let (Value::Object(all), Value::Object(claims)) = (&mut all, claims) {
            all.extend(claims.clone());
            all.retain(|_, value| !value.is_null());
        }
        Ok(key.sign(&all)?.expose().to_owned())
    }
}
