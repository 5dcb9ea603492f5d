//! The right to ask a storage, for as long as it takes.

use std::sync::Arc;

use weir_auth::Secret;
use weir_world::Failure;

use super::Keeper;
use crate::{
    executor::failure::Scene,
    model::TokenHash,
    store::{Order, hash_of},
};

/// The token that was submitted for a side, and who keeps it fresh: for what outlives a token. Nobody keeps none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Right {
    token: Option<Secret>,
    keeper: Option<Arc<Keeper>>,
    managed: bool,
}

impl Right {
    /// Of one side of an order.
    pub(crate) fn of(order: &Order, token: Option<&Secret>, keeper: &Arc<Keeper>) -> Self {
        Self {
            token: token.cloned(),
            keeper: Some(keeper.clone()),
            managed: !order.job.params.unmanaged_tokens,
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
        match (&self.token, &self.keeper) {
            (Some(token), Some(keeper)) => keeper.fresh(scene, token, self.managed).await.map(Some),
            (token, _) => Ok(token.clone()),
        }
    }

    /// The name of what was submitted: it stays the same.
    pub(crate) fn hash(&self) -> Option<TokenHash> {
        self.token.as_ref().map(|token| hash_of(token.expose()))
    }
}
