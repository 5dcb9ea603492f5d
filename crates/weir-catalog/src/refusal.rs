//! Refusals of the catalogue, in the terms of Rucio's clients.

use weir_store::StoreError;

/// A refusal: a class that clients make an exception of, and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Its class.
    pub class: Class,
    /// A sentence.
    pub message: String,
}

impl Refusal {
    /// Refuses with a sentence.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
}

impl From<Refusal> for StoreError {
    /// A transaction that refuses changes nothing.
    fn from(refusal: Refusal) -> Self {
        Self::refused(refusal)
    }
}

/// Defines the classes: the name of the exception, and the status of the answer.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal, $status:literal;)*) => {
        /// The class of a refusal: an exception of `rucio.common.exception` (41.5), with the status that Rucio's server answers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Class {
            $($(#[$doc])* $class,)*
        }

        impl Class {
            /// Each of them.
            pub const ALL: &'static [Self] = &[$(Self::$class),*];

            /// The exception's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$class => $name,)*
                }
            }

            /// The status of the answer.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$class => $status,)*
                }
            }
        }
    };
}

classes! {
    /// The account may not do this.
    AccessDenied = "AccessDenied", 401;
    /// The name, password, certificate or token is unknown.
    CannotAuthenticate = "CannotAuthenticate", 401;
    /// There is no such account.
    AccountNotFound = "AccountNotFound", 404;
    /// It is there already.
    Duplicate = "Duplicate", 409;
    /// A value cannot be read.
    ValueError = "ValueError", 400;
    /// There is no such type of account.
    InvalidAccountType = "InvalidAccountType", 400;
    /// A value that is needed is missing.
    KeyNotFound = "KeyNotFound", 400;
    /// The body is too large.
    BodyTooLarge = "InputValidationError", 413;
    /// The identity does not belong to the account, or cannot be used.
    IdentityError = "IdentityError", 400;
    /// There is no such scope.
    ScopeNotFound = "ScopeNotFound", 404;
    /// There is no such RSE.
    RseNotFound = "RSENotFound", 404;
    /// The RSE has no such attribute, limit or distance.
    RseAttributeNotFound = "RSEAttributeNotFound", 404;
    /// The RSE has replicas.
    RseOperationNotSupported = "RSEOperationNotSupported", 404;
    /// A PFN is no file of its RSE.
    InvalidPath = "InvalidPath", 400;
    /// The RSE has no such protocol.
    RseProtocolNotSupported = "RSEProtocolNotSupported", 404;
    /// There is no such DID.
    DidNotFound = "DataIdentifierNotFound", 404;
    /// There is, or was, a DID of this name.
    DidAlreadyExists = "DataIdentifierAlreadyExists", 409;
    /// The file is in the dataset already.
    FileAlreadyExists = "FileAlreadyExists", 409;
    /// The answer would be too large.
    TooManyFiles = "InputValidationError", 413;
    /// It is in the collection already.
    DuplicateContent = "DuplicateContent", 409;
    /// A file is known with another size or checksum.
    FileConsistencyMismatch = "FileConsistencyMismatch", 409;
    /// There is no such replica.
    ReplicaNotFound = "ReplicaNotFound", 404;
    /// A rule holds the replica.
    ReplicaIsLocked = "ReplicaIsLocked", 403;
    /// There is no such request.
    RequestNotFound = "RequestNotFound", 404;
    /// There is no such load. Rucio 41.5 has no loads, and its client no exception for them.
    LoadNotFound = "LoadNotFound", 404;
    /// There is no such rule.
    RuleNotFound = "RuleNotFound", 404;
    /// The account has the same rule already.
    DuplicateRule = "DuplicateRule", 409;
    /// The expression means too few RSEs, or they are too full.
    InsufficientTargetRses = "InsufficientTargetRSEs", 409;
    /// The account may not store as much.
    InsufficientAccountLimit = "InsufficientAccountLimit", 409;
    /// The RSEs take no files now.
    RseWriteBlocked = "RSEWriteBlocked", 409;
    /// The weight of an RSE is no number.
    InvalidRuleWeight = "InvalidRuleWeight", 400;
    /// The request contradicts the state of its object.
    UnsupportedOperation = "UnsupportedOperation", 409;
    /// There is no such order of replicas.
    SortingAlgorithmNotSupported = "SortingAlgorithmNotSupported", 400;
    /// A value makes no sense.
    InvalidObject = "InvalidObject", 400;
    /// A filter cannot be read.
    FilterSyntax = "DIDFilterSyntaxError", 400;
    /// There is no such option.
    InvalidOption = "InputValidationError", 409;
    /// A value has the wrong form.
    InputValidation = "InputValidationError", 400;
    /// The RSE expression cannot be read, or means no RSE.
    InvalidRseExpression = "InvalidRSEExpression", 400;
    /// The operation is not built.
    NotBuilt = "UnsupportedOperation", 501;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_survives_its_transaction() {
        let refusal = Refusal::new(Class::AccountNotFound, "Account nobody does not exist");
        let error = StoreError::from(refusal.clone());
        assert_eq!(error.refusal::<Refusal>(), Some(&refusal));
        assert_eq!((refusal.class.name(), refusal.class.status()), ("AccountNotFound", 404));
    }
}
