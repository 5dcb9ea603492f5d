//! The records of a run: files that grow with it, and sums and paths for its end.

use std::sync::Arc;
use std::time::Duration;

use weir_measure::chain::{self, RuleRow};
use weir_measure::gauges::{self, GaugeRow};
use weir_measure::report::Event;
use weir_measure::samples::{self, Sample};
use weir_measure::signals::{self, SignalRow};
use weir_measure::{Spec, State, Transfer, events, ledger, rows};
use weir_plan::LedgerRow;
use weir_world::Wait;

use crate::RunError;
use crate::execute::engine::LinkEnds;
use crate::execute::live::SharedMeasurement;
use crate::execute::record::Record;
use crate::execute::signal_watch::ReadRows;
use crate::output::append::{AppendFile, Syncing};
use crate::output::folder::RunFolder;
use crate::removal::cleanup::Directories;
use crate::removal::made::MadeFiles;
use crate::services::storage::StorageDoor;
use crate::verify::audit::Sample as Audited;
use crate::verify::counted::Moved;

/// See the module.
pub(crate) struct Books {
    spec: Spec,
    ends: Vec<LinkEnds>,
    doors: Arc<Vec<StorageDoor>>,
    measurement: SharedMeasurement,
    folder: Arc<RunFolder>,
    /// Puts the files on the disk while the run goes on.
    syncing: Syncing,
    transfers: AppendFile,
    ledger: AppendFile,
    series: AppendFile,
    events: AppendFile,
    rules: AppendFile,
    signals: AppendFile,
    gauges: AppendFile,
    made: MadeFiles,
    /// Events of the measurement that are in their file.
    n_events: usize,
    /// Moment of the last sample.
    reached: Duration,
    /// For the cross-checks.
    pub(crate) moved: Moved,
    /// Delivered files that are to be read back.
    pub(crate) samples: Vec<Audited>,
    /// For the clean-up.
    pub(crate) directories: Directories,
    /// Whether the transfer service tells no waits.
    is_foreign: bool,
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
    pub(crate) fn open(folder: &Arc<RunFolder>, subject: Subject<'_>) -> Result<Self, RunError> {
        let create = |name: &str| {
            let path = folder.path().join(name);
            AppendFile::create(&path).map_err(|source| RunError::Folder { path, source })
        };
        let (mut transfers, mut ledger) = (create(rows::FILE)?, create(ledger::FILE)?);
        let (mut series, mut events) = (create(samples::FILE)?, create(events::FILE)?);
        let files = create(weir_measure::files::FILE)?;
        let (mut rules, mut signals) = (create(chain::FILE)?, create(signals::rows::FILE)?);
        let mut gauges = create(gauges::rows::FILE)?;
        let all = [&transfers, &ledger, &series, &events, &rules, &signals, &gauges, &files];
        let syncing = Syncing::of(&all).map_err(|source| RunError::Folder {
            path: folder.path().to_owned(),
            source,
        })?;
        transfers.row(|to| rows::begin(to));
        ledger.row(|to| ledger::begin(to));
        series.row(|to| samples::begin(to));
        events.row(|to| events::begin(to));
        rules.row(|to| chain::begin(to));
        signals.row(|to| signals::rows::begin(to));
        gauges.row(|to| gauges::rows::begin(to));
        let mut books = Self {
            moved: Moved::new(subject.doors.len()),
            ends: subject.ends.to_vec(),
            doors: subject.doors.clone(),
            measurement: subject.measurement.clone(),
            spec: subject.spec,
            folder: folder.clone(),
            syncing,
            transfers,
            ledger,
            series,
            events,
            rules,
            signals,
            gauges,
            made: MadeFiles::new(files),
            n_events: 0,
            reached: Duration::ZERO,
            samples: Vec::new(),
            directories: Directories::default(),
            is_foreign: false,
        };
        books.write();
        Ok(books)
    }

    /// Returns where the files that the run makes are noted.
    pub(crate) fn made(&self) -> &MadeFiles {
        &self.made
    }

    /// Takes in a transfer that has ended, with its cell where its workload has cells.
    pub(crate) fn ended(&mut self, record: &Record, cell: Option<usize>) {
        let transfer = record.transfer(cell);
        self.measurement.with(|measurement| measurement.add(&transfer));
        self.transfers
            .row(|to| rows::write(to, &self.spec, &record.row(), &transfer));
        self.waits(&in_catalogue(&transfer));
        if self.is_foreign {
            self.waits(&as_seen_outside(record, &transfer));
        }
        let ends = self.ends[record.link];
        self.moved.add(ends, &transfer);
        let is_there = transfer.state == State::Finished;
        if is_there && record.kept {
            self.samples.push(Audited {
                door: ends.destination,
                path: record.path.clone(),
                size: record.size,
                source: record.source,
                job: record.job.clone(),
            });
        }
        // Files that rules asked for are the catalogue's to delete, with their folders.
        if record.stages.is_none() {
            let door = &self.doors[ends.destination];
            self.directories.add((ends.destination, door), &record.path);
        }
    }

    /// Takes in a rule whose last file has ended.
    pub(crate) fn rule(&mut self, row: &RuleRow) {
        self.measurement.with(|measurement| measurement.add_rule(row));
        self.rules.row(|to| chain::write(to, &self.spec, row));
    }

    /// Takes in a row of the ledger.
    pub(crate) fn injected(&mut self, row: &LedgerRow) {
        if let Some(link) = self.spec.link(&row.link) {
            let span = (Duration::from_nanos(row.from.0), Duration::from_nanos(row.to.0));
            let files = (row.injected, row.size.0);
            self.measurement
                .with(|measurement| measurement.announce(link, files, span));
        }
        self.ledger.row(|to| ledger::write(to, &self.spec, row));
    }

    /// Takes in gauges.
    pub(crate) fn gauges(&mut self, rows: &[GaugeRow]) {
        self.measurement
            .with(|measurement| rows.iter().for_each(|row| measurement.gauges().add(row)));
        for row in rows {
            self.gauges.row(|to| gauges::rows::write(to, row));
        }
    }

    /// Takes in waits.
    fn waits(&mut self, rows: &[SignalRow]) {
        self.measurement
            .with(|measurement| rows.iter().for_each(|row| measurement.signals().add_row(row)));
        for row in rows {
            self.signals.row(|to| signals::rows::write(to, &self.spec, row));
        }
    }

    /// Takes in the waits of transfers, and what hosts and storages did.
    pub(crate) fn read(&mut self, rows: &ReadRows) {
        self.waits(&rows.signals);
        self.gauges(&rows.gauges);
        self.is_foreign |= rows.is_foreign;
    }

    /// Takes in how it stands at a moment.
    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.reached = sample.at;
        self.series.row(|to| samples::write(to, sample));
    }

    /// Writes the rows and events since the last time into the files. A failure is told once for each file.
    pub(crate) fn write(&mut self) {
        let (events, n_events) = (&mut self.events, &mut self.n_events);
        self.measurement.with(|measurement| {
            for event in measurement.events().get(*n_events..).unwrap_or_default() {
                events.row(|to| events::write(to, event));
                *n_events += 1;
            }
        });
        let mut troubles = Vec::new();
        for file in [
            &mut self.transfers,
            &mut self.ledger,
            &mut self.series,
            &mut self.events,
            &mut self.rules,
            &mut self.signals,
            &mut self.gauges,
        ] {
            file.flush();
            troubles.extend(file.trouble());
        }
        self.made.with(|file| {
            file.flush();
            troubles.extend(file.trouble());
        });
        troubles.extend(self.syncing.trouble());
        for text in troubles {
            // The log may be on the same disk; the event waits with the rows.
            self.folder.log(&text);
            let t_s = self.reached.as_secs_f64();
            self.measurement
                .with(|measurement| measurement.event(Event { t_s, text }));
        }
    }

    /// Closes the books; describes rows that their files lack.
    pub(crate) fn close(mut self) -> Vec<String> {
        self.write();
        drop(self.syncing);
        let files = [
            self.transfers,
            self.ledger,
            self.series,
            self.events,
            self.rules,
            self.signals,
            self.gauges,
        ];
        let mut lacks: Vec<String> = files.into_iter().filter_map(AppendFile::close).collect();
        lacks.extend(self.made.with(AppendFile::end));
        lacks.iter().for_each(|text| self.folder.log(text));
        lacks
    }
}

/// The time that a transfer of a rule was with the catalogue: until it was submitted, and until its end was noted.
fn in_catalogue(transfer: &Transfer) -> Vec<SignalRow> {
    let Some(stages) = transfer.stages else {
        return Vec::new();
    };
    let submitted = stages.submitted.or(transfer.started).unwrap_or(transfer.ended);
    let locked = stages.locked.unwrap_or(transfer.ended);
    let row = |(from, to): (Duration, Duration)| SignalRow {
        span: (from, to.max(from)),
        link: transfer.link,
        wait: Some(Wait::Catalogue),
        failed: None,
        place: None,
        time: to.saturating_sub(from),
    };
    [(stages.asked, submitted), (transfer.ended, locked)].map(row).into()
}

/// The times of a transfer in the queue of a service without waits, and in its last attempt. The reason of the wait is not known.
fn as_seen_outside(record: &Record, transfer: &Transfer) -> Vec<SignalRow> {
    let submitted = transfer.stages.and_then(|stages| stages.submitted);
    let queued = submitted.or(record.accepted).unwrap_or(record.injected);
    let begun = transfer.started.unwrap_or(transfer.ended);
    let row = |wait: Wait, from: Duration, to: Duration| SignalRow {
        span: (from, to.max(from)),
        link: transfer.link,
        wait: Some(wait),
        failed: None,
        place: None,
        time: to.saturating_sub(from),
    };
    vec![row(Wait::Slots, queued, begun), row(Wait::Data, begun, transfer.ended)]
}

#[cfg(test)]
mod tests;
