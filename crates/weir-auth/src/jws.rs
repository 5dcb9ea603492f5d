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
    /// Splits a token into its parts. Never panics, whatever the text.
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

/// The public keys of one issuer (RFC 7517) that can sign tokens; others are left out.
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
    /// A sentence, if the document is too large, is invalid, or holds more than [`KEYS_MAX`] keys.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use aws_lc_rs::rand::SystemRandom;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::signing::{SigningKey, jwks, key_set};

    fn part(value: &serde_json::Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    #[test]
    fn a_signature_holds_for_its_text_and_key_alone() {
        // Anybody could write tokens.
        let (ours, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let token = ours.sign(&json!({ "iss": "x" })).unwrap();
        let (mine, theirs) = (key_set([&ours]), key_set([&other]));
        let parsed = Unverified::parse(token.expose()).unwrap();
        assert_eq!(parsed.key_id.as_deref(), Some(ours.id()));
        assert!(parsed.is_signed_by(mine.candidates(&parsed).next().unwrap()));
        assert!(theirs.candidates(&parsed).next().is_none());
        assert!(!parsed.is_signed_by(&theirs.keys[0]));
        for change in [".", "A", "="] {
            let changed = format!("{}{change}", token.expose());
            assert!(
                Unverified::parse(&changed).map_or(true, |parsed| !parsed.is_signed_by(&mine.keys[0])),
                "{change}"
            );
        }
        let other_claims = token
            .expose()
            .replacen(&part(&json!({ "iss": "x" })), &part(&json!({ "iss": "y" })), 1);
        assert!(!Unverified::parse(&other_claims).unwrap().is_signed_by(&mine.keys[0]));
    }

    #[test]
    fn only_the_algorithms_of_the_profile_are_taken() {
        // A token without signature, or signed with the public key as a shared secret, would be taken.
        for algorithm in [
            "none", "None", "NONE", "HS256", "HS512", "ES384", "RS512", "PS256", "EdDSA", "es256", "", "ES256\0",
        ] {
            let token = format!("{}.{}.", part(&json!({ "alg": algorithm })), part(&json!({})));
            assert!(
                matches!(Unverified::parse(&token), Err(AuthError::Algorithm(_))),
                "{algorithm}"
            );
        }
        let token = format!(
            "{}.{}.AAAA",
            part(&json!({ "alg": "ES256", "crit": ["b64"], "b64": false })),
            part(&json!({}))
        );
        assert!(
            Unverified::parse(&token).is_err(),
            "an extension that must be understood"
        );
    }

    #[test]
    fn texts_that_are_no_tokens_are_refused() {
        // A text would be read as another one than its issuer wrote.
        let (head, body) = (part(&json!({ "alg": "ES256" })), part(&json!({})));
        for text in [
            String::new(),
            ".".into(),
            "..".into(),
            "...".into(),
            head.clone(),
            format!("{head}.{body}"),
            format!("{head}.{body}.AA.AA"),
            format!("{head}=.{body}.AA"),
            format!(" {head}.{body}.AA"),
            format!("{head}.{body}.A A"),
            format!("{head}.{body}.A+/A"),
            format!("{}.{body}.AA", part(&json!([]))),
            format!(
                "{}.{body}.AA",
                URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","alg":"RS256"}"#)
            ),
        ] {
            assert!(Unverified::parse(&text).is_err(), "{text}");
        }
        let long = format!("{head}.{}.AA", "A".repeat(TOKEN_MAX));
        assert_eq!(
            Unverified::parse(&long).unwrap_err(),
            AuthError::TooLong { limit: TOKEN_MAX }
        );
    }

    #[test]
    fn a_key_set_gives_only_keys_that_sign_tokens() {
        // A key for encryption, or a weak one, would be taken for the issuer's signature.
        let good = SigningKey::generate().unwrap().to_jwk();
        let with = |name: &str, value: serde_json::Value| {
            let mut key = good.clone();
            key[name] = value;
            key
        };
        let taken = |key: &serde_json::Value| {
            KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes())
                .unwrap()
                .len()
        };
        assert_eq!(taken(&good), 1);
        for bad in [
            with("use", json!("enc")),
            with("key_ops", json!(["sign"])),
            with("alg", json!("ES384")),
            with("crv", json!("P-384")),
            with("x", json!("AA")),
            with("y", good["x"].clone()),
            with("kty", json!("oct")),
            with("kid", json!(7)),
            json!({}),
            json!(null),
            json!("key"),
            json!({ "kty": "RSA", "n": "AAAA", "e": "AQAB" }),
            json!({ "kty": "RSA", "n": "", "e": "" }),
        ] {
            let signs = KeySet::parse(json!({ "keys": [bad] }).to_string().as_bytes()).unwrap();
            let token = SigningKey::generate().unwrap().sign(&json!({})).unwrap();
            let parsed = Unverified::parse(token.expose()).unwrap();
            assert!(signs.keys.iter().all(|key| !parsed.is_signed_by(key)), "{bad}");
        }
        for bad in [
            with("use", json!("enc")),
            with("y", good["x"].clone()),
            with("crv", json!("P-384")),
        ] {
            assert_eq!(taken(&bad), 0, "{bad}");
        }
    }

    #[test]
    fn rsa_signatures_hold_too() {
        // Issuers that sign with RSA could not be used.
        use aws_lc_rs::rsa::{KeyPair, KeySize};
        use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};

        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let components = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
        let key = json!({
            "kty": "RSA", "alg": "RS256", "kid": "r",
            "n": URL_SAFE_NO_PAD.encode([&[0][..], &components.n].concat()), "e": URL_SAFE_NO_PAD.encode(&components.e),
        });
        let keys = KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).unwrap();
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "kid": "r" })), part(&json!({})));
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            signed.as_bytes(),
            &mut signature,
        )
        .unwrap();
        let holds = |text: &str, signature: &[u8]| {
            let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
            let parsed = Unverified::parse(&token).unwrap();
            keys.candidates(&parsed).any(|key| parsed.is_signed_by(key))
        };
        assert!(holds(&signed, &signature));
        assert!(!holds(
            &signed.replacen(&part(&json!({})), &part(&json!({ "a": 1 })), 1),
            &signature
        ));
        assert!(!holds(&signed, &signature[1..]));
        let as_ecdsa = format!("{}.{}", part(&json!({ "alg": "ES256", "kid": "r" })), part(&json!({})));
        assert!(!holds(&as_ecdsa, &signature));
    }

    #[test]
    fn key_sets_are_bounded() {
        // An issuer gone wrong would fill our memory.
        let key = SigningKey::generate().unwrap();
        assert!(KeySet::parse(jwks(vec![&key; KEYS_MAX]).to_string().as_bytes()).is_ok());
        assert!(KeySet::parse(jwks(vec![&key; KEYS_MAX + 1]).to_string().as_bytes()).is_err());
        assert!(KeySet::parse(&vec![b' '; JWKS_MAX + 1]).is_err());
        for text in ["", "[]", "{}", "{\"keys\":{}}", "null"] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parsers_panic(text in "[A-Za-z0-9._{}\":,-]{0,200}", bytes in any::<Vec<u8>>()) {
            // A strange token or key set would take the service down.
            let _ = Unverified::parse(&text);
            let _ = Unverified::parse(&String::from_utf8_lossy(&bytes));
            let _ = KeySet::parse(&bytes);
            let _ = crate::token::Claims::parse(&bytes);
        }

        #[test]
        fn no_changed_byte_goes_unnoticed(place in any::<prop::sample::Index>(), bit in 0..6_u32) {
            // A token could be changed on its way.
            let key = SigningKey::generate().unwrap();
            let token = key.sign(&json!({ "iss": "x", "scope": "storage.read:/a" })).unwrap();
            let mut bytes = token.expose().as_bytes().to_vec();
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            if let Ok(text) = String::from_utf8(bytes) {
                let set = key_set([&key]);
                prop_assert!(Unverified::parse(&text).map_or(true, |parsed| !parsed.is_signed_by(&set.keys[0])), "{text}");
            }
        }
    }
}
