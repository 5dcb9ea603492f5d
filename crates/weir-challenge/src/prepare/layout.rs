//! Gives everything that a plan names a number: links, doors, source files.

use std::collections::BTreeMap;

use weir_measure::{LinkSpec, Spec};
use weir_model::Link;
use weir_plan::fault::{Amount, Fault, FaultKind, FaultPlace};
use weir_plan::{Cell, Inject, Plan, RatedLink, Workload};
use weir_units::Bytes;

use crate::execute::engine::LinkEnds;
use crate::execute::rates::RatedPlaces;
use crate::execute::steps::CellPlaces;
use crate::prepare::seed::Sources;
use crate::services::storage::StorageDoor;

/// The objects that the run knows by number.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The doors of each link of the plan, at the numbers of [`Spec::links`].
    pub(crate) ends: Vec<LinkEnds>,
    /// The source files of the plan.
    pub(crate) sources: Sources,
    /// Of each rates workload, by its number among the workloads: the places of its links.
    pub(crate) rated: BTreeMap<usize, Vec<RatedPlaces>>,
    /// Of each workload of steps, by its number: the places of its cells, step by step.
    pub(crate) cells: BTreeMap<usize, Vec<CellPlaces>>,
}

/// Numbers the objects of a plan; `spec` is that of the plan, `run` the name of the run.
pub(crate) fn lay_out(plan: &Plan, spec: &Spec, doors: &[StorageDoor], run: &str) -> Layout {
    let door = |name: &str| {
        let mut rses = plan.grid.rses.iter();
        let place = rses.position(|rse| rse.name.as_str() == name);
        place.expect("a plan names only RSEs of its grid")
    };
    let ends = |link: &LinkSpec| LinkEnds {
        source: door(&link.source),
        destination: door(&link.destination),
    };
    let mut layout = Layout {
        ends: spec.links.iter().map(ends).collect(),
        sources: Sources::default(),
        rated: BTreeMap::new(),
        cells: BTreeMap::new(),
    };
    let numbers = spec.numbers();
    let number = |link: &Link| numbers[&(link.source.as_str(), link.destination.as_str())];
    for (index, workload) in plan.workloads.iter().enumerate() {
        match workload {
            Workload::Rates(rates) => {
                let by_rules = rates.inject == Inject::Rules;
                let places = |rated: &RatedLink| {
                    let link = number(&rated.link);
                    let (size, files) = (rated.file_size, rated.source_files);
                    let sources = if by_rules {
                        layout.needs_dids(link, size, files, run)
                    } else {
                        layout.needs(link, size, files, doors)
                    };
                    let smaller = small_sizes(plan, &rates.name, size);
                    let smaller = smaller.filter(|_| !by_rules);
                    let smaller = smaller.map(|small| (small.0, layout.needs(link, small, 1, doors)[0]));
                    RatedPlaces {
                        link,
                        smaller: smaller.collect(),
                        n_sources: sources.len(),
                        skipped: 0,
                        sources: sources.into(),
                    }
                };
                let places = rates.links.iter().map(places).collect();
                layout.rated.insert(index, places);
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                let places = |cell: &Cell| {
                    let link = number(&cell.link);
                    CellPlaces {
                        link,
                        mode: cell.mode,
                        sources: layout.needs(link, cell.size, cell.source_files, doors),
                    }
                };
                let places = steps.steps.iter().flat_map(|step| &step.cells).map(places).collect();
                layout.cells.insert(index, places);
            }
        }
    }
    layout
}

/// The sizes of files that faults of a workload ask for, in place of this one.
fn small_sizes(plan: &Plan, workload: &str, size: Bytes) -> impl Iterator<Item = Bytes> {
    let of = move |fault: &Fault| match (fault.kind, &fault.place, fault.amount) {
        (FaultKind::SmallFiles, FaultPlace::Workload(pattern), Amount::Size(small))
            if pattern.fits(workload) && small < size =>
        {
            Some(small)
        }
        _ => None,
    };
    plan.faults.iter().filter_map(of)
}

impl Layout {
    /// The numbers of a link's source files of one size.
    fn needs(&mut self, link: usize, size: Bytes, files: u32, doors: &[StorageDoor]) -> Vec<usize> {
        let door = self.ends[link].source;
        let need = |file| self.sources.need(&doors[door], door, size.0, file);
        (0..files).map(need).collect()
    }

    /// The numbers of a link's source files of one size, over which rules are made.
    fn needs_dids(&mut self, link: usize, size: Bytes, files: u32, run: &str) -> Vec<usize> {
        let door = self.ends[link].source;
        (0..files).map(|_| self.sources.need_did(door, size.0, run)).collect()
    }
}
