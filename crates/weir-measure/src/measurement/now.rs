//! The diagnosis of a run that goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ending, Measurement};
use crate::diagnosis::{Moment, Statement, bin_s, diagnose_at};
use crate::report::{Build, Host};

/// The part of the run so far that is left out at most because transfers are under way.
const LONGEST: f64 = 1.0 / 3.0;

impl Measurement {
    /// Says what holds links back at a moment of the hold, and returns the width of the bins that it looked at, in seconds.
    ///
    /// It is meant for a clone, and takes as long as a report. Rates count up to the time that 95 % of the transfers take before this
    /// moment: later ones are still under way.
    pub fn diagnose(mut self, now: Duration) -> (Vec<Statement>, f64) {
        self.accounting = self.accounting.with_announced();
        let report = self.finish().assembled(Ending::open());
        let taken = report.totals.times.transfer_s.as_ref().map_or(0.0, |times| times.p95);
        let now = now.as_secs_f64();
        let moment = Moment {
            told_s: now,
            sure_s: now - taken.min(now * LONGEST),
        };
        let bin_s = bin_s(&report);
        (diagnose_at(&report, moment).statements, bin_s)
    }
}

impl Ending {
    /// Of a run that goes on.
    fn open() -> Self {
        Self {
            command: String::new(),
            started_at: String::new(),
            ended_at: String::new(),
            weir: Build::default(),
            host: Host::default(),
            interrupted: None,
            incomplete: None,
            crosschecks: Vec::new(),
            audit: None,
            deleted_files: 0,
            deletions: None,
            parameters: BTreeMap::new(),
            acted: BTreeMap::new(),
            violations: Vec::new(),
        }
    }
}
