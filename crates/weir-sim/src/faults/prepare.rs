//! Puts the faults of a plan into its scene.

use std::time::Duration;

use weir_plan::fault::{Fault, FaultKind, FaultPlace, Way};
use weir_plan::{Plan, Workload};

use super::models;
use super::scene_fault::SceneFault;
use crate::scene::Scene;
use crate::unlimited::UNLIMITED;

/// Time that steps may take beyond the hold, for faults that come and go.
const STEPS: Duration = Duration::from_secs(86_400);

fn placed(fault: &Fault, plan: &Plan, scene: &Scene) -> SceneFault {
    // Steps may go on after the hold.
    let steps = plan
        .workloads
        .iter()
        .any(|workload| !matches!(workload, Workload::Rates(_)));
    let end = plan.phases.end() + plan.phases.drain + if steps { STEPS } else { Duration::ZERO };
    let mut on = SceneFault {
        fault: fault.clone(),
        course: fault.course(plan.seed, end),
        storages: Vec::new(),
        sites: Vec::new(),
        links: Vec::new(),
        segments: Vec::new(),
        workloads: Vec::new(),
        level: 0.0,
    };
    match &fault.place {
        FaultPlace::Rse(pattern, _) => on.storages = fitting(&scene.storages, |storage| pattern.fits(&storage.name)),
        FaultPlace::Site(pattern, _) if fault.kind.is_of_processes() => {
            on.storages = fitting(&scene.storages, |storage| pattern.fits(&scene.sites[storage.site].name));
        }
        FaultPlace::Site(pattern, _) => on.sites = fitting(&scene.sites, |site| pattern.fits(&site.name)),
        FaultPlace::Link(pattern) => on.links = fitting(&scene.links, |link| pattern.fits(&link.link)),
        FaultPlace::Segment(name) => on.segments = fitting(&scene.segments, |segment| segment.name == *name),
        FaultPlace::Service(_) => {}
        FaultPlace::Workload(pattern) => {
            on.workloads = fitting(&plan.workloads, |workload: &Workload| pattern.fits(workload.name()));
        }
    }
    // What a storage element does changes every link that it is an end of.
    if !on.storages.is_empty() {
        on.links = fitting(&scene.links, |link| {
            on.storages.contains(&link.source) || on.storages.contains(&link.destination)
        });
    }
    on
}

fn fitting<T>(list: &[T], fits: impl Fn(&T) -> bool) -> Vec<usize> {
    list.iter()
        .enumerate()
        .filter(|(_, thing)| fits(thing))
        .map(|(at, _)| at)
        .collect()
}

/// Adds the faults of a plan to its scene, and the limits that they will need: without bound until a fault sets one.
pub(crate) fn prepare(scene: &mut Scene, plan: &Plan) {
    let faults: Vec<SceneFault> = plan.faults.iter().map(|fault| placed(fault, plan, scene)).collect();
    for on in &faults {
        need(scene, on);
        if on.fault.kind == FaultKind::FrozenStore {
            scene.store.freezes.extend(on.intervals());
        }
    }
    scene.faults = faults;
}

fn need(scene: &mut Scene, on: &SceneFault) {
    let way = on.fault.place.way();
    let [reads, writes, disk] = models::needs(on.fault.kind);
    for at in &on.storages {
        let model = &mut scene.storages[*at].model;
        for (limit, needed) in [
            (&mut model.read, reads),
            (&mut model.write, writes),
            (&mut model.disk, disk),
        ] {
            if needed {
                limit.get_or_insert(UNLIMITED);
            }
        }
    }
    for at in &on.sites {
        let model = &mut scene.sites[*at].model;
        if way.is_none_or(Way::is_in) {
            model.inward.get_or_insert(UNLIMITED);
        }
        if way.is_none_or(Way::is_out) {
            model.outward.get_or_insert(UNLIMITED);
        }
    }
    if matches!(on.fault.place, FaultPlace::Link(_)) && models::needs_wire(on.fault.kind) {
        for at in &on.links {
            scene.links[*at].capacity.get_or_insert(UNLIMITED);
        }
    }
}
