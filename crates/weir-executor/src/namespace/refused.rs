//! The reason of a refused operation: one table from storages' answers to obstacles.

use http::StatusCode;
use weir_world::{ErrorClass, Failure};

use crate::{
    requests::{failure::scrub, hide},
    surl::Surl,
};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The obstacle.
    pub obstacle: Obstacle,
    /// For people, without secrets.
    pub text: String,
}

/// The obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no such path, or nothing above it.
    Missing,
    /// The storage does not let this user, or this service may not connect to it.
    Forbidden,
    /// The delegated proxy cannot be used.
    Proxy,
    /// There is something already.
    Taken,
    /// A file, where a directory is needed.
    NoDirectory,
    /// A directory, where a file is needed.
    Directory,
    /// A directory with something in it.
    Full,
    /// A directory with too much in it.
    TooLarge,
    /// The storage says that it has too much to do.
    Busy,
    /// It took too long, and nothing was changed.
    Late,
    /// A change may have been made, or part of it.
    Unknown,
    /// The storage is not reached, cannot do this, or makes no sense.
    Failed,
}

impl Obstacle {
    fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::NotFound => Self::Missing,
            ErrorClass::Permission | ErrorClass::Token | ErrorClass::ReadOnly => Self::Forbidden,
            ErrorClass::Exists => Self::Taken,
            ErrorClass::Overload => Self::Busy,
            ErrorClass::Timeout => Self::Late,
            _ => Self::Failed,
        }
    }
}

impl Refused {
    pub(super) fn new(obstacle: Obstacle, text: impl AsRef<str>) -> Self {
        let text = scrub(text.as_ref());
        Self { obstacle, text }
    }

    pub(super) fn of(failure: &Failure) -> Self {
        Self::new(Obstacle::of(failure.class), &failure.message)
    }

    /// An answer with a status that is none of success.
    pub(super) fn status(what: &str, status: StatusCode, text: &str) -> Self {
        let obstacle = Obstacle::of(ErrorClass::of_status(status.as_u16(), text));
        let text = text.trim();
        let colon = if text.is_empty() { "" } else { ": " };
        Self::new(obstacle, format!("{what}: HTTP {status}{colon}{text}"))
    }

    /// Removes the credentials of this URL: storages repeat URLs in their errors.
    pub(super) fn hiding(mut self, surl: &Surl) -> Self {
        let tail = surl.query().unwrap_or_default();
        self.text = hide::without(&self.text, std::iter::once(tail));
        self
    }
}

/// 409 is a missing parent (RFC 4918 sections 9.3.1 and 9.9.4), unless the storage says that something is there.
pub(super) fn conflict(what: &str, status: StatusCode, text: &str, missing: &str) -> Refused {
    let mut refused = Refused::status(what, status, text);
    if ErrorClass::of_text(text) == Some(ErrorClass::Exists) {
        refused.obstacle = Obstacle::Taken;
    } else if status == StatusCode::CONFLICT {
        refused.obstacle = Obstacle::Missing;
        refused.text = format!("{}; {missing}", refused.text);
    }
    refused
}
