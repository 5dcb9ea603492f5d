//! Drives the workloads that try things one after the other: matrix and ramp.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_measure::accounting::State;
use weir_measure::report;
use weir_measure::spread;
use weir_plan::{Cell, Plan, StepsPlan, Workload};

use crate::engine::{Engine, Wanted, WantedFile};
use crate::injection::InjectionDoor;
use crate::record::Record;

/// Where the transfers of a cell find what the run knows by index.
#[derive(Debug, Clone)]
pub(crate) struct CellPlaces {
    /// Index of the link.
    pub(crate) link: usize,
    /// Indices of its source files.
    pub(crate) sources: Vec<usize>,
}

/// Runs the steps of one workload.
#[derive(Debug)]
pub(crate) struct StepsDriver {
    workload: usize,
    plan: StepsPlan,
    /// Places of every cell of every step.
    places: Vec<Vec<CellPlaces>>,
    step: usize,
    /// Start of the step under way.
    since: Option<Duration>,
    cells: Vec<Progress>,
    /// Number of the transfer submitted last.
    last_id: u64,
    /// Step and cell of every transfer.
    transfers: BTreeMap<u64, (usize, usize)>,
    /// How many of the engine's ended transfers were looked at.
    seen: usize,
}

/// How far a cell is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    submitted: u32,
    ended: u32,
}

impl StepsDriver {
    fn new(workload: usize, plan: StepsPlan, places: Vec<Vec<CellPlaces>>) -> Self {
        let cells = vec![Progress::default(); plan.steps.first().map_or(0, |step| step.cells.len())];
        // As the injectors of rates number theirs: the workload above, a count below.
        let last_id = (workload as u64) << 48;
        Self {
            workload,
            plan,
            places,
            step: 0,
            since: None,
            cells,
            last_id,
            transfers: BTreeMap::new(),
            seen: 0,
        }
    }

    /// Makes the drivers of all workloads of steps of a plan.
    pub(crate) fn all(plan: &Plan, places: &BTreeMap<usize, Vec<Vec<CellPlaces>>>) -> Vec<Self> {
        let driver = |(number, workload): (usize, &Workload)| match workload {
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                Some(Self::new(number, steps.clone(), places[&number].clone()))
            }
            Workload::Rates(_) => None,
        };
        plan.workloads.iter().enumerate().filter_map(driver).collect()
    }

    /// Returns the number of its workload.
    pub(crate) fn workload(&self) -> usize {
        self.workload
    }

    /// Returns whether every step has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.step == self.plan.steps.len()
    }

    /// Takes in what has ended, and submits what may start.
    pub(crate) fn tick<D: InjectionDoor>(&mut self, now: Duration, engine: &mut Engine<D>) {
        self.take_ended(engine.done());
        while !self.is_done() {
            let cells = &self.plan.steps[self.step].cells;
            let complete = |(cell, progress): (&Cell, &Progress)| progress.ended >= cell.transfers;
            if cells.iter().zip(&self.cells).all(complete) {
                self.step += 1;
                self.since = None;
                self.cells =
                    vec![Progress::default(); self.plan.steps.get(self.step).map_or(0, |step| step.cells.len())];
                continue;
            }
            let since = *self.since.get_or_insert(now);
            if now.saturating_sub(since) > self.plan.timeout {
                self.time_out(engine);
                return;
            }
            self.fill(now, engine);
            return;
        }
    }

    fn take_ended(&mut self, done: &[Record]) {
        for record in done
            .iter()
            .skip(self.seen)
            .filter(|record| record.workload == self.workload)
        {
            match self.transfers.get(&record.id) {
                Some((step, cell)) if *step == self.step => self.cells[*cell].ended += 1,
                _ => {}
            }
        }
        self.seen = done.len();
    }

    /// Submits as many transfers of every cell as may be under way at once.
    fn fill<D: InjectionDoor>(&mut self, now: Duration, engine: &mut Engine<D>) {
        for (index, cell) in self.plan.steps[self.step].cells.iter().enumerate() {
            let progress = &mut self.cells[index];
            let free = cell.parallel - (progress.submitted - progress.ended);
            let count = free.min(cell.transfers - progress.submitted);
            if count == 0 {
                continue;
            }
            let places = &self.places[self.step][index];
            let files = (progress.submitted..progress.submitted + count).map(|number| {
                self.last_id += 1;
                let id = self.last_id;
                self.transfers.insert(id, (self.step, index));
                WantedFile {
                    id,
                    source: places.sources[number as usize % places.sources.len()],
                    wanted: now,
                }
            });
            let wanted = Wanted {
                workload: self.workload,
                link: places.link,
                activity: self.plan.activity.clone(),
                mode: cell.mode.map(weir_plan::Mode::as_str),
                measured: true,
                lifetime: Duration::ZERO,
                files: files.collect(),
            };
            progress.submitted += count;
            engine.submit(wanted);
        }
    }

    /// Gives up the transfers of the step that have not ended; they count as failed. What was not submitted counts too.
    fn time_out<D: InjectionDoor>(&mut self, engine: &mut Engine<D>) {
        let limit = weir_units::duration::format(self.plan.timeout);
        let step = self.step;
        let late: Vec<u64> = self
            .transfers
            .iter()
            .filter(|(_, place)| place.0 == step)
            .map(|(id, _)| *id)
            .collect();
        engine.time_out(&late, &limit);
        for (cell, progress) in self.plan.steps[step].cells.iter().zip(&mut self.cells) {
            *progress = Progress {
                submitted: cell.transfers,
                ended: cell.transfers,
            };
        }
    }

    /// Groups the transfers of this workload by step and cell.
    fn by_cell<'a>(&self, done: &'a [Record]) -> BTreeMap<(usize, usize), Vec<&'a Record>> {
        let mut cells: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
        for record in done {
            if let Some(place) = self.transfers.get(&record.id) {
                cells.entry(*place).or_default().push(record);
            }
        }
        cells
    }

    /// Returns the cells of a matrix, those that did not run too.
    pub(crate) fn cells(&self, done: &[Record]) -> Vec<report::Cell> {
        let by_cell = self.by_cell(done);
        let mut cells = Vec::new();
        for (step, cell, plan) in self.each_cell() {
            let records = by_cell.get(&(step, cell)).map(Vec::as_slice).unwrap_or_default();
            let finished: Vec<&Record> = records
                .iter()
                .copied()
                .filter(|record| record.state == Some(State::Finished))
                .collect();
            let first = records
                .iter()
                .find_map(|record| record.failure.as_ref().filter(|_| !is_finished(record)));
            let unrun = (records.len() as u64) < u64::from(plan.transfers);
            cells.push(report::Cell {
                source: plan.link.source.to_string(),
                destination: plan.link.destination.to_string(),
                mode: plan.mode.map_or("any", weir_plan::Mode::as_str).to_owned(),
                size_bytes: plan.size.0,
                ok: finished.len() as u64 == u64::from(plan.transfers),
                transfers: records.len() as u64,
                rate_bps: mean_rate(&finished),
                error: first
                    .map(|failure| failure.message.clone())
                    .or_else(|| unrun.then(|| "not run".to_owned())),
                error_class: first.map(|failure| failure.class.clone()),
            });
        }
        cells
    }

    /// Returns the steps of a ramp, those that did not run too.
    pub(crate) fn steps(&self, done: &[Record]) -> Vec<report::Step> {
        let by_cell = self.by_cell(done);
        let mut steps = Vec::new();
        for (step, cell, plan) in self.each_cell() {
            let records = by_cell.get(&(step, cell)).map(Vec::as_slice).unwrap_or_default();
            let start = records
                .iter()
                .filter_map(|record| record.started)
                .min()
                .unwrap_or_default();
            let end = records.iter().map(|record| record.ended).max().unwrap_or_default();
            let finished = records.iter().filter(|record| is_finished(record));
            let length = end.saturating_sub(start);
            steps.push(report::Step {
                source: plan.link.source.to_string(),
                destination: plan.link.destination.to_string(),
                parallel: u64::from(plan.parallel),
                file_bytes: plan.size.0,
                transfers: records.len() as u64,
                failed: records.iter().filter(|record| !is_finished(record)).count() as u64,
                achieved_bps: spread::rate(finished.map(|record| record.size).sum(), length),
                duration_s: length.as_secs_f64(),
            });
        }
        steps
    }

    fn each_cell(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        let cells = |(step, plan): (usize, &'_ weir_plan::Step)| (step, plan.cells.len());
        self.plan
            .steps
            .iter()
            .enumerate()
            .map(cells)
            .flat_map(|(step, count)| (0..count).map(move |cell| (step, cell)))
            .map(|(step, cell)| (step, cell, &self.plan.steps[step].cells[cell]))
    }
}

fn is_finished(record: &Record) -> bool {
    record.state == Some(State::Finished)
}

/// Returns the mean of size ÷ own duration.
fn mean_rate(finished: &[&Record]) -> Option<u64> {
    let rate = |record: &&Record| {
        let length = record.ended.saturating_sub(record.started?);
        // What ended within the resolution of the clock has no rate of its own; a millisecond is the least it took.
        spread::rate(record.size, length.max(Duration::from_millis(1)))
    };
    let rates: Vec<u64> = finished.iter().filter_map(rate).collect();
    let sum: u128 = rates.iter().map(|rate| u128::from(*rate)).sum();
    (!rates.is_empty()).then(|| u64::try_from(sum / rates.len() as u128).unwrap_or(u64::MAX))
}
