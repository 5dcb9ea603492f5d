//! Errors of a store.

/// The reason why a service refuses a change, independent of the database: it exists already, or contradicts another
/// one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refusal(Box<dyn std::error::Error + Send + Sync>);

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be opened or brought up to date.
    #[error("could not open the store {path}")]
    Open {
        /// Its file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database cannot be reached, or its tables cannot be brought up to date.
    #[error("could not use the database {database}")]
    Database {
        /// Where it is; without a password.
        database: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another scheduler has taken over.
    #[error("another scheduler has taken over; this one changes nothing any more")]
    LeadershipLost,
    /// Another process has it.
    #[error("the store {path} is in use by another process; stop it, or give this one a store of its own")]
    Locked {
        /// Its file.
        path: std::path::PathBuf,
    },
    /// The key of sealed secrets cannot be read or made.
    #[error("could not use the key file {path}: {reason}")]
    Key {
        /// The key file.
        path: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// A secret was sealed with another key.
    #[error("the token {0} cannot be opened: it was sealed with another key")]
    Sealed(String),
    /// A trouble of the store, which passes, or is mended by an operator: disk full, database busy or damaged.
    #[error("the store cannot work at the moment")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The service's own reason for not taking one change.
    #[error(transparent)]
    Refused(Refusal),
    /// A row with invalid values.
    #[error("a row of the store cannot be read: {0}")]
    Unreadable(String),
    /// Anything else: a defect, or values that the store cannot take.
    #[error("the store failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may work later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The service refuses a change.
    pub fn refused(reason: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Refused(Refusal(Box::new(reason)))
    }

    /// The service's own reason, if that is of this type.
    pub fn refusal<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Refused(Refusal(reason)) => reason.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the service refuses one change of the batch.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether it is about a change of the batch, not about the store: others may be taken.
    pub fn is_of_one(&self) -> bool {
        self.is_refusal() || matches!(self, Self::Unreadable(_) | Self::Sealed(_) | Self::Broken(_))
    }
}

/// The remedy for a store that does not work, for operators. `reason`: an error and its sources, as text.
pub fn remedy(reason: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["read-only", "readonly", "recovery"]) {
        "the database takes no changes: let `host` of [postgres] lead to its primary, and see default_transaction_read_only; of a file, see \
         who mounted its disk for reading only"
    } else if says(&[
        "no answer",
        "connect",
        "closed",
        "terminat",
        "starting up",
        "shutting down",
    ]) {
        "see that the database runs and is reached from here; the service goes on by itself then"
    } else if says(&["password", "authentication", "permission", "role "]) {
        "see user, password_file and the rights of the user in the database"
    } else if says(&["locked", "busy"]) {
        "see what holds the lock of the store's file: a backup, or another program"
    } else {
        "make room on the store's disk, or check it; the log says more"
    }
}

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn a_remedy_fits_its_cause() {
        // An operator who is told to free a disk that is not full searches for an hour.
        for (reason, word) in [
            (
                "db error: ERROR: cannot execute UPDATE in a read-only transaction",
                "primary",
            ),
            ("the database gave no answer in 4 s", "runs"),
            ("error connecting to server: Connection refused (os error 111)", "runs"),
            (
                "FATAL: password authentication failed for user \"weir\"",
                "password_file",
            ),
            ("database is locked", "lock"),
            ("database or disk is full", "make room"),
        ] {
            assert!(remedy(reason).contains(word), "{reason}: {}", remedy(reason));
        }
    }
}
