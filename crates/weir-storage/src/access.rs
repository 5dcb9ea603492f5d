//! Who asks, and what that allows.

use std::sync::Arc;

use weir_auth::{AuthError, Operation, StoragePath, Token, authorize, authorize_move};

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Nobody that is known.
    Anonymous,
    /// Who holds a token.
    Token(Arc<Token>),
}

impl Caller {
    /// Whether they may do this with a path.
    ///
    /// # Errors
    /// They may not, or would have to say who they are.
    pub(crate) fn may(&self, operation: Operation, path: &StoragePath) -> Result<(), AuthError> {
        match self {
            Self::Anonymous => Err(AuthError::Missing),
            Self::Token(token) => Ok(authorize(token, operation, path)?),
        }
    }

    /// Whether they may give what is at one path the name of another; `fresh`: what moves is a file, and nothing is there.
    ///
    /// # Errors
    /// As [`Self::may`].
    pub(crate) fn may_move(&self, from: &StoragePath, to: &StoragePath, fresh: bool) -> Result<(), AuthError> {
        match self {
            Self::Anonymous => Err(AuthError::Missing),
            Self::Token(token) => Ok(authorize_move(token, from, to, fresh)?),
        }
    }
}
