//! Drives the workloads that try things one after the other: matrix and ramp.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use weir_plan::{Mode, Plan, StepInjection, StepsCore};
use weir_units::Timestamp;

use crate::execute::engine::Engine;
use crate::execute::record::{Wanted, WantedFile};
use crate::inject::injection::InjectionDoor;

/// The indices of a cell's objects in the run.
#[derive(Debug, Clone)]
pub(crate) struct CellPlaces {
    /// Index of the link.
    pub(crate) link: usize,
    /// The mode; the service chooses if absent.
    pub(crate) mode: Option<Mode>,
    /// Indices of its source files.
    pub(crate) sources: Vec<usize>,
}

/// Runs the steps of one workload: [`StepsCore`] says which transfers, the engine carries them out.
#[derive(Debug)]
pub(crate) struct StepsDriver {
    core: StepsCore,
    /// Places of every cell, step by step.
    places: Vec<CellPlaces>,
    /// Cells of the transfers that have not ended.
    transfers: BTreeMap<u64, usize>,
}

impl StepsDriver {
    /// Makes the drivers of all workloads of steps of a plan.
    pub(crate) fn all(plan: &Plan, places: &BTreeMap<usize, Vec<CellPlaces>>) -> Vec<Self> {
        let driver = |workload: usize| {
            Some(Self {
                core: StepsCore::new(plan, workload)?,
                places: places[&workload].clone(),
                transfers: BTreeMap::new(),
            })
        };
        (0..plan.workloads.len()).filter_map(driver).collect()
    }

    /// Returns whether every step has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.core.is_done()
    }

    /// Submits the transfers that may start.
    pub(crate) fn tick<D: InjectionDoor>(&mut self, now: Duration, engine: &mut Engine<D>) {
        let moment = Timestamp(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let mut injections = Vec::new();
        while let Some(late) = self.core.turn(moment, &mut injections) {
            self.time_out(&late, engine);
        }
        for batch in injections.chunk_by(|one, other| one.cell == other.cell) {
            self.submit(now, batch, engine);
        }
    }

    /// Submits transfers of one cell.
    fn submit<D: InjectionDoor>(&mut self, now: Duration, batch: &[StepInjection], engine: &mut Engine<D>) {
        let Some(first) = batch.first() else { return };
        let places = &self.places[first.cell];
        self.transfers
            .extend(batch.iter().map(|injection| (injection.id, injection.cell)));
        let file = |injection: &StepInjection| WantedFile {
            id: injection.id,
            source: places.sources[injection.file as usize],
            is_missing: false,
            wanted: now,
        };
        engine.submit(Wanted {
            workload: self.core.workload(),
            link: places.link,
            activity: self.core.plan().activity.clone(),
            mode: places.mode.map(Mode::as_str),
            measured: true,
            by_rule: false,
            may_keep: 0,
            is_loop: false,
            lifetime: Duration::ZERO,
            files: batch.iter().map(file).collect(),
        });
    }

    /// Gives up the transfers of a step that have not ended; they count as failed.
    fn time_out<D: InjectionDoor>(&self, cells: &Range<usize>, engine: &mut Engine<D>) {
        let of_step = self.transfers.iter().filter(|(_, cell)| cells.contains(cell));
        let late: Vec<u64> = of_step.map(|(id, _)| *id).collect();
        engine.time_out(&late, self.core.plan().timeout);
    }

    /// Takes in that a transfer has ended; returns its cell, if it is one of this workload's.
    pub(crate) fn ended(&mut self, transfer: u64) -> Option<usize> {
        let cell = self.transfers.remove(&transfer)?;
        self.core.ended(cell);
        Some(cell)
    }
}
