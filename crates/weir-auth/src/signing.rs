//! The private side of a token: a key that signs with ES256. Issuers hold it; services never do.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::jws::KeySet;
use crate::secret::Secret;

/// Why there is no signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SigningKeyError {
    /// The system gives no randomness, or not enough memory.
    #[error("could not generate a signing key")]
    Generate,
    /// The text is no P-256 key in PKCS #8 PEM.
    #[error("the text is no P-256 private key in PKCS #8 form")]
    Read,
}

/// A P-256 key that signs tokens, named by its RFC 7638 thumbprint.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    pkcs8: Secret,
    id: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "signing key {}", self.id)
    }
}

impl SigningKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// [`SigningKeyError::Generate`].
    pub fn generate() -> Result<Self, SigningKeyError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| SigningKeyError::Generate)?;
        Self::from_pkcs8(document.as_ref()).ok_or(SigningKeyError::Generate)
    }

    /// Reads a key from the output of [`SigningKey::to_base64`].
    ///
    /// # Errors
    /// [`SigningKeyError::Read`].
    pub fn from_base64(text: &Secret) -> Result<Self, SigningKeyError> {
        let der = STANDARD.decode(text.expose()).map_err(|_| SigningKeyError::Read)?;
        Self::from_pkcs8(&der).ok_or(SigningKeyError::Read)
    }

    /// The key as base64 of PKCS #8, for a file that only its owner may read.
    pub fn to_base64(&self) -> &Secret {
        &self.pkcs8
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
        let (x, y) = coordinates(&pair);
        // RFC 7638 section 3: the members in this order, without white space.
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, thumbprint.as_bytes()));
        Some(Self {
            pair,
            pkcs8: Secret::new(STANDARD.encode(der)),
            id,
        })
    }

    /// The same key under another name.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// `kid`: the thumbprint of the public key, unless it was given another name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public key as a member of a JWKS.
    pub fn to_jwk(&self) -> Value {
        let (x, y) = coordinates(&self.pair);
        json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, "x": x, "y": y })
    }

    /// A token with these claims; some 25 µs.
    ///
    /// # Errors
    /// If the claims cannot be written as JSON.
    pub fn sign(&self, claims: &impl Serialize) -> Result<Secret, serde_json::Error> {
        let header = json!({ "alg": "ES256", "kid": self.id, "typ": "JWT" }).to_string();
        let mut token = URL_SAFE_NO_PAD.encode(header);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(claims)?, &mut token);
        let signature = self
            .pair
            .sign(&SystemRandom::new(), token.as_bytes())
            .expect("signing with a valid key fails only without memory");
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(Secret::new(token))
    }
}

/// The JWKS document of these keys.
pub fn jwks<'a>(keys: impl IntoIterator<Item = &'a SigningKey>) -> Value {
    json!({ "keys": keys.into_iter().map(SigningKey::to_jwk).collect::<Vec<_>>() })
}

/// The public keys of these keys, as a verifier takes them: for services and tests that share a process with the issuer.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a SigningKey>) -> KeySet {
    KeySet::parse(jwks(keys).to_string().as_bytes()).expect("our own key set is well formed")
}

/// `x` and `y` of the public key, in base64url. The encoded point is one byte (uncompressed) and twice 32 bytes.
fn coordinates(pair: &EcdsaKeyPair) -> (String, String) {
    let point = pair.public_key().as_ref();
    (
        URL_SAFE_NO_PAD.encode(&point[1..33]),
        URL_SAFE_NO_PAD.encode(&point[33..65]),
    )
}
