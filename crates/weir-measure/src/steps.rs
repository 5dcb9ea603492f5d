//! The cells of a matrix and the steps of a ramp, from the rows of their transfers.

use std::time::Duration;

use weir_units::BitRate;

use weir_world::ErrorClass;

use crate::report::{Cell, Step, WorkloadKind};
use crate::spec::CellSpec;
use crate::spread;
use crate::transfer::{State, Transfer};

/// Accounts for the cells of one workload of steps, row by row.
#[derive(Debug, Clone)]
pub struct StepsAccounting {
    cells: Vec<(CellSpec, CellCounts)>,
}

#[derive(Debug, Clone, Default)]
struct CellCounts {
    transfers: u64,
    finished: u64,
    bytes: u64,
    /// Sum of the rates of finished transfers, and the number of transfers that have a rate.
    rates: u128,
    n_rates: u64,
    /// Start of the first attempt, end of the last.
    start: Option<Duration>,
    end: Duration,
    /// Text and class of the first failure.
    failure: Option<(String, ErrorClass)>,
}

impl StepsAccounting {
    /// Starts with nothing counted, for cells in the order of the plan.
    pub fn new(cells: impl IntoIterator<Item = CellSpec>) -> Self {
        let cells = cells.into_iter().map(|spec| (spec, CellCounts::default())).collect();
        Self { cells }
    }

    /// Accounts for one transfer of the cell at a place. Of failures the first row counts.
    pub fn add(&mut self, cell: usize, row: &Transfer) {
        let counts = &mut self.cells[cell].1;
        counts.transfers += 1;
        counts.start = [counts.start, row.started].into_iter().flatten().min();
        counts.end = counts.end.max(row.ended);
        if row.state != State::Finished {
            let failure = row.failure.as_ref().filter(|_| counts.failure.is_none());
            counts.failure = failure
                .map(|failure| (failure.message.clone(), failure.class))
                .or(counts.failure.take());
            return;
        }
        counts.finished += 1;
        counts.bytes += row.size;
        // A transfer that ended within the resolution of the clock has no rate of its own; its duration counts as one
        // millisecond.
        let length = row.started.map(|start| row.ended.saturating_sub(start));
        if let Some(rate) = length.and_then(|length| spread::rate(row.size, length.max(Duration::from_millis(1)))) {
            counts.rates += u128::from(rate.0);
            counts.n_rates += 1;
        }
    }

    /// Puts cells or steps where a workload's report has room for them.
    pub fn fill(&self, kind: &mut WorkloadKind) {
        match kind {
            WorkloadKind::Matrix { cells } => *cells = self.cells(),
            WorkloadKind::Ramp { steps } => *steps = self.steps(),
            WorkloadKind::Rates { .. } => {}
        }
    }

    /// All cells of a matrix, including those that did not run.
    pub fn cells(&self) -> Vec<Cell> {
        let cell = |(spec, counts): &(CellSpec, CellCounts)| {
            let (error, error_class) = counts.failure.clone().unzip();
            let unrun = counts.transfers < spec.transfers;
            Cell {
                source: spec.source.clone(),
                destination: spec.destination.clone(),
                mode: spec.mode.unwrap_or("any").to_owned(),
                size_bytes: spec.size,
                ok: counts.finished == spec.transfers,
                transfers: counts.transfers,
                rate_bps: counts.mean_rate(),
                error: error.or_else(|| unrun.then(|| "not run".to_owned())),
                error_class: error_class.map(|class| class.to_string()),
            }
        };
        self.cells.iter().map(cell).collect()
    }

    /// All steps of a ramp, including those that did not run.
    pub fn steps(&self) -> Vec<Step> {
        let step = |(spec, counts): &(CellSpec, CellCounts)| {
            let length = counts.end.saturating_sub(counts.start.unwrap_or_default());
            Step {
                source: spec.source.clone(),
                destination: spec.destination.clone(),
                parallel: spec.parallel,
                file_bytes: spec.size,
                transfers: counts.transfers,
                failed: counts.transfers - counts.finished,
                achieved_bps: spread::rate(counts.bytes, length),
                duration_s: length.as_secs_f64(),
            }
        };
        self.cells.iter().map(step).collect()
    }
}

impl CellCounts {
    /// The mean of size ÷ own duration.
    fn mean_rate(&self) -> Option<BitRate> {
        let mean = self.rates.checked_div(self.n_rates.into())?;
        Some(BitRate(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Failure;

    fn row(state: State, started: u64, ended: u64, message: Option<&str>) -> Transfer {
        Transfer {
            workload: 0,
            link: 0,
            cell: None,
            size: 1_000,
            state,
            mode: None,
            injected: Duration::ZERO,
            late: Duration::ZERO,
            started: Some(Duration::from_secs(started)),
            ended: Duration::from_secs(ended),
            bytes_moved: 1_000,
            counted: None,
            first_byte: None,
            waits: None,
            retries: 0,
            stages: None,
            failure: message.map(|message| Failure {
                class: ErrorClass::Network,
                message: message.to_owned(),
                party: None,
                phase: None,
                remedy: None,
            }),
        }
    }

    fn accounting() -> StepsAccounting {
        let cell = |parallel| CellSpec {
            source: "A".to_owned(),
            destination: "B".to_owned(),
            mode: Some("push"),
            size: 1_000,
            transfers: 2,
            parallel,
        };
        StepsAccounting::new([cell(1), cell(2)])
    }

    /// A cell would be well with a failure in it, or show another failure than the first.
    #[test]
    fn a_cell_is_well_when_all_of_it_finished() {
        let mut counts = accounting();
        counts.add(0, &row(State::Finished, 0, 1, None));
        counts.add(0, &row(State::Finished, 1, 5, None));
        counts.add(1, &row(State::Failed, 2, 3, Some("first")));
        counts.add(1, &row(State::Cancelled, 2, 3, Some("second")));
        let cells = counts.cells();
        assert_eq!((cells[0].ok, cells[0].rate_bps), (true, Some(BitRate(5_000))));
        assert_eq!((cells[1].ok, cells[1].error.as_deref()), (false, Some("first")));
        assert_eq!(accounting().cells()[0].error.as_deref(), Some("not run"));
    }

    /// A step would last from its submission, or only until its first end.
    #[test]
    fn a_step_lasts_from_the_first_start_to_the_last_end() {
        let mut counts = accounting();
        counts.add(1, &row(State::Finished, 4, 8, None));
        counts.add(1, &row(State::Failed, 2, 10, Some("broken")));
        let steps = counts.steps();
        assert_eq!((steps[1].failed, steps[1].achieved_bps), (1, Some(BitRate(1_000))));
        assert!((steps[1].duration_s - 8.0).abs() < 1e-9);
        assert_eq!((steps[0].transfers, steps[0].achieved_bps), (0, None));
    }
}
