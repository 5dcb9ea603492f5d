//! The records of transfers that have ended: rows in files, and sums and paths for the end of the run.

use std::sync::Arc;

use weir_measure::{Spec, State, ledger, rows};
use weir_plan::LedgerRow;

use crate::RunError;
use crate::audit::Sample;
use crate::cleanup::LeftBehind;
use crate::counted::Moved;
use crate::engine::LinkEnds;
use crate::folder::{PartFile, RunFolder};
use crate::live::SharedMeasurement;
use crate::record::Record;
use crate::storage::StorageDoor;

/// See the module.
pub(crate) struct Books {
    spec: Spec,
    ends: Vec<LinkEnds>,
    doors: Arc<Vec<StorageDoor>>,
    measurement: SharedMeasurement,
    transfers: PartFile,
    ledger: PartFile,
    /// For the cross-checks.
    pub(crate) moved: Moved,
    /// Delivered files that are to be read back.
    pub(crate) samples: Vec<Sample>,
    /// For the clean-up.
    pub(crate) left: LeftBehind,
}

/// The run that books are kept of.
pub(crate) struct Subject<'a> {
    pub(crate) spec: Spec,
    pub(crate) ends: &'a [LinkEnds],
    pub(crate) doors: &'a Arc<Vec<StorageDoor>>,
    pub(crate) measurement: &'a SharedMeasurement,
}

impl Books {
    /// Opens books in a run folder.
    pub(crate) fn open(folder: &RunFolder, subject: Subject<'_>) -> Result<Self, RunError> {
        let (mut transfers, mut ledger) = (folder.begin("transfers.csv")?, folder.begin("ledger.csv")?);
        transfers.write(|to| rows::begin(to));
        ledger.write(|to| ledger::begin(to));
        Ok(Self {
            moved: Moved::new(subject.doors.len()),
            ends: subject.ends.to_vec(),
            doors: subject.doors.clone(),
            measurement: subject.measurement.clone(),
            spec: subject.spec,
            transfers,
            ledger,
            samples: Vec::new(),
            left: LeftBehind::default(),
        })
    }

    /// Takes in a transfer that has ended, with its cell where its workload has cells.
    pub(crate) fn ended(&mut self, record: &Record, cell: Option<usize>) {
        let transfer = record.transfer(cell);
        self.measurement.with(|measurement| measurement.add(&transfer));
        self.transfers
            .write(|to| rows::write(to, &self.spec, &record.row(), &transfer));
        let ends = self.ends[record.link];
        self.moved.add(ends, &transfer);
        let is_there = transfer.state == State::Finished;
        if is_there && record.kept {
            self.samples.push(Sample {
                door: ends.destination,
                path: record.path.clone(),
                size: record.size,
                source: record.source,
            });
        }
        // A transfer that failed or was withdrawn should leave no file; one that is there must not stay.
        let is_left = !is_there && record.job.is_some();
        let door = &self.doors[ends.destination];
        self.left.add((ends.destination, door), &record.path, is_left);
    }

    /// Takes in a row of the ledger.
    pub(crate) fn injected(&mut self, row: &LedgerRow) {
        self.ledger.write(|to| ledger::write(to, &self.spec, row));
    }

    /// Closes the books: their files appear.
    pub(crate) fn close(self) -> Result<(), RunError> {
        self.transfers.finish()?;
        self.ledger.finish()?;
        Ok(())
    }
}
