//! Values that may be exchanged while a service runs.

use std::sync::Arc;

use parking_lot::RwLock;

/// A shared value that is exchanged now and then. Clones share it; a reader keeps the value that it has read.
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
        self.0.read().clone()
    }

    /// Exchanges the value for all later readers.
    pub fn set(&self, value: Arc<T>) {
        *self.0.write() = value;
    }
}
