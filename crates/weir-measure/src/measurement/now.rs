//! The diagnosis of a run that goes on.

use std::time::Duration;

use super::{Ending, Measurement};
use crate::diagnosis::{Moment, Statement, bin_s, diagnose_at};

impl Measurement {
    /// Names the causes that hold links back at a moment of the hold, and returns the width of the bins that it looked at, in seconds.
    ///
    /// It is meant for a clone, and takes as long as a report.
    pub fn diagnose(mut self, now: Duration) -> (Vec<Statement>, f64) {
        self.accounting = self.accounting.with_announced();
        let report = self.finish().assembled(Ending::default());
        let moment = Moment::of(now.as_secs_f64(), &report.totals.times);
        let bin_s = bin_s(&report);
        (diagnose_at(&report, moment).statements, bin_s)
    }
}
