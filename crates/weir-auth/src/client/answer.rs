//! Answers of token endpoints.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::error::printable;
use crate::secret::Secret;

/// A token is not handed out when it ends within this time (or a sixth of its life): it would end on the way.
const END_MARGIN: Duration = Duration::from_secs(5);

/// Life taken for granted when the issuer does not tell.
const LIFE_DEFAULT: Duration = Duration::from_secs(300);

/// Limit for one request to an issuer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest answer read, in bytes: a token of the greatest length, and words around it.
pub(super) const ANSWER_MAX: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(super) token: Secret,
    /// From then on a new one is asked for.
    pub(super) renew: Instant,
    /// From then on it is not handed out.
    pub(super) end: Instant,
}

/// The issuer's error message (RFC 6749 section 5.2), made printable.
pub(crate) fn refusal(answer: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<Refusal>(answer) {
        Ok(refusal) => match refusal.error_description {
            Some(description) => format!("{}: {}", printable(&refusal.error), printable(&description)),
            None => printable(&refusal.error),
        },
        Err(_) => "without a reason".to_owned(),
    }
}

pub(crate) fn read_answer(answer: &[u8], asked: Instant) -> Option<Held> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: Secret,
        token_type: String,
        expires_in: Option<u64>,
    }
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let token = answer.access_token.expose();
    let is_whole = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !answer.token_type.eq_ignore_ascii_case("bearer") || !is_whole {
        return None;
    }
    let life = answer.expires_in.map(Duration::from_secs);
    Some(held(answer.access_token, life, asked))
}

/// A token that was asked for at this moment.
pub(super) fn held(token: Secret, life: Option<Duration>, asked: Instant) -> Held {
    // A year is longer than the life of any token, and keeps the sum within the range of a clock.
    let life = life.unwrap_or(LIFE_DEFAULT).min(Duration::from_secs(366 * 86_400));
    Held {
        renew: asked + life * 2 / 3,
        end: asked + life.saturating_sub(END_MARGIN.min(life / 6)),
        token,
    }
}
