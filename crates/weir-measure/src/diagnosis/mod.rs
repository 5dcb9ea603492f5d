//! Diagnosis: statements about what held links back, and the judgement on them.
//!
//! [`diagnose`] makes statements of the report of a run. `stretch` finds when each link missed bits, and `reference` what is usual on it.
//! `root` divides the missing bits among their causes. `diagnose` puts links with one cause together.
//!
//! A [`Statement`] names class, place, links and time of a cause. A [`Case`] is a run of which the [`Truth`] is known. [`judge`](score::judge)
//! compares the two, [`Score`](score::Score) adds the judgements up. [`baselines`] are simple rules that
//! any diagnosis must beat; they see a report as a [`blind`] reader does.

pub mod baselines;
mod case;
mod cause;
mod coarse;
mod confidence;
mod diagnose;
mod early;
mod elsewhere;
mod episode;
mod evidence;
mod findings;
mod groups;
mod ledger;
mod live;
mod moment;
mod named;
mod reference;
mod root;
mod runs;
mod scope;
pub mod score;
mod service;
mod shares;
mod split;
mod statement;
mod stretch;
mod truth;
mod view;
mod words;

pub use case::{Case, CaseKind, Cases};
pub use diagnose::{Diagnosis, diagnose, diagnose_at};
pub use early::time_to_diagnosis;
pub use episode::{Episode, episodes};
pub use live::{Change, Told};
pub use moment::Moment;
pub use named::{expected, named};
pub use service::{LinkTimes, time_by_cause};
pub use shares::{CauseShare, shares, unexplained};
pub use statement::{Alternative, CauseSeries, Evidence, LinkLedger, Statement};
pub use truth::{Truth, confirm, is_well};

use crate::report::Report;

/// The width of the bins in which a diagnosis looks at a report, seconds.
pub fn bin_s(report: &Report) -> f64 {
    coarse::Coarse::of(report).at(1)
}

/// The same of a run that is planned with such a hold.
pub fn bin_of(hold: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs_f64(coarse::width(hold.as_secs_f64()))
}

/// A report without all that only the maker of a case can know: its faults with their begins and ends, and the deficits of the simulator.
pub fn blind(report: &Report) -> Report {
    let names: Vec<&str> = report.faults.iter().map(|fault| fault.name.as_str()).collect();
    let mut blind = Report {
        deficits: Vec::new(),
        statements: Vec::new(),
        withdrawn: Vec::new(),
        ledger: Vec::new(),
        faults: Vec::new(),
        parameters: std::collections::BTreeMap::new(),
        challenge: String::new(),
        description: String::new(),
        ..report.clone()
    };
    blind
        .events
        .retain(|event| !names.iter().any(|name| event.text.contains(name)));
    blind
}
