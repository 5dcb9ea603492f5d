//! The time from the begin of a cause until a diagnosis during the run names it for good.

use super::case::Case;
use super::live::Told;
use super::moment::Moment;
use super::score::is_named_as;
use super::statement::Statement;
use super::{bin_s, diagnose_at};
use crate::report::Report;

/// Seconds from the begin of the cause of a case until class and place are named, and are so in every look to the end of the hold. `None` if
/// they never are.
///
/// The report is that of the whole run. A look sees what it would have seen during the run: the signals so far, and rates up to the time that
/// 95 % of the transfers take. Counters and files are compared at the end alone. One figure is of the whole run: the links
/// that held the slots for which others waited.
pub fn time_to_diagnosis(case: &Case, report: &Report) -> Option<f64> {
    let truth = case.truths.first()?;
    let (hold, bin_s) = (report.windows.hold, bin_s(report));
    let mut so_far = report.clone();
    let mut told = Told::default();
    let mut since = None;
    let looks = ((hold.end_s - hold.start_s) / bin_s).floor() as usize;
    for look in 1..=looks {
        let told_s = hold.start_s + look as f64 * bin_s;
        let part = told_s / hold.end_s;
        for (link, whole) in so_far.links.iter_mut().zip(&report.links) {
            link.transfers = (whole.transfers as f64 * part) as u64;
        }
        let moment = Moment::of(told_s, &report.totals.times);
        let found = diagnose_at(&so_far, moment).statements;
        told.look(told_s, bin_s, found);
        let is_right = |statement: &&Statement| is_named_as(truth, statement);
        let is_there = told.standing().iter().any(is_right);
        since = if is_there { since.or(Some(told_s)) } else { None };
    }
    since.map(|since| (since - truth.from_s).max(0.0))
}
