//! Tries drafts of cases: a simulation with the faults, and one without.

use std::path::Path;

use weir_measure::diagnosis::{CaseKind, Truth, confirm, episodes, is_well};
use weir_measure::report::Report;
use weir_model::file::Problem;
use weir_plan::vary::{Cause, Draft};
use weir_plan::{Challenge, Fault, Incident};

use crate::incident::simulate;

/// A draft that has become a case.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Its kind.
    pub kind: CaseKind,
    /// Its causes, as the two runs differ.
    pub truths: Vec<Truth>,
}

/// Why a draft is no case.
#[derive(Debug, Clone)]
pub enum Unfit {
    /// It cannot be run.
    Invalid(Vec<Problem>),
    /// Bits are missing without the fault, too.
    Unwell,
    /// Bits are missing, but not for its causes, or not for all of them.
    Unclear,
    /// There should be a second cause, and none was found that fits.
    Single,
}

impl Unfit {
    /// In a few words.
    pub fn as_str(&self) -> &'static str {
        match self {
            Unfit::Invalid(_) => "invalid",
            Unfit::Unwell => "not well without the fault",
            Unfit::Unclear => "missing bits of another cause",
            Unfit::Single => "no second cause",
        }
    }
}

impl From<Vec<Problem>> for Unfit {
    fn from(problems: Vec<Problem>) -> Self {
        Unfit::Invalid(problems)
    }
}

/// Simulates a draft and its twins.
///
/// # Errors
/// Why it is no case.
pub fn try_draft(draft: &Draft, file: &Path) -> Result<Tried, Unfit> {
    let challenge = Challenge::parse(&draft.text, file)?;
    try_causes(&challenge, &draft.causes, &report(&challenge)?)
}

/// The truths of an incident, from the report of its run and a run without its faults.
///
/// # Errors
/// Why it is no case.
pub fn try_incident(incident: &Incident, with: &Report) -> Result<Tried, Unfit> {
    try_causes(&incident.challenge, &[Cause::of_incident(incident)], with)
}

fn try_causes(challenge: &Challenge, causes: &[Cause], with: &Report) -> Result<Tried, Unfit> {
    let of_causes = |fault: &Fault| causes.iter().any(|cause| cause.faults.contains(&fault.name));
    let without = report(&less(challenge, of_causes))?;
    if !is_well(&without) {
        return Err(Unfit::Unwell);
    }
    let mut truths = Vec::new();
    for cause in causes {
        let twin = if causes.len() == 1 {
            without.clone()
        } else {
            report(&less(challenge, |fault| cause.faults.contains(&fault.name)))?
        };
        truths.extend(confirm(with, &twin, felt(cause, challenge), truth(cause)));
    }
    match (truths.len(), causes.len()) {
        // A fault that is felt for a short time is neither there nor absent.
        (0, _) if is_well(with) && episodes(with).len() <= episodes(&without).len() => Ok(Tried {
            kind: CaseKind::Healthy,
            truths,
        }),
        (found, all) if found == all && all > 0 => Ok(Tried {
            kind: if all == 1 { CaseKind::One } else { CaseKind::Two },
            truths,
        }),
        _ => Err(Unfit::Unclear),
    }
}

/// The report of a simulation.
///
/// # Errors
/// The challenge cannot be simulated.
pub fn report(challenge: &Challenge) -> Result<Report, Vec<Problem>> {
    simulate(challenge).map(|(report, _)| report)
}

fn less(challenge: &Challenge, is_away: impl Fn(&Fault) -> bool) -> Challenge {
    let mut less = challenge.clone();
    less.faults.retain(|fault| !is_away(fault));
    less
}

/// When the faults of a cause are on, seconds.
fn felt(cause: &Cause, challenge: &Challenge) -> (f64, f64) {
    let end = challenge.phases.end();
    let faults = challenge
        .faults
        .iter()
        .filter(|fault| cause.faults.contains(&fault.name));
    let times = faults.map(|fault| (fault.at, fault.until().unwrap_or(end)));
    let (from, until) = times.fold((end, std::time::Duration::ZERO), |sum, time| {
        (sum.0.min(time.0), sum.1.max(time.1))
    });
    (from.as_secs_f64(), until.as_secs_f64())
}

fn truth(cause: &Cause) -> Truth {
    Truth {
        classes: cause.classes.clone(),
        places: cause.places.clone(),
        faults: cause.faults.clone(),
        links: Vec::new(),
        from_s: 0.0,
        until_s: 0.0,
        asked_bps: 0.0,
        held_bps: 0.0,
        is_open: cause.is_open,
    }
}
