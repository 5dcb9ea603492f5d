//! The caller of a request, and its permissions.

mod policy;

pub(crate) use policy::Policy;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use weir_auth::{
    AuthError, Denied, DeniedReason, Operation, Person, StorageAction, StoragePath, Token, authorize_certificate,
    authorize_with, mint::Mint, move_needs, token::Access, x509::Identity,
};

use crate::{backend::Creator, refusal::Refusal};

/// Makes tokens of the endpoint's own.
pub(crate) struct Mintage {
    pub(crate) mint: Mint,
    /// The longest that one lives.
    pub(crate) lifetime: Duration,
}

/// The caller of a request, with the rules for its permissions.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    policy: Arc<Policy>,
}

/// The identity of a caller.
#[derive(Debug, Clone)]
pub(crate) enum Who {
    /// No identity.
    Anonymous,
    /// The holder of a token.
    Token(Arc<Token>),
    /// The holder of a certificate, and its VO.
    Certificate(Arc<Identity>, Option<String>),
}

impl Caller {
    pub(crate) fn new(who: Who, policy: Arc<Policy>) -> Self {
        Self { who, policy }
    }

    /// The VO that they speak for.
    pub(crate) fn vo(&self) -> Option<&str> {
        match &self.who {
            Who::Anonymous => None,
            Who::Token(token) => self.policy.vo(token),
            Who::Certificate(_, vo) => vo.as_deref(),
        }
    }

    /// A name that tells this caller from others.
    pub(crate) fn name(&self) -> Option<String> {
        match &self.who {
            Who::Anonymous => None,
            Who::Token(token) => Some(token.subject.clone()),
            Who::Certificate(identity, _) => Some(identity.subject.clone()),
        }
    }

    /// Checks the permission for an operation at a path.
    ///
    /// # Errors
    /// The caller has no permission, or must authenticate first.
    pub(crate) fn may(&self, operation: Operation, path: &StoragePath) -> Result<(), AuthError> {
        let rules = |person| move |operation, path: &_| self.policy.allows(person, operation, path);
        match &self.who {
            Who::Anonymous => Err(AuthError::Missing),
            Who::Token(token) => {
                self.policy.check_issuer(token, operation, path)?;
                let person = Person::Token(token, self.vo());
                Ok(authorize_with(token, rules(person), operation, path)?)
            }
            Who::Certificate(identity, _) => {
                let person = Person::Certificate(identity, self.vo());
                Ok(authorize_certificate(rules(person), operation, path)?)
            }
        }
    }

    /// Checks the permission to rename; `fresh`: a file moves to a free name.
    ///
    /// # Errors
    /// As [`Self::may`].
    pub(crate) fn may_move(&self, from: &StoragePath, to: &StoragePath, fresh: bool) -> Result<(), AuthError> {
        let (take, put) = move_needs(fresh);
        self.may(take, from)?;
        self.may(put, to)
    }

    /// Checks the permission to take a file of this creator away from its path. A caller with `storage.create` alone
    /// may move only its own files: otherwise a MOVE and a PUT would together replace stored data.
    ///
    /// # Errors
    /// The file is another user's.
    pub(crate) fn may_take(
        &self,
        path: &StoragePath,
        creator: impl FnOnce() -> Option<Creator>,
    ) -> Result<(), AuthError> {
        match self.may(Operation::Delete, path) {
            Err(AuthError::Denied(denied)) => match self.creator() {
                Some(own) if creator() == Some(own) => Ok(()),
                _ => Err(AuthError::Denied(Denied {
                    operation: Operation::MoveFile,
                    reason: DeniedReason::NotYours,
                    ..denied
                })),
            },
            outcome => outcome,
        }
    }

    /// The creator recorded with the caller's files.
    pub(crate) fn creator(&self) -> Option<Creator> {
        match &self.who {
            Who::Anonymous => None,
            // Such a token may come without a subject: then its files have no creator.
            Who::Token(token) if token.subject.is_empty() => None,
            Who::Token(token) => Some(Creator::of_token(&token.issuer, &token.subject)),
            Who::Certificate(identity, _) => Some(Creator::of_certificate(&identity.subject)),
        }
    }

    /// Whether they have this right at a path and everywhere below, as a scope of that name would give it.
    pub(crate) fn has(&self, action: StorageAction, path: &StoragePath) -> bool {
        // The right to modify includes the right to create.
        if action == StorageAction::Create && self.has(StorageAction::Modify, path) {
            return true;
        }
        match &self.who {
            Who::Anonymous => false,
            Who::Token(token) if !self.policy.takes(token, path) => false,
            Who::Token(token) => match token.access() {
                Access::Capabilities(all) => all.iter().any(|one| one.action == action && one.path.covers(path)),
                Access::Groups(_) => self.policy.gives(Person::Token(token, self.vo()), action, path),
            },
            Who::Certificate(identity, _) => self
                .policy
                .gives(Person::Certificate(identity, self.vo()), action, path),
        }
    }

    /// Refuses callers that cannot delegate rights, and paths where no rights can be delegated, because other rules
    /// hold below.
    ///
    /// # Errors
    /// The caller has no name, or shows a limited proxy, which starts and delegates no work; the path does not lie in
    /// an area, or another area lies in it.
    pub(crate) fn check_hand_on(&self, path: &StoragePath) -> Result<(), Refusal> {
        let why = match &self.who {
            Who::Certificate(identity, _) if identity.is_limited => "a limited proxy cannot delegate its rights",
            _ if self.subject().is_empty() => "it would have to name its holder, and your credential has no name",
            _ if !self.policy.is_of_one_area(path) => "it does not lie in one storage area alone",
            _ => return Ok(()),
        };
        let text = format!("no token is made for {path}: {why}");
        Err(Refusal::new(StatusCode::FORBIDDEN, text))
    }

    /// The expiry of the caller's credential.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        match &self.who {
            Who::Anonymous => None,
            Who::Token(token) => Some(token.expires),
            Who::Certificate(identity, _) => {
                let attributes = identity.voms.iter().map(|attributes| attributes.not_after);
                Some(attributes.fold(identity.not_after, SystemTime::min))
            }
        }
    }

    /// Their name.
    pub(crate) fn subject(&self) -> &str {
        match &self.who {
            Who::Anonymous => "",
            Who::Token(token) => &token.subject,
            Who::Certificate(identity, _) => &identity.subject,
        }
    }
}
