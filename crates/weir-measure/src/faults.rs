//! Faults in a report: when each was on, and whether any asked rate felt it.
//!
//! A fault has had an effect if some link at its place missed at least a twentieth of its asked bits while the fault was on.
//! The share must also be at least a twentieth larger than in the rest of the hold. Achieved rates are verified bytes spread
//! over each transfer's time, so that long transfers blur the edges.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_plan::fault::{Course, Fault, FaultPlace, Level};
use weir_plan::{Plan, Workload};
use weir_units::BitRate;

use crate::fault_report::{FaultLink, FaultReport};
use crate::report::{Event, RateSeries, Series};
use crate::spec::{LinkSpec, Spec};

/// The least share that counts.
const FELT: f64 = 0.05;
/// Links that are listed for a fault.
const LISTED: usize = 10;

/// The faults of a plan with their courses, until the run is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Courses(Vec<(Fault, Vec<(Duration, Level)>)>, Vec<(String, Vec<String>)>);

impl Courses {
    pub(crate) fn of(plan: &Plan) -> Self {
        let end = plan.phases.end() + plan.phases.drain;
        let course = |fault: &Fault| (fault.clone(), fault.course(plan.seed, end));
        let links = |workload: &Workload| {
            let links = workload.links().iter().map(ToString::to_string).collect();
            (workload.name().to_owned(), links)
        };
        Self(
            plan.faults.iter().map(course).collect(),
            plan.workloads.iter().map(links).collect(),
        )
    }

    /// Adds a fault that was made by hand.
    pub(crate) fn add(&mut self, fault: Fault, course: Course) {
        self.0.push((fault, course));
    }

    /// A fault was taken away before its time.
    pub(crate) fn end(&mut self, name: &str, at: Duration) {
        if let Some((_, course)) = self.0.iter_mut().find(|(fault, _)| fault.name == name) {
            course.retain(|(moment, _)| *moment <= at);
            if course.last().is_some_and(|(_, level)| *level > 0.0) {
                course.push((at, 0.0));
            }
        }
    }

    /// The begins and ends as events of the run.
    pub(crate) fn events(&self, spec: &Spec) -> Vec<Event> {
        let over = spec.windows.drain_end;
        let mut events = Vec::new();
        for (fault, course) in &self.0 {
            let mut was_on = false;
            for (at, level) in course.iter().filter(|(at, _)| *at <= over) {
                let is_on = *level > 0.0;
                if is_on != was_on {
                    let what = if is_on {
                        told(fault)
                    } else {
                        format!("{} ends", named(fault))
                    };
                    events.push(Event {
                        t_s: at.as_secs_f64(),
                        text: format!("fault: {what}"),
                    });
                }
                was_on = is_on;
            }
        }
        events
    }

    /// The report of each fault.
    pub(crate) fn report(&self, spec: &Spec, series: &Series, acted: &BTreeMap<String, String>) -> Vec<FaultReport> {
        let report = |(fault, course): &(Fault, Vec<(Duration, Level)>)| {
            let times = times(course, spec.windows.drain_end);
            let mut links: Vec<FaultLink> = Vec::new();
            for link in spec.links.iter().filter(|link| self.is_at(fault, link, spec)) {
                links.extend(
                    series
                        .links
                        .get(&link.name())
                        .and_then(|of| felt(link, of, &times, series, spec)),
                );
            }
            let extra = |link: &FaultLink| link.missed_ratio - link.missed_else_ratio.unwrap_or(0.0).max(0.0);
            links.sort_by(|one, other| extra(other).total_cmp(&extra(one)));
            let has_effect = links
                .iter()
                .any(|link| link.missed_ratio >= FELT && extra(link) >= FELT);
            links.truncate(LISTED);
            FaultReport {
                name: fault.name.clone(),
                kind: fault.kind.to_string(),
                place: fault.place.to_string(),
                amount: fault.amount_text(),
                times,
                acted: acted.get(&fault.name).cloned(),
                effect: spec.links.iter().any(|link| link.asked.is_some()).then_some(has_effect),
                links,
            }
        };
        self.0.iter().map(report).collect()
    }

    /// Whether the traffic of a link passes the place of a fault, as far as a plan tells.
    fn is_at(&self, fault: &Fault, link: &LinkSpec, spec: &Spec) -> bool {
        let wide = link.source_site != link.destination_site;
        match &fault.place {
            FaultPlace::Rse(pattern, way) => {
                way.is_out() && pattern.fits(&link.source) || way.is_in() && pattern.fits(&link.destination)
            }
            FaultPlace::Site(pattern, way) => {
                let (from, to) = (&spec.sites[link.source_site], &spec.sites[link.destination_site]);
                let is_passed = wide || fault.kind.is_of_processes();
                is_passed && (way.is_out() && pattern.fits(from) || way.is_in() && pattern.fits(to))
            }
            FaultPlace::Link(pattern) => {
                pattern.source.fits(&link.source) && pattern.destination.fits(&link.destination)
            }
            FaultPlace::Segment(_) | FaultPlace::Service(_) => true,
            FaultPlace::Workload(pattern) => {
                let mut meant = self.1.iter().filter(|(name, _)| pattern.fits(name));
                meant.any(|(_, links)| links.contains(&link.name()))
            }
        }
    }
}

fn named(fault: &Fault) -> String {
    if fault.name == fault.kind.as_str() {
        fault.name.clone()
    } else {
        format!("{} ({})", fault.name, fault.kind)
    }
}

fn told(fault: &Fault) -> String {
    let amount = fault
        .amount_text()
        .map_or_else(String::new, |amount| format!(", {amount}"));
    format!("{} at {}{amount}", named(fault), fault.place)
}

fn times(course: &[(Duration, Level)], over: Duration) -> Vec<(f64, f64)> {
    let mut times = Vec::new();
    let mut since = None;
    for (at, level) in course
        .iter()
        .map(|(at, level)| ((*at).min(over), *level))
        .chain([(over, 0.0)])
    {
        match since {
            None if level > 0.0 => since = Some(at),
            Some(begin) if level == 0.0 => {
                if begin < at {
                    times.push((begin.as_secs_f64(), at.as_secs_f64()));
                }
                since = None;
            }
            _ => {}
        }
    }
    times
}

/// The shares of its asked bits that a link missed while a fault was on, and in the rest of the hold. `None` if nothing was asked of it
/// in that time.
fn felt(link: &LinkSpec, of: &RateSeries, times: &[(f64, f64)], series: &Series, spec: &Spec) -> Option<FaultLink> {
    let (mut on, mut off) = ((0.0, 0.0), (0.0, 0.0));
    let hold = spec.windows.ramp_end.as_secs_f64()..=spec.windows.hold_end.as_secs_f64();
    let bits = |rate: &Option<BitRate>| rate.map_or(0.0, BitRate::as_f64);
    for (bin, (asked, achieved)) in of.asked_bps.iter().zip(&of.achieved_bps).enumerate() {
        let middle = (bin as f64 + 0.5) * series.bin_s;
        let is_on = times.iter().any(|(from, to)| (*from..*to).contains(&middle));
        let sums = match is_on {
            true => &mut on,
            false if hold.contains(&middle) => &mut off,
            false => continue,
        };
        sums.0 += bits(asked);
        sums.1 += bits(achieved);
    }
    let missed = |(asked, achieved): (f64, f64)| (asked > 0.0).then(|| round((asked - achieved) / asked));
    Some(FaultLink {
        link: link.name(),
        missed_ratio: missed(on)?,
        missed_else_ratio: missed(off),
    })
}

fn round(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}
