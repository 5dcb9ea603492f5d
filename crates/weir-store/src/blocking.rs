//! Calls of a store from where nothing may block.

use crate::error::StoreError;

/// Runs work on a store on a blocking thread.
///
/// # Errors
/// Errors of the work; [`StoreError::Broken`] if it panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(StoreError::Broken(error.into())))
}
