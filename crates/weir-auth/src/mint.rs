//! Tokens that a service makes for itself: it signs them, and it alone takes them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use thiserror::Error;

use crate::files::{read_own, write_private};
use crate::scitokens::Dialect;
use crate::scope::Scope;
use crate::secret::Secret;
use crate::signing::{SigningKey, SigningKeyError, key_set};
use crate::token::Token;
use crate::verifier::{KeyOrigin, TrustedIssuer};

/// Makes tokens in a service's own name.
#[derive(Debug)]
pub struct Mint {
    key: SigningKey,
    url: String,
}

/// A token that was made.
#[derive(Debug)]
pub struct Minted {
    /// The token.
    pub token: Secret,
    /// Its `jti`, for logs.
    pub id: String,
    /// Its `exp`, in whole seconds.
    pub expires: SystemTime,
}

/// Why there is no mint.
#[derive(Debug, Error)]
pub enum MintError {
    /// The file of the key can be neither read nor made.
    #[error("could not read or make {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Others than its owner can read it.
    #[error("{path} can be read by others than its owner: make a new one, with mode 0600")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// It holds no key, or none could be made.
    #[error("{path} holds no key")]
    Key {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        #[source]
        source: SigningKeyError,
    },
}

impl Mint {
    /// A mint of the key in a file, which is made with a new key if it is missing; `url` is issuer and audience.
    ///
    /// # Errors
    /// [`MintError`].
    pub fn open(path: &Path, url: impl Into<String>) -> Result<Self, MintError> {
        let file = |source| MintError::File {
            path: path.to_owned(),
            source,
        };
        let key = |source| MintError::Key {
            path: path.to_owned(),
            source,
        };
        let text = match read_own(path) {
            Ok(text) => Secret::new(text.trim()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = SigningKey::generate().map_err(key)?;
                write_private(path, made.to_base64().expose().as_bytes()).map_err(file)?;
                return Ok(Self::new(made, url));
            }
            Err(error) => return Err(file(error)),
        };
        if fs::metadata(path).map_err(file)?.permissions().mode() & 0o077 != 0 {
            return Err(MintError::Exposed { path: path.to_owned() });
        }
        Ok(Self::new(SigningKey::from_base64(&text).map_err(key)?, url))
    }

    /// A mint of this key; `url` is issuer and audience of its tokens.
    pub fn new(key: SigningKey, url: impl Into<String>) -> Self {
        Self { key, url: url.into() }
    }

    /// The VO of the owner of one of its tokens.
    pub fn vo(token: &Token) -> Option<&str> {
        token.groups.first().map(|group| &group.as_str()[1..])
    }

    /// The issuer as a [`crate::Verifier`] trusts it: below every path, by its key, without asking anybody.
    pub fn as_issuer(&self) -> TrustedIssuer {
        TrustedIssuer {
            audiences: vec![self.url.clone()],
            dialects: vec![Dialect::Wlcg],
            keys: KeyOrigin::Static(key_set([&self.key])),
            ..TrustedIssuer::new(self.url.clone())
        }
    }

    /// A token of the WLCG profile with these scopes, which must not be empty: without any it would be judged by rules.
    ///
    /// The VO is put down as a group, which beside scopes gives no right; [`Mint::vo`] reads it back.
    pub fn mint(
        &self,
        subject: &str,
        vo: Option<&str>,
        scopes: &[Scope],
        now: SystemTime,
        expires: SystemTime,
    ) -> Minted {
        assert!(!scopes.is_empty(), "a token without scopes is not bound to any");
        let mut random = [0; 16];
        SystemRandom::new()
            .fill(&mut random)
            .expect("the system has randomness once it is up");
        let id = URL_SAFE_NO_PAD.encode(random);
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let (now, expires) = (seconds(now), seconds(expires));
        let mut claims = json!({
            "wlcg.ver": "1.0", "iss": self.url, "aud": self.url, "sub": subject, "jti": id, "iat": now, "nbf": now,
            "exp": expires, "scope": scopes.join(" "),
        });
        if let Some(vo) = vo {
            claims["wlcg.groups"] = json!([format!("/{vo}")]);
        }
        Minted {
            token: self.key.sign(&claims).expect("these claims are texts and numbers"),
            id,
            expires: UNIX_EPOCH + Duration::from_secs(expires),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use std::sync::Arc;

    use super::*;
    use crate::scope::parse_scopes;
    use crate::token::Access;
    use crate::verifier::{Fetch, FetchFuture, Verifier, VerifierConfig};
    use crate::{AuthError, StoragePath};

    /// The service's own tokens are verified without asking anybody.
    #[derive(Debug)]
    struct Nobody;

    impl Fetch for Nobody {
        fn get<'a>(&'a self, _: &'a str, _: usize) -> FetchFuture<'a> {
            panic!("its own keys need no request")
        }
    }

    /// A service would refuse its own tokens, or accept those of another one with the same configuration.
    #[tokio::test]
    async fn a_service_takes_its_own_tokens_and_no_other_service_does() {
        let mint = |url: &str| Mint::new(SigningKey::generate().unwrap(), url);
        let (here, there) = (mint("https://se.example:8443"), mint("https://other.example"));
        let fetch: Arc<dyn Fetch> = Arc::new(Nobody);
        let verifier = |mint: &Mint| {
            let config = VerifierConfig {
                issuers: vec![mint.as_issuer()],
                ..VerifierConfig::default()
            };
            Verifier::with_fetch(config, &fetch)
        };
        let now = SystemTime::now();
        let scopes = parse_scopes("storage.read:/a%20b storage.modify:/a%20b/c").unwrap();
        let minted = here.mint("/CN=Ada", Some("dune"), &scopes, now, now + Duration::from_secs(60));
        let token = verifier(&here).verify(minted.token.expose(), now).await.unwrap();
        assert_eq!((token.subject.as_str(), &token.id), ("/CN=Ada", &minted.id));
        assert_eq!((&token.scopes, token.expires), (&scopes, minted.expires));
        assert_eq!(
            (token.prefixes.as_slice(), Mint::vo(&token)),
            (&[StoragePath::root()][..], Some("dune"))
        );
        assert!(matches!(token.access(), Access::Capabilities([_, _])));

        let elsewhere = verifier(&there).verify(minted.token.expose(), now).await;
        assert!(matches!(elsewhere, Err(AuthError::UnknownIssuer(_))));
        let twin = verifier(&mint("https://se.example:8443"))
            .verify(minted.token.expose(), now)
            .await;
        assert!(twin.is_err());
        let late = verifier(&here).verify(minted.token.expose(), minted.expires).await;
        assert!(matches!(late, Err(AuthError::Expired { .. })));
        let again = here.mint("/CN=Ada", Some("dune"), &scopes, now, now + Duration::from_secs(60));
        assert_ne!(again.id, minted.id);
    }

    /// Every restart would void all tokens, or a key that others can read be used.
    #[test]
    fn the_key_stays_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token.key");
        let open = || Mint::open(&path, "https://se.example");
        let key = open().unwrap().key.id().to_owned();
        assert_eq!(open().unwrap().key.id(), key);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(open(), Err(MintError::Exposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "no key").unwrap();
        assert!(matches!(open(), Err(MintError::Key { .. })));
    }
}
