//! The run itself: the loop, the engine that follows transfers to their ends, and the progress that it reports.

pub(crate) mod clock;
pub(crate) mod diagnosing;
pub(crate) mod drive;
pub(crate) mod engine;
pub(crate) mod gauge_book;
pub(crate) mod host_reading;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod rates;
pub(crate) mod record;
pub(crate) mod signal_book;
pub(crate) mod signal_watch;
pub(crate) mod steps;
