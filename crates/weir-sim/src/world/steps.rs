//! Workloads that try things one after the other: matrix and ramp.

use std::collections::BTreeMap;

use weir_model::Link;
use weir_plan::{Cell, Mode, StepInjection, StepsCore};
use weir_sched::Terms;
use weir_world::{CopyMode, Failure, Party, Phase, Retry, TransferId};

use super::events::Event;
use super::{Want, World};
use crate::sim_plan::SimPlan;
use crate::terms;

/// Runs the steps of one workload: [`StepsCore`] says which transfers, the world carries them out.
#[derive(Debug)]
pub(super) struct Stepper {
    core: StepsCore,
    terms: Terms,
    activity: u32,
    /// Of every cell: index of its link among the asks, size of its files, mode.
    places: Vec<(usize, u64, CopyMode)>,
    /// Cells of the transfers that are not accounted for.
    under_way: BTreeMap<TransferId, usize>,
    injected: u64,
}

impl Stepper {
    /// Makes the one of a workload; `None` if it has no steps.
    pub(super) fn new(plan: &SimPlan, workload: usize, world: &World) -> Option<Self> {
        let core = StepsCore::new(plan, workload)?;
        let scene = world.scene();
        let of_workload = scene
            .asks
            .iter()
            .enumerate()
            .filter(|(_, ask)| ask.workload == workload);
        let asks: BTreeMap<&Link, usize> = of_workload.map(|(at, ask)| (&scene.links[ask.link].link, at)).collect();
        let place = |cell: &Cell| {
            let ask = asks[&cell.link];
            let mode = cell.mode.map_or("pull", Mode::as_str);
            (ask, cell.size.0, CopyMode::parse(mode).unwrap_or(CopyMode::Pull))
        };
        let cells = || core.plan().steps.iter().flat_map(|step| &step.cells);
        let activity = core.plan().activity.clone();
        Some(Self {
            terms: Terms {
                retries: -1, // what the first attempt says is the result
                ..terms::terms(plan, &activity)
            },
            activity: terms::activity(plan, &activity),
            places: cells().map(place).collect(),
            under_way: BTreeMap::new(),
            injected: 0,
            core,
        })
    }

    pub(super) fn workload(&self) -> usize {
        self.core.workload()
    }

    pub(super) fn is_done(&self) -> bool {
        self.core.is_done()
    }

    /// Transfers that were submitted.
    pub(super) fn injected(&self) -> u64 {
        self.injected
    }

    /// Submits the transfers that may start now, and gives up steps that take too long.
    pub(super) fn turn(&mut self, world: &mut World) {
        let begun = self.core.next_due();
        let mut injections = Vec::new();
        while let Some(late) = self.core.turn(world.now, &mut injections) {
            let of_step = self.under_way.iter().filter(|(_, cell)| late.contains(cell));
            let late: Vec<TransferId> = of_step.map(|(id, _)| *id).collect();
            world.give_up_late(
                &late,
                &failure(weir_measure::Failure::late_step(self.core.plan().timeout)),
            );
        }
        for batch in injections.chunk_by(|one, other| one.cell == other.cell) {
            self.submit(world, batch);
        }
        // One event marks the end of each step's time; the event of a step that ended before has no effect.
        if let Some(due) = self.core.next_due().filter(|due| Some(*due) != begun) {
            world.events.add(due, Event::Inject(self.workload() as u32));
        }
    }

    /// Submits transfers of one cell.
    fn submit(&mut self, world: &mut World, batch: &[StepInjection]) {
        let Some(first) = batch.first() else { return };
        let (ask, size, mode) = self.places[first.cell];
        let want = Want {
            size,
            wanted: world.now,
            mode,
        };
        let wants = vec![want; batch.len()];
        let ids = world.submit(0, ask, self.terms, self.activity, &wants);
        self.under_way.extend(ids.into_iter().map(|id| (id, first.cell)));
        self.injected += batch.len() as u64;
    }

    /// One of its transfers has ended: more may start.
    pub(super) fn ended(&mut self, id: TransferId, world: &mut World) {
        if let Some(cell) = self.under_way.get(&id) {
            self.core.ended(*cell);
            world.events.add(world.now, Event::Inject(self.workload() as u32));
        }
    }

    /// Removes and returns the cell of an ended transfer.
    pub(super) fn take_cell(&mut self, id: TransferId) -> Option<usize> {
        self.under_way.remove(&id)
    }
}

/// A failure that the run itself decides on, in the world's words.
pub(super) fn failure(reason: weir_measure::Failure) -> Failure {
    Failure {
        class: reason.class,
        party: Party::TransferService,
        phase: Phase::Transfer,
        message: reason.message,
        remedy: reason.remedy.unwrap_or_default(),
        bytes_moved: weir_units::Bytes::ZERO,
        retry: Retry::Never,
    }
}
