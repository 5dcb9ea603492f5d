//! The core's time: the service's, which neither steps nor goes back.

use std::time::Duration;

use weir_service::time;
use weir_units::Timestamp;

/// Now.
pub(super) fn now() -> Timestamp {
    Timestamp(time::nanos())
}

/// The runtime's instant of a core's time; by some percent early or late while the wall clock is being followed.
pub(super) fn instant(at: Timestamp) -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_nanos(at.0.saturating_sub(time::nanos()))
}
