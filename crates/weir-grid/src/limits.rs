//! Limits of storages that serve: a change takes effect for the next request.

use std::sync::{Arc, Weak};

use weir_storage::{Running, StorageConfig};

use crate::GridError;
use crate::runtime::not_started;

/// A storage that has been started, and its configuration.
pub(crate) struct Started {
    name: String,
    config: StorageConfig,
    running: Arc<Running>,
}

impl Started {
    pub(crate) fn new(name: String, config: StorageConfig, running: Running) -> Self {
        Self {
            name,
            config,
            running: Arc::new(running),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> &str {
        self.running.url()
    }

    /// A handle on its limits.
    pub(crate) fn limits(&self) -> StorageLimits {
        StorageLimits {
            name: self.name.clone(),
            config: self.config.clone(),
            running: Arc::downgrade(&self.running),
        }
    }

    /// Stops it; requests in hand may end within its grace. A change of its limits that is under way cuts them off.
    pub(crate) async fn shutdown(self) {
        if let Some(running) = Arc::into_inner(self.running) {
            running.shutdown().await;
        }
    }
}

/// The limits of a storage of this process. They end with it.
#[derive(Debug, Clone)]
pub struct StorageLimits {
    name: String,
    config: StorageConfig,
    running: Weak<Running>,
}

impl StorageLimits {
    /// Lets so many third-party copies move data at one time, or as many as its configuration says. More wait for their turn; those
    /// under way go on.
    ///
    /// # Errors
    /// [`GridError::Start`]: the storage refused the limit.
    pub async fn set_copies(&self, limit: Option<u32>) -> Result<(), GridError> {
        let Some(running) = self.running.upgrade() else {
            return Ok(());
        };
        let mut config = self.config.clone();
        if let Some(limit) = limit {
            config.limits.copies = usize::try_from(limit).unwrap_or(usize::MAX);
        }
        let outcome = running.reload(config).await;
        outcome
            .map(drop)
            .map_err(|error| not_started(&format!("a limit of the storage of {}", self.name), error))
    }
}
