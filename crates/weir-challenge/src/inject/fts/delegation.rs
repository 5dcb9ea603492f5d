//! Delegates the certificate of the grid file to the transfer service, and again before the proxy ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use weir_http::Identity;

use super::FtsDoor;
use crate::inject::injection::InjectionError;
use crate::output::folder::RunFolder;

/// Lifetime of a proxy: the default of FTS's command-line clients.
const LIFE: Duration = Duration::from_secs(12 * 3600);

/// Shortest pause between two delegations, also after one that failed.
const PAUSE: Duration = Duration::from_secs(60);

/// The renewal of a delegation, which ends with this.
#[derive(Debug)]
pub(crate) struct Renewal(JoinHandle<()>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FtsDoor {
    /// Signs a proxy for the service; gives its end.
    async fn delegate(&self, identity: &Identity) -> Result<SystemTime, InjectionError> {
        let id = self.client.whoami().await?.delegation_id;
        if id.is_empty() {
            return Err(self.client.senseless("whoami names no delegation").into());
        }
        let request = self.client.proxy_request(&id).await?;
        let signed = weir_auth::x509::sign(&request, identity, SystemTime::now(), LIFE);
        let (chain, end) = signed.map_err(|error| InjectionError::Delegation {
            door: self.client.url().to_owned(),
            source: error.into(),
        })?;
        self.client.delegate(&id, chain).await?;
        Ok(end)
    }

    /// Delegates the certificate, and goes on doing so until the renewal is dropped. A renewal that fails is logged and tried again: the proxy in
    /// hand goes on.
    ///
    /// # Errors
    /// [`InjectionError`] of the first delegation.
    pub(crate) async fn keep_delegated(
        &self,
        identity: Identity,
        folder: Arc<RunFolder>,
    ) -> Result<Renewal, InjectionError> {
        let mut end = self.delegate(&identity).await?;
        let door = self.clone();
        Ok(Renewal(tokio::spawn(async move {
            loop {
                let left = end.duration_since(SystemTime::now()).unwrap_or_default();
                tokio::time::sleep((left / 2).max(PAUSE)).await;
                match door.delegate(&identity).await {
                    Ok(renewed) => end = renewed,
                    Err(error) => {
                        let error = weir_auth::error_chain(&error);
                        folder.log(&format!("the certificate could not be delegated anew: {error}"));
                    }
                }
            }
        })))
    }
}
