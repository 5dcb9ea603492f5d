//! Why a request is not let in, and with which status: 401, 403 and 503 are chosen here and nowhere else.

use std::time::Duration;

use thiserror::Error;

use crate::denied::Denied;
use crate::scope::ScopeError;

/// How long a client should wait after a 503 because an issuer's keys could not be had.
pub const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The reason why a bearer is refused.
///
/// No variant holds a token or a part of its signature. Values from an unverified token are cut and cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The request carries no token.
    #[error("the request carries no bearer token")]
    Missing,
    /// The token is longer than any token may be.
    #[error("the token is longer than {limit} bytes")]
    TooLong {
        /// The longest token taken.
        limit: usize,
    },
    /// The text is no signed token.
    #[error("the token is not a well-formed JWT: {0}")]
    Malformed(&'static str),
    /// The token is signed in a way that is not taken (`none`, a shared secret, …).
    #[error("the token is signed with {0}, only ES256 and RS256 are taken")]
    Algorithm(String),
    /// The issuer is not one of those configured here.
    #[error("the token's issuer {0} is not trusted here")]
    UnknownIssuer(String),
    /// The issuer publishes no such key.
    #[error("issuer {issuer} publishes no key {key} that signs {algorithm}")]
    UnknownKey {
        /// The configured issuer.
        issuer: String,
        /// The `kid` of the token.
        key: String,
        /// The algorithm of the token.
        algorithm: &'static str,
    },
    /// The signature is not the issuer's.
    #[error("the token's signature does not match")]
    Signature,
    /// A claim that the profile demands is missing.
    #[error("the token has no claim {0}")]
    MissingClaim(&'static str),
    /// The version is not one of the profile's first major version.
    #[error("the token's wlcg.ver {0} is not supported, only 1.x is")]
    Version(String),
    /// The issuer is not said to write tokens of this dialect, or of this version of it.
    #[error("the token is of version {0}, which is not taken of its issuer")]
    Dialect(String),
    /// The token's time is over.
    #[error("the token expired {} s ago", ago.as_secs())]
    Expired {
        /// Since when.
        ago: Duration,
    },
    /// The token's time has not come.
    #[error("the token is not valid for another {} s", starts_in.as_secs())]
    NotYetValid {
        /// Until when.
        starts_in: Duration,
    },
    /// The token is meant for another service.
    #[error("the token is for {named}, this is {wanted}")]
    Audience {
        /// The audience in the token.
        named: String,
        /// The first name of this service.
        wanted: String,
    },
    /// A scope makes the token invalid.
    #[error("the token holds an invalid scope")]
    Scope(#[from] ScopeError),
    /// The keys of the issuer could not be had, and none are kept.
    #[error("the keys of issuer {issuer} are unavailable: {reason}")]
    KeysUnavailable {
        /// The configured issuer.
        issuer: String,
        /// The error of the last fetch.
        reason: String,
    },
    /// The token is valid and does not suffice.
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl AuthError {
    /// The HTTP status: 401 (the token is no good), 403 (it is good and does not suffice) or 503 (could not be judged).
    pub fn status(&self) -> http::StatusCode {
        match self {
            Self::Denied(_) => http::StatusCode::FORBIDDEN,
            Self::KeysUnavailable { .. } => http::StatusCode::SERVICE_UNAVAILABLE,
            _ => http::StatusCode::UNAUTHORIZED,
        }
    }

    /// The `WWW-Authenticate` header that goes with the status (RFC 6750 section 3); none for 503, nor for a certificate that
    /// does not suffice.
    pub fn www_authenticate(&self) -> Option<String> {
        match self {
            Self::Missing => Some("Bearer".to_owned()),
            Self::Denied(denied) => denied.www_authenticate(),
            Self::KeysUnavailable { .. } => None,
            other => Some(format!(
                "Bearer error=\"invalid_token\", error_description=\"{}\"",
                quotable(&other.to_string())
            )),
        }
    }

    /// The `Retry-After` header's seconds; only for 503.
    pub fn retry_after(&self) -> Option<Duration> {
        matches!(self, Self::KeysUnavailable { .. }).then_some(RETRY_AFTER)
    }

    /// The remedy for the bearer or the operator: one sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "send a token of a trusted issuer as `Authorization: Bearer …`",
            Self::Expired { .. } => "get a new token from the issuer",
            Self::NotYetValid { .. } => "compare the clocks of this host and of the issuer",
            Self::Audience { .. } => {
                "ask the issuer for a token with this service's audience, or add the audience to the configuration"
            }
            Self::UnknownIssuer(_) => "add the issuer to the configuration, exactly as the token writes it",
            Self::UnknownKey { .. } | Self::Signature => {
                "get a new token; if that fails too, look at the issuer's JWKS"
            }
            Self::KeysUnavailable { .. } => "wait and try again; the operator should see whether the issuer answers",
            Self::Dialect(_) => "use a token in a dialect that this service takes of the issuer (`dialects`)",
            Self::Denied(denied) => denied.remedy(),
            Self::Scope(_) => "ask the issuer for scopes with absolute, normal paths",
            Self::TooLong { .. }
            | Self::Malformed(_)
            | Self::Algorithm(_)
            | Self::MissingClaim(_)
            | Self::Version(_) => "use an access token of the WLCG profile 1.x, signed with ES256 or RS256",
        }
    }
}

/// RFC 6750 section 3: the characters that a quoted description may hold.
fn quotable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if matches!(c, ' '..='~') && c != '"' && c != '\\' {
                c
            } else {
                '\''
            }
        })
        .collect()
}

/// An error and its causes in one line, without secrets: for logs and for texts that carry no chain.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // Some errors repeat their cause; once is enough.
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    crate::redact(&text)
}

/// Cleans the text of a peer (a reason, a body, a header, a name) for terminals, logs and tables: one line without secrets, at most 500
/// characters. Control characters move the cursor of a terminal and end lines of a log; direction marks show a text in another order.
pub fn peer_text(said: impl AsRef<[u8]>) -> String {
    let text = String::from_utf8_lossy(said.as_ref());
    let clean = text.trim().replace(is_mark, " ");
    let words = crate::redact(clean.trim());
    match words.char_indices().nth(PEER_TEXT_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// Whether a character is invisible and acts on its surroundings: control characters, ends of lines, and marks of
/// direction.
pub fn is_mark(character: char) -> bool {
    let of_direction = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    of_direction || character.is_control()
}

/// As [`peer_text`], of the first line of an answer's body.
pub fn peer_line(body: &[u8]) -> String {
    peer_text(body.split(|byte| *byte == b'\n').next().unwrap_or_default())
}

/// The most characters of a peer's text.
const PEER_TEXT_MAX: usize = 500;

/// A text without control characters, at most 1000 bytes long: programs of the field, such as davix, read lines of 1024.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(1000));
    for character in text.trim().chars() {
        if line.len() + character.len_utf8() > 1000 {
            break;
        }
        line.push(if character.is_control() { ' ' } else { character });
    }
    line
}

/// A stranger's text made fit for an error: at most 120 characters, printable ASCII.
pub(crate) fn printable(text: &str) -> String {
    printable_within(text, 120)
}

/// The same with another length.
pub(crate) fn printable_within(text: &str, length: usize) -> String {
    let mut clean: String = text
        .chars()
        .take(length)
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .collect();
    if text.chars().nth(length).is_some() {
        clean.push_str("...");
    }
    crate::redact(&clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A storage's text would colour the reader's terminal, end a line of a log, or display as another text.
    #[test]
    fn text_of_a_peer_moves_no_cursor() {
        let said = peer_text("  \u{1b}[31mRED \u{1b}]0;title\u{7}\r\nnext\u{9b}x\u{202e}gnp.exe\0 ");
        assert!(!said.chars().any(|c| c.is_control() || c == '\u{202e}'), "{said:?}");
        assert!(
            said.contains("RED") && said.contains("title") && said.contains("next") && !said.starts_with(' '),
            "{said:?}"
        );
        assert_eq!(peer_text(b"\xff\xfeok"), "\u{fffd}\u{fffd}ok");
        let long = peer_text("é".repeat(10_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
        assert!(!peer_text("Authorization: Bearer abcdefgh.ijklmnop.qrstuvwx").contains("ijklmnop"));
        assert_eq!(peer_line(b" no\r\nspace"), "no");
        assert_eq!(peer_text("größer als 1\u{a0}GB"), "größer als 1\u{a0}GB");
    }
}
