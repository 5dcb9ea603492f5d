//! The right to ask a storage, for as long as it takes.

use std::sync::{Arc, Weak};

use weir_auth::Secret;
use weir_world::{ErrorClass, Failure, Retry};

use super::Keeper;
use crate::{
    executor::failure::Scene,
    model::TokenHash,
    store::{Order, hash_of},
};

/// The token that was submitted for a side, and who keeps it fresh: for what outlives a token, and may outlive the service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Right {
    token: Option<Secret>,
    keeper: Option<Weak<Keeper>>,
    managed: bool,
}

impl Right {
    /// Of one side of an order.
    pub(crate) fn of(order: &Order, token: Option<&Secret>, keeper: &Arc<Keeper>) -> Self {
        Self {
            token: token.cloned(),
            keeper: Some(Arc::downgrade(keeper)),
            managed: token.is_some_and(|token| keeper.may_renew(&order.job, token)),
        }
    }

    /// This very token, as it is.
    pub(crate) fn as_is(token: Option<Secret>) -> Self {
        Self {
            token,
            ..Self::default()
        }
    }

    /// The token for a request that goes out now.
    ///
    /// # Errors
    /// [`Keeper::fresh`].
    pub(crate) async fn now(&self, scene: Scene) -> Result<Option<Secret>, Failure> {
        let (Some(token), Some(keeper)) = (&self.token, &self.keeper) else {
            return Ok(self.token.clone());
        };
        let Some(keeper) = keeper.upgrade() else {
            let mut failure = scene.fail(ErrorClass::Internal, "the service stops");
            failure.retry = Retry::Later;
            return Err(failure);
        };
        keeper.fresh(scene, token, self.managed).await.map(Some)
    }

    /// The name of what was submitted: it stays the same.
    pub(crate) fn hash(&self) -> Option<TokenHash> {
        self.token.as_ref().map(|token| hash_of(token.expose()))
    }
}
