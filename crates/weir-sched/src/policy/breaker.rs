//! Circuit breakers: thousands of queued transfers do not spend their retries on a broken resource.
//!
//! Many failures in a row, and no success between them, open the breaker. One attempt is then let through after a
//! pause, which doubles with each further failure. The first success closes it.

use std::time::Duration;

use weir_units::Timestamp;
use weir_world::ErrorClass;

/// The first pause, and the longest.
const PAUSES: (u64, u64) = (5, 300);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    /// Failures in a row that open it.
    limit: u32,
    pub(crate) class: Option<ErrorClass>,
    pub(crate) until: Timestamp,
}

impl Breaker {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.limit > 0 && self.failures >= self.limit
    }

    /// True if that closed it.
    pub(crate) fn succeeded(&mut self) -> bool {
        let was_open = self.is_open();
        self.failures = 0;
        was_open
    }

    /// Failures that come while it is paused belong to attempts of before: they do not lengthen the pause.
    pub(crate) fn failed(&mut self, now: Timestamp, class: ErrorClass) {
        if self.is_open() && now < self.until {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.class = Some(class);
        if self.is_open() {
            let doublings = (self.failures - self.limit).min(16);
            self.until = now + Duration::from_secs((PAUSES.0 << doublings).min(PAUSES.1));
        }
    }

    /// How many may be active.
    pub(crate) fn allowed(&self, now: Timestamp) -> u32 {
        match (self.is_open(), now < self.until) {
            (false, _) => u32::MAX,
            (true, true) => 0,
            (true, false) => 1,
        }
    }
}

/// The evidence that a failure gives about the path or the storage, by its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// None: the failure concerns this file, or the client. An expired token is no evidence about the path.
    None,
    /// Too much is going on: fewer transfers may help.
    Congestion,
    /// It does not work, however few there are: a full disk is not congestion.
    Fault,
}

pub(crate) fn sign(class: ErrorClass) -> Sign {
    match class {
        ErrorClass::NotFound
        | ErrorClass::Exists
        | ErrorClass::Permission
        | ErrorClass::Token
        | ErrorClass::Checksum
        | ErrorClass::Size
        | ErrorClass::Cancelled
        | ErrorClass::Unfinished
        | ErrorClass::Forgotten
        | ErrorClass::Internal => Sign::None,
        ErrorClass::Timeout | ErrorClass::Stall | ErrorClass::Overload => Sign::Congestion,
        ErrorClass::Tls | ErrorClass::Network | ErrorClass::NoSpace | ErrorClass::ReadOnly | ErrorClass::Protocol => {
            Sign::Fault
        }
    }
}
