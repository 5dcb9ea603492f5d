//! The right to ask a storage, by token or by proxy, for as long as it takes.

use std::sync::{Arc, Weak};

use weir_auth::Secret;
use weir_http::Client;
use weir_world::{ErrorClass, Failure, Retry};

use super::TokenRefresher;
use crate::{
    job::{TokenHash, hash_of},
    orders::{Order, proxy_name},
    requests::{client_pool::Proxies, failure::Scene},
};

/// A credential for one side: the submitted token with its refresher, or the proxy that its user delegated. It is for
/// operations that outlive both, and may outlive the service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Right {
    token: Option<Secret>,
    refresher: Option<Weak<TokenRefresher>>,
    managed: bool,
    /// Without a token: the name of the delegated proxy, and its lookup.
    delegated: Option<(String, Weak<Proxies>)>,
}

impl Right {
    /// Of one side of an order.
    pub(crate) fn of(
        order: &Order,
        token: Option<&Secret>,
        (refresher, proxies): (&Arc<TokenRefresher>, &Arc<Proxies>),
    ) -> Self {
        let by_proxy = token.is_none() && order.job.moves_by_proxy(&order.file);
        let delegated = || (proxy_name(&order.job.owner()), Arc::downgrade(proxies));
        Self {
            token: token.cloned(),
            refresher: Some(Arc::downgrade(refresher)),
            managed: token.is_some_and(|token| refresher.may_renew(&order.job, token)),
            delegated: by_proxy.then(delegated),
        }
    }

    /// This very token, as it is.
    pub(crate) fn as_is(token: Option<Secret>) -> Self {
        Self {
            token,
            ..Self::default()
        }
    }

    /// The same with this token, as it is.
    pub(crate) fn with(&self, token: Option<Secret>) -> Self {
        Self {
            token,
            refresher: None,
            ..self.clone()
        }
    }

    /// The client that shows the user's current proxy. `None`: the user delegated none for this.
    ///
    /// # Errors
    /// If the proxy is gone, or has expired.
    pub(crate) async fn client(&self, scene: Scene) -> Result<Option<Arc<Client>>, Failure> {
        let Some((name, proxies)) = &self.delegated else {
            return Ok(None);
        };
        let Some(proxies) = proxies.upgrade() else {
            return Err(stopping(scene));
        };
        proxies.client(name).await.map(Some)
    }

    /// The token for a request that goes out now.
    ///
    /// # Errors
    /// [`TokenRefresher::fresh`].
    pub(crate) async fn now(&self, scene: Scene) -> Result<Option<Secret>, Failure> {
        let (Some(token), Some(refresher)) = (&self.token, &self.refresher) else {
            return Ok(self.token.clone());
        };
        let Some(refresher) = refresher.upgrade() else {
            return Err(stopping(scene));
        };
        refresher.fresh(scene, token, self.managed).await.map(Some)
    }

    /// The hash of the submitted token, or of the delegating user's name: it stays the same.
    pub(crate) fn hash(&self) -> Option<TokenHash> {
        let delegated = || self.delegated.as_ref().map(|(name, _)| hash_of(name));
        self.token
            .as_ref()
            .map(|token| hash_of(token.expose()))
            .or_else(delegated)
    }
}

fn stopping(scene: Scene) -> Failure {
    let mut failure = scene.fail(ErrorClass::Internal, "the service stops");
    failure.retry = Retry::Later;
    failure
}
