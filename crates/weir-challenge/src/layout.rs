//! Gives everything that a plan names a number: links, doors, source files.

use std::collections::BTreeMap;

use weir_measure::accounting::{AskedCurve, LinkSpec, WorkloadSpec};
use weir_measure::report::WorkloadKind;
use weir_model::{Grid, Link, RseName};
use weir_plan::{Phases, Plan, Workload};

use crate::engine::LinkEnds;
use crate::live::SiteAsk;
use crate::rates::RatedPlaces;
use crate::seed::Sources;
use crate::steps::CellPlaces;
use crate::storage::StorageDoor;

/// What the run knows by number.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Sites in the order of the grid.
    pub(crate) sites: Vec<String>,
    /// Links in the order in which the plan names them first.
    pub(crate) links: Vec<LinkSpec>,
    /// Their doors, at the same numbers.
    pub(crate) ends: Vec<LinkEnds>,
    /// The source files of the plan.
    pub(crate) sources: Sources,
    /// Of each rates workload, by its number among the workloads: the places of its links.
    pub(crate) rated: BTreeMap<usize, Vec<RatedPlaces>>,
    /// Of each workload of steps, by its number: the places of its cells, step by step.
    pub(crate) cells: BTreeMap<usize, Vec<CellPlaces>>,
    /// Workloads in the order of the plan, with cells and steps still empty.
    pub(crate) workloads: Vec<WorkloadSpec>,
}

/// Numbers a plan.
pub(crate) fn lay_out(plan: &Plan, doors: &[StorageDoor]) -> Layout {
    let mut layout = Layout {
        sites: plan.grid.sites.iter().map(|site| site.name.to_string()).collect(),
        links: Vec::new(),
        ends: Vec::new(),
        sources: Sources::default(),
        rated: BTreeMap::new(),
        cells: BTreeMap::new(),
        workloads: plan
            .workloads
            .iter()
            .map(|workload| specification(workload, &plan.phases))
            .collect(),
    };
    let mut numbers: BTreeMap<Link, usize> = BTreeMap::new();
    let mut number_of = |layout: &mut Layout, link: &Link| {
        *numbers.entry(link.clone()).or_insert_with(|| {
            layout.links.push(link_of(&plan.grid, link));
            let end = |name: &RseName| place(&plan.grid, name);
            layout.ends.push(LinkEnds {
                source: end(&link.source),
                destination: end(&link.destination),
            });
            layout.links.len() - 1
        })
    };
    for (index, workload) in plan.workloads.iter().enumerate() {
        match workload {
            Workload::Rates(rates) => {
                let mut places = Vec::with_capacity(rates.links.len());
                for rated in &rates.links {
                    let link = number_of(&mut layout, &rated.link);
                    let spec = &mut layout.links[link];
                    spec.asked = Some(spec.asked.unwrap_or(0) + rates.mean_rate(rated.rate, &plan.phases).0);
                    spec.curves.push(curve(rates, rated.rate));
                    note_size(spec, rated.file_size.0);
                    let door = layout.ends[link].source;
                    let need = |file| layout.sources.need(&doors[door], door, rated.file_size.0, file);
                    places.push(RatedPlaces {
                        link,
                        sources: (0..rates.source_files).map(need).collect(),
                    });
                }
                layout.rated.insert(index, places);
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                let mut all = Vec::new();
                for cell in steps.steps.iter().flat_map(|step| &step.cells) {
                    let link = number_of(&mut layout, &cell.link);
                    note_size(&mut layout.links[link], cell.size.0);
                    let door = layout.ends[link].source;
                    let need = |file| layout.sources.need(&doors[door], door, cell.size.0, file);
                    all.push(CellPlaces {
                        link,
                        mode: cell.mode,
                        sources: (0..cell.source_files).map(need).collect(),
                    });
                }
                layout.cells.insert(index, all);
            }
        }
    }
    for link in &mut layout.links {
        link.file_bytes = link.file_bytes.filter(|size| *size > 0);
    }
    layout
}

/// Returns the sites with what is asked of the links into each.
pub(crate) fn asks(sites: &[String], links: &[LinkSpec]) -> Vec<SiteAsk> {
    let asked = |site: usize| {
        let into = links.iter().filter(|link| link.destination_site == site);
        into.flat_map(|link| link.curves.iter().copied()).collect()
    };
    sites
        .iter()
        .enumerate()
        .map(|(site, name)| SiteAsk {
            name: name.clone(),
            asked: asked(site),
        })
        .collect()
}

fn place(grid: &Grid, rse: &RseName) -> usize {
    grid.rses
        .iter()
        .position(|known| known.name == *rse)
        .expect("a plan names only RSEs of its grid")
}

fn link_of(grid: &Grid, link: &Link) -> LinkSpec {
    let site_of = |rse: &RseName| {
        let site = grid.site_of(rse).expect("a plan names only RSEs of its grid");
        grid.sites
            .iter()
            .position(|known| known.name == *site)
            .expect("an RSE is at a site of its grid")
    };
    LinkSpec {
        source: link.source.to_string(),
        destination: link.destination.to_string(),
        source_site: site_of(&link.source),
        destination_site: site_of(&link.destination),
        asked: None,
        curves: Vec::new(),
        file_bytes: None,
    }
}

/// When which rate is asked of a link by a workload.
fn curve(rates: &weir_plan::RatesPlan, rate: weir_units::BitRate) -> AskedCurve {
    AskedCurve {
        rate: rate.0,
        from: rates.start,
        full: rates.start + rates.phases.full(),
        until: rates.start + rates.phases.end(),
    }
}

/// Remembers the size of a link's files; zero stands for "several" until the end.
fn note_size(link: &mut LinkSpec, size: u64) {
    link.file_bytes = match link.file_bytes {
        None => Some(size),
        Some(known) if known == size => Some(size),
        Some(_) => Some(0),
    };
}

fn specification(workload: &Workload, phases: &Phases) -> WorkloadSpec {
    let (kind, planned_bytes) = match workload {
        Workload::Rates(rates) => {
            let asked_bps = rates.links.iter().map(|rated| rated.rate.0).sum();
            let empty = WorkloadKind::Rates {
                asked_bps,
                achieved_bps: None,
                ratio: None,
                lateness_p95_s: None,
                lateness_max_s: None,
            };
            (empty, 0)
        }
        Workload::Matrix(steps) => (WorkloadKind::Matrix { cells: Vec::new() }, planned(steps)),
        Workload::Ramp(steps) => (WorkloadKind::Ramp { steps: Vec::new() }, planned(steps)),
    };
    WorkloadSpec {
        name: workload.name().to_owned(),
        kind,
        planned_bytes,
        hold: match workload {
            Workload::Rates(rates) => rates.own_hold(phases),
            Workload::Matrix(_) | Workload::Ramp(_) => None,
        },
    }
}

fn planned(steps: &weir_plan::StepsPlan) -> u64 {
    let cells = steps.steps.iter().flat_map(|step| &step.cells);
    cells
        .map(|cell| cell.size.0.saturating_mul(u64::from(cell.transfers)))
        .fold(0, u64::saturating_add)
}
