//! The signed envelope of a token: JWS compact form (RFC 7515), ES256 and RS256 only.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::error::{AuthError, printable};

/// Longest token taken, in bytes. Tokens of the field have 600 to 2,000; each of a thousand scopes would still fit.
pub const TOKEN_MAX: usize = 16 * 1024;
/// Most keys taken from one issuer's key set.
pub const KEYS_MAX: usize = 64;
/// Largest key set read, in bytes.
pub const JWKS_MAX: usize = 256 * 1024;

/// The signature algorithms that the WLCG token profile demands, and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256, keys of 2048 to 8192 bits.
    Rs256,
}

impl Algorithm {
    /// The name in a token's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

/// A token taken apart, nothing of it believed yet.
#[derive(Debug, Clone)]
pub struct Unverified<'a> {
    /// The algorithm named by the header.
    pub algorithm: Algorithm,
    /// The key named by the header.
    pub key_id: Option<String>,
    /// The JSON of the claims.
    pub payload: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart. Never panics, whatever the text.
    ///
    /// # Errors
    /// [`AuthError::TooLong`], [`AuthError::Malformed`] or [`AuthError::Algorithm`].
    pub fn parse(token: &'a str) -> Result<Self, AuthError> {
        if token.len() > TOKEN_MAX {
            return Err(AuthError::TooLong { limit: TOKEN_MAX });
        }
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthError::Malformed("it has not three parts"));
        };
        let decode = |part: &str| {
            URL_SAFE_NO_PAD
                .decode(part)
                .map_err(|_| AuthError::Malformed("a part of it is not base64url"))
        };
        let head: Header = serde_json::from_slice(&decode(header)?)
            .map_err(|_| AuthError::Malformed("its header is not a JSON object with an algorithm"))?;
        if head.crit.is_some() {
            return Err(AuthError::Malformed(
                "its header demands an extension that is not known here",
            ));
        }
        let algorithm = match head.alg.as_str() {
            "ES256" => Algorithm::Es256,
            "RS256" => Algorithm::Rs256,
            other => return Err(AuthError::Algorithm(printable(other))),
        };
        Ok(Self {
            algorithm,
            key_id: head.kid,
            payload: decode(payload)?,
            signed: &token[..header.len() + 1 + payload.len()],
            signature: decode(signature)?,
        })
    }

    /// Whether the key made the signature.
    pub fn is_signed_by(&self, key: &Key) -> bool {
        key.algorithm == self.algorithm && key.public.verify_sig(self.signed.as_bytes(), &self.signature).is_ok()
    }
}

/// A public key that signs tokens.
#[derive(Clone)]
pub struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    public: ParsedPublicKey,
    fingerprint: [u8; 32],
}

impl Key {
    /// The SHA-256 of the key itself, by which it is known again.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    fn new(id: Option<String>, algorithm: Algorithm, public: ParsedPublicKey) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public.as_ref());
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest.as_ref());
        Self {
            id,
            algorithm,
            public,
            fingerprint,
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} key {}",
            self.algorithm.as_str(),
            self.id.as_deref().unwrap_or("without id")
        )
    }
}

/// The public keys of one issuer (RFC 7517): those that can sign tokens; others are left out.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl KeySet {
    /// Reads a JWKS document. Never panics, whatever the bytes.
    ///
    /// Keys of other kinds, for other uses, or that are no keys are left out.
    ///
    /// # Errors
    /// A sentence, if the document is too large, is none, or holds more than [`KEYS_MAX`] keys.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        if json.len() > JWKS_MAX {
            return Err(format!("the key set is larger than {JWKS_MAX} bytes"));
        }
        let document: Jwks =
            serde_json::from_slice(json).map_err(|_| "the key set is not a JWKS document".to_owned())?;
        if document.keys.len() > KEYS_MAX {
            return Err(format!("the key set holds more than {KEYS_MAX} keys"));
        }
        Ok(Self {
            keys: document.keys.into_iter().filter_map(read_key).collect(),
        })
    }

    /// How many usable keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no usable key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys that may have signed the token: of its algorithm and, if it names one, of that name.
    pub fn candidates<'s>(&'s self, token: &'s Unverified<'_>) -> impl Iterator<Item = &'s Key> {
        self.keys
            .iter()
            .filter(move |key| key.algorithm == token.algorithm && (token.key_id.is_none() || key.id == token.key_id))
    }

    /// Whether this very key is still in the set.
    pub fn holds(&self, fingerprint: &[u8; 32]) -> bool {
        self.keys.iter().any(|key| key.fingerprint == *fingerprint)
    }
}

fn read_key(value: serde_json::Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let signs = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
        && jwk
            .key_ops
            .as_ref()
            .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
    if !signs {
        return None;
    }
    let named = |algorithm: Algorithm| jwk.alg.as_deref().is_none_or(|name| name == algorithm.as_str());
    let decode = |field: &Option<String>| URL_SAFE_NO_PAD.decode(field.as_ref()?.trim_end_matches('=')).ok();
    match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("EC", Some("P-256")) if named(Algorithm::Es256) => {
            let (x, y) = (decode(&jwk.x)?, decode(&jwk.y)?);
            if x.len() != 32 || y.len() != 32 {
                return None;
            }
            let point = [&[4][..], &x, &y].concat();
            let public = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()?;
            Some(Key::new(jwk.kid, Algorithm::Es256, public))
        }
        ("RSA", _) if named(Algorithm::Rs256) => {
            let components = RsaPublicKeyComponents {
                n: positive(decode(&jwk.n)?),
                e: positive(decode(&jwk.e)?),
            };
            let public = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).ok()?;
            Some(Key::new(jwk.kid, Algorithm::Rs256, public))
        }
        _ => None,
    }
}

/// Some issuers write a leading zero byte, as DER integers have it.
fn positive(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}
