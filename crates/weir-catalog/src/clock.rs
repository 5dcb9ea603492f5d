//! The clock of the evaluator and the submitter.

use weir_service::time::{self, Millis};

/// Tells the time in milliseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// The service's clock.
    #[default]
    Service,
    /// Stands where a test put it, so that an hour passes at once.
    #[cfg(test)]
    Set(std::sync::Arc<std::sync::atomic::AtomicI64>),
}

impl Clock {
    /// The time.
    pub(crate) fn now(&self) -> Millis {
        match self {
            Self::Service => time::now(),
            #[cfg(test)]
            Self::Set(at) => at.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}
