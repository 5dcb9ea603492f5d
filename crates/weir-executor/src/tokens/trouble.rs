//! Reasons for which a token is not renewed.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use weir_auth::Secret;
use weir_world::{ErrorClass, Failure, Party, Retry};

use crate::requests::failure::Scene;

/// How long an attempt waits with a slot of its link in hand.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Why there is no fresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There may be one later.
    Waits(String),
    /// There will be none: with the reason, and whether the issuer refuses the shown token itself.
    Refused(String, bool),
}

pub(super) type Outcome = Result<Secret, Trouble>;

impl Trouble {
    /// The failure of an attempt whose token it is, with the issuer's URL and its count of attempts that wait.
    pub(super) fn failure(self, scene: Scene, (url, waits): (&str, &AtomicU64)) -> Failure {
        let of = Scene::new(Party::Issuer, scene.phase);
        let side = scene.party;
        match self {
            Self::Waits(why) => {
                waits.fetch_add(1, Relaxed);
                let text = format!("the token for the {side} has expired, and waits for the token issuer {url}: {why}");
                let mut failure = of.fail(ErrorClass::Timeout, text);
                failure.remedy = "none needed if the issuer comes back; it is asked again".into();
                failure.retry = Retry::Later;
                failure
            }
            Self::Refused(why, _) => {
                let text =
                    format!("the token for the {side} has expired, and the token issuer {url} gives no other: {why}");
                let mut failure = of.fail(ErrorClass::Token, text);
                failure.remedy = "submit again with a token whose scope and audience this service may renew, or one that outlives the queue".into();
                failure.retry = Retry::Never;
                failure
            }
        }
    }
}
