//! What may be exchanged while a service runs.

use std::sync::{Arc, PoisonError, RwLock};

/// A value that many read and one exchanges now and then. Clones share it; who has read it keeps what they read.
#[derive(Debug)]
pub struct Reloadable<T: ?Sized>(Arc<RwLock<Arc<T>>>);

impl<T: ?Sized> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> From<Arc<T>> for Reloadable<T> {
    fn from(value: Arc<T>) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }
}

impl<T: ?Sized> Reloadable<T> {
    /// The value as it is now.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Exchanges it for everybody who reads it from now on.
    pub fn set(&self, value: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}
