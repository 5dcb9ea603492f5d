//! How sure a statement is: its part of the missing bits, times the share of its class that was right of drawn cases.

use weir_world::CauseClass;

/// The weight of a cause's own bits, and of their part in all that the run missed.
const OWN: f64 = 0.75;

/// Statements that were strictly right, of those of each class whose cause explained 70 % of its bits: seeds 1, 3 and 4 of `weir incident vary`,
/// four variants each.
const RIGHT: [(CauseClass, f64); 13] = [
    (CauseClass::StorageDataPath, 0.87),
    (CauseClass::Admission, 0.85),
    (CauseClass::UnevenServers, 0.95),
    (CauseClass::SharedCapacity, 0.80),
    (CauseClass::PathQuality, 0.90),
    (CauseClass::Outage, 0.78),
    (CauseClass::SchedulerPolicy, 0.87),
    (CauseClass::ControlPlane, 0.84),
    (CauseClass::Authorisation, 0.84),
    (CauseClass::Space, 0.98),
    (CauseClass::Workload, 0.95),
    (CauseClass::Software, 0.97),
    (CauseClass::Measurement, 0.97),
];
/// The same of a class that was said too seldom.
const UNKNOWN: f64 = 0.5;

/// The probability of a statement whose cause explains `share` of its own missing bits, which are `of_run` of all that the run missed.
pub(super) fn probability(class: CauseClass, share: f64, of_run: f64) -> f64 {
    let right = RIGHT.iter().find(|(known, _)| *known == class);
    let right = right.map_or(UNKNOWN, |(_, right)| *right);
    right * share.clamp(0.0, 1.0) * (OWN + (1.0 - OWN) * of_run.clamp(0.0, 1.0))
}
