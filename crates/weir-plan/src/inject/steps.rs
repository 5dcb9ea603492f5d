//! The injector of `matrix` and `ramp` workloads: steps one after the other, in each at most so many transfers at once.

use std::time::Duration;

use weir_units::Timestamp;

use super::ID_BITS;
use crate::plan::{Plan, StepsPlan, Workload};
use crate::steps::Cell;

/// One transfer of a cell that is to be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInjection {
    /// Number of the injection, unique in the run and ascending within a workload.
    pub id: u64,
    /// The cell's place among all cells of the workload, step by step, from 0.
    pub cell: usize,
    /// Index of the cell's source file, from 0.
    pub file: u32,
}

/// Runs the steps of one workload; see the module.
///
/// Call [`StepsCore::turn`] when a transfer has ended and when [`StepsCore::next_due`] has come.
#[derive(Debug, Clone)]
pub struct StepsCore {
    workload: usize,
    plan: StepsPlan,
    step: usize,
    /// Place of the step's first cell among all cells.
    first: usize,
    /// When the step began.
    since: Option<Timestamp>,
    cells: Vec<Progress>,
    last_id: u64,
}

/// How far a cell is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    submitted: u32,
    ended: u32,
}

impl StepsCore {
    /// Makes the injector of one workload of a plan; `None` if the plan has no workload of that index, or it has no steps.
    pub fn new(plan: &Plan, workload: usize) -> Option<StepsCore> {
        let (Workload::Matrix(steps) | Workload::Ramp(steps)) = plan.workloads.get(workload)? else {
            return None;
        };
        let mut core = StepsCore {
            workload,
            plan: steps.clone(),
            step: 0,
            first: 0,
            since: None,
            cells: Vec::new(),
            last_id: (workload as u64) << ID_BITS,
        };
        core.enter(0);
        Some(core)
    }

    /// Gives the workload's index in the plan.
    pub fn workload(&self) -> usize {
        self.workload
    }

    /// The plan of the steps.
    pub fn plan(&self) -> &StepsPlan {
        &self.plan
    }

    /// Says whether every step has ended.
    pub fn is_done(&self) -> bool {
        self.step == self.plan.steps.len()
    }

    /// Gives the moment at which the step under way has taken too long.
    pub fn next_due(&self) -> Option<Timestamp> {
        // A step that takes as long as it may is not late yet.
        Some(self.since? + self.plan.timeout + Duration::from_nanos(1))
    }

    /// Records the end of a cell's transfer, whatever its outcome. Transfers of earlier steps are ignored: they were given up.
    pub fn ended(&mut self, cell: usize) {
        if let Some(progress) = cell.checked_sub(self.first).and_then(|at| self.cells.get_mut(at)) {
            progress.ended = (progress.ended + 1).min(progress.submitted);
        }
    }

    /// Appends the transfers that may be submitted now, cell by cell.
    ///
    /// Returns the indices of the cells whose step has exceeded its time: the driver gives up their unfinished transfers, and calls again
    /// at once. Transfers of them that were not submitted never will be.
    pub fn turn(&mut self, now: Timestamp, out: &mut Vec<StepInjection>) -> Option<std::ops::Range<usize>> {
        while !self.is_done() && self.is_complete() {
            self.first += self.cells.len();
            self.enter(self.step + 1);
        }
        if self.is_done() {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) > self.plan.timeout {
            for (cell, progress) in self.plan.steps[self.step].cells.iter().zip(&mut self.cells) {
                *progress = Progress {
                    submitted: cell.transfers,
                    ended: cell.transfers,
                };
            }
            return Some(self.first..self.first + self.cells.len());
        }
        self.fill(out);
        None
    }

    fn enter(&mut self, step: usize) {
        self.step = step;
        self.since = None;
        self.cells = vec![Progress::default(); self.plan.steps.get(step).map_or(0, |step| step.cells.len())];
    }

    fn is_complete(&self) -> bool {
        let complete = |(cell, progress): (&Cell, &Progress)| progress.ended >= cell.transfers;
        self.plan.steps[self.step].cells.iter().zip(&self.cells).all(complete)
    }

    /// Submits as many transfers of every cell as may be under way at once.
    fn fill(&mut self, out: &mut Vec<StepInjection>) {
        let cells = self.plan.steps[self.step].cells.iter().zip(&mut self.cells);
        for ((cell, progress), place) in cells.zip(self.first..) {
            let free = cell.parallel - (progress.submitted - progress.ended);
            let count = free.min(cell.transfers - progress.submitted);
            for number in progress.submitted..progress.submitted + count {
                self.last_id += 1;
                out.push(StepInjection {
                    id: self.last_id,
                    cell: place,
                    file: number % cell.source_files,
                });
            }
            progress.submitted += count;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;
    use crate::{Challenge, Overrides};

    fn core(workload: &str) -> StepsCore {
        let text = format!(
            "name = \"c\"\n[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[workload]]\n{workload}"
        );
        let challenge = Challenge::parse(&text, "c.toml".as_ref()).unwrap();
        StepsCore::new(&challenge.resolve(&Overrides::default()).unwrap(), 0).unwrap()
    }

    fn turn(core: &mut StepsCore, at: u64) -> (Vec<(usize, u32)>, Option<std::ops::Range<usize>>) {
        let mut out = Vec::new();
        let late = core.turn(Timestamp::from_secs(at), &mut out);
        (out.iter().map(|one| (one.cell, one.file)).collect(), late)
    }

    /// A ramp would have more transfers under way than its step says, or fewer.
    #[test]
    fn slots_are_filled_again() {
        let mut core = core("kind = \"ramp\"\nlinks = [\"A->B\"]\nparallel = [2, 1]\nrepeat = 2\nfile_size = \"1 MB\"");
        assert_eq!(turn(&mut core, 0).0, [(0, 0), (0, 1)]);
        assert_eq!(turn(&mut core, 1).0, []);
        core.ended(0);
        assert_eq!(turn(&mut core, 2).0, [(0, 0)]);
        (0..2).for_each(|_| core.ended(0));
        assert_eq!(turn(&mut core, 3).0, [(0, 1)]);
        core.ended(0);
        assert_eq!(turn(&mut core, 4).0, [(1, 0)]);
        core.ended(1);
        assert_eq!(turn(&mut core, 5).0, [(1, 1)]);
        core.ended(1);
        assert_eq!(turn(&mut core, 6), (vec![], None));
        assert!(core.is_done());
    }

    /// A step that hangs would hold up all that follow, or its late ends would count for the next one.
    #[test]
    fn a_late_step_is_given_up() {
        let mut core = core(
            "kind = \"matrix\"\nlinks = [\"A->B\"]\nmodes = [\"pull\", \"push\"]\nsizes = [\"1 MB\"]\nrepeat = 3\ntimeout = \"10 s\"",
        );
        assert_eq!(turn(&mut core, 5).0, [(0, 0)]);
        assert_eq!(
            core.next_due(),
            Some(Timestamp::from_secs(15) + Duration::from_nanos(1))
        );
        assert_eq!(turn(&mut core, 15), (vec![], None));
        assert_eq!(turn(&mut core, 16), (vec![], Some(0..1)));
        assert_eq!(turn(&mut core, 16), (vec![(1, 0)], None));
        core.ended(0);
        assert_eq!(
            turn(&mut core, 17),
            (vec![], None),
            "an end of the first cell is none of the second"
        );
        core.ended(1);
        assert_eq!(turn(&mut core, 18).0, [(1, 0)]);
    }

    /// Cells that may run at once would wait for each other, or the next ones not for all of them.
    #[test]
    fn cells_at_once() {
        let mut core = core("kind = \"matrix\"\nmodes = [\"pull\"]\nsizes = [\"1 MB\", \"2 MB\"]\nat_once = 3");
        assert_eq!(turn(&mut core, 0).0, [(0, 0), (1, 0), (2, 0)]);
        core.ended(1);
        core.ended(2);
        assert_eq!(turn(&mut core, 1).0, []);
        core.ended(0);
        assert_eq!(turn(&mut core, 2).0, [(3, 0)]);
        core.ended(3);
        turn(&mut core, 3);
        assert!(core.is_done());
        assert!(core.next_due().is_none());
    }
}
