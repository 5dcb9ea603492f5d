//! The judgement on the diagnosis of an incident: does it name the cause that the incident expects?

use weir_plan::vary::Cause;
use weir_plan::{Expect, Incident};

use super::case::{Case, CaseKind};
use super::score::{Judged, judge};
use super::truth::Truth;
use crate::expectation::{Signs, sums};
use crate::report::Report;

/// The share of its asked bits that a link must miss to be held back.
const FELT: f64 = 0.05;

/// Judges the statements of the report of an incident by its truths.
pub fn named(incident: &Incident, truths: Vec<Truth>, report: &Report) -> Judged {
    let case = Case {
        id: incident.id.clone(),
        kind: if truths.is_empty() {
            CaseKind::Healthy
        } else {
            CaseKind::One
        },
        template: incident.id.clone(),
        axes: std::collections::BTreeMap::new(),
        truths,
    };
    judge(&case, &report.statements, report.series.bin_s)
}

/// The truths as an incident expects them, with the rates of the run. `expect` has the times of that run: those of a real one are shorter.
pub fn expected(incident: &Incident, expect: &Expect, report: &Report, signs: &Signs) -> Vec<Truth> {
    if expect.is_silent {
        return Vec::new();
    }
    let cause = Cause::of_incident(incident);
    let (from_s, until_s) = (expect.from.as_secs_f64(), expect.until.as_secs_f64());
    let is_held = |link: &&String| {
        let (asked, achieved, _) = sums(report, std::slice::from_ref(*link), (from_s, until_s));
        asked - achieved >= FELT * asked
    };
    let links: Vec<String> = signs.links.iter().filter(is_held).cloned().collect();
    let (asked, achieved, seconds) = sums(report, &links, (from_s, until_s));
    vec![Truth {
        classes: cause.classes,
        places: cause.places,
        faults: cause.faults,
        links,
        from_s,
        until_s,
        asked_bps: asked / seconds.max(1e-9),
        held_bps: achieved / seconds.max(1e-9),
        is_open: cause.is_open,
    }]
}
