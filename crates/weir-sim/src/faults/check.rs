//! Faults that a simulated world cannot make: each would be passed over without a word.

use weir_model::file::Problem;
use weir_plan::Plan;
use weir_plan::fault::{Fault, FaultKind, FaultPlace, Service};

use crate::spec::{Servers, SimSpec};

/// Problems of the faults of a plan in its world, in the order of the file.
pub(crate) fn check(plan: &Plan, spec: &SimSpec) -> Vec<Problem> {
    let problem = |fault: &Fault, (key, message, remedy): (&str, String, String)| Problem {
        file: fault.origin.file.clone(),
        line: fault.origin.line,
        key: format!("fault.{key}"),
        message,
        remedy,
    };
    let found = plan
        .faults
        .iter()
        .filter_map(|fault| Some(problem(fault, wrong(fault, plan, spec)?)));
    found.collect()
}

fn wrong<'f>(fault: &'f Fault, plan: &Plan, spec: &SimSpec) -> Option<(&'f str, String, String)> {
    let named = [
        (
            "segment",
            match &fault.place {
                FaultPlace::Segment(name) => Some(name),
                _ => None,
            },
        ),
        ("to", fault.details.to.as_ref()),
    ];
    for (key, name) in named {
        if let Some(name) = name
            && !spec.all_segments().any(|segment| segment.name == *name)
        {
            return Some((key, format!("there is no segment \"{name}\" to break"), segments(spec)));
        }
    }
    let catalog = fault.place == FaultPlace::Service(Service::Catalog);
    if catalog && !plan.makes_rules() {
        let message = format!(
            "no workload makes rules, so that {} at the catalogue changes nothing",
            fault.kind
        );
        return Some((
            "kind",
            message,
            "add inject = \"rules\" to a workload, or remove the fault".to_owned(),
        ));
    }
    if matches!(fault.kind, FaultKind::SlowServer | FaultKind::Uneven)
        && let Some(refusal) = servers(fault, plan, spec)
    {
        return Some(refusal);
    }
    if fault.kind == FaultKind::Fifo && (!fault.at.is_zero() || fault.length.is_some()) {
        let message = "a transfer service has one order for a whole run".to_owned();
        return Some(("at", message, "leave out at and for".to_owned()));
    }
    if !links(fault, plan) {
        let message = format!(
            "no workload uses the {}, so that the fault changes nothing",
            fault.place
        );
        return Some((
            fault.place.key(),
            message,
            "name a place that traffic passes".to_owned(),
        ));
    }
    None
}

fn segments(spec: &SimSpec) -> String {
    let names: Vec<&str> = spec.all_segments().map(|segment| segment.name.as_str()).collect();
    if names.is_empty() {
        "add a [[sim.segment]] and let links pass it".to_owned()
    } else {
        format!("use one of {}", names.join(", "))
    }
}

/// A server that the storage element does not have, or one alone, which is never uneven.
fn servers<'f>(fault: &'f Fault, plan: &Plan, spec: &SimSpec) -> Option<(&'f str, String, String)> {
    let FaultPlace::Rse(pattern, _) = &fault.place else {
        return None;
    };
    let count = |servers: &Vec<Servers>| servers.iter().map(|kind| kind.count).sum::<u32>();
    let names = plan
        .grid
        .rses
        .iter()
        .map(|rse| &rse.name)
        .filter(|name| pattern.fits(name.as_str()));
    let few = names.map(|name| (name, spec.rse(name).servers.as_ref().map_or(0, count)));
    let needed = fault
        .details
        .server
        .unwrap_or(2)
        .max(if fault.kind == FaultKind::Uneven { 2 } else { 1 });
    let (name, few) = few
        .min_by_key(|(_, count)| *count)
        .filter(|(_, count)| *count < needed)?;
    let message = format!("{name} has {few} servers in [sim]");
    Some((
        "rse",
        message,
        format!("give it {needed} or more by [[sim.rse]] servers"),
    ))
}

/// Whether any workload has traffic at the place.
fn links(fault: &Fault, plan: &Plan) -> bool {
    let site_of = |name: &weir_model::RseName| {
        let rse = plan.grid.rses.iter().find(|rse| rse.name == *name);
        rse.map_or("", |rse| rse.site.as_str())
    };
    let mut links = plan.workloads.iter().flat_map(weir_plan::Workload::links);
    match &fault.place {
        FaultPlace::Rse(pattern, way) => links.any(|link| {
            way.is_out() && pattern.fits(link.source.as_str()) || way.is_in() && pattern.fits(link.destination.as_str())
        }),
        FaultPlace::Site(pattern, way) => links.any(|link| {
            let (from, to) = (site_of(&link.source), site_of(&link.destination));
            let is_passed = from != to || fault.kind.is_of_processes();
            is_passed && (way.is_out() && pattern.fits(from) || way.is_in() && pattern.fits(to))
        }),
        FaultPlace::Link(pattern) => links.any(|link| pattern.fits(link)),
        _ => true,
    }
}
