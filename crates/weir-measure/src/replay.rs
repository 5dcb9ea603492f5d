//! Measuring a run again from the files that it wrote, for runs that ended before their report.

use std::io::Read;
use std::time::Duration;

use weir_plan::Plan;

use crate::measurement::Measurement;
use crate::read::ReadError;
use crate::samples::{Sample, Stage};
use crate::snapshot::Standing;
use crate::{chain, events, gauges, rows, samples, signals};

/// The files of a run.
#[derive(Debug)]
pub struct Recorded<T, S, E, R, W, G> {
    /// `transfers.csv`.
    pub transfers: T,
    /// `series.csv`.
    pub series: S,
    /// `events.csv`.
    pub events: E,
    /// `rules.csv`; of a run that made no rule there may be none.
    pub rules: Option<R>,
    /// `signals.csv`; of a run of an older version there is none.
    pub signals: Option<W>,
    /// `gauges.csv`, alike.
    pub gauges: Option<G>,
}

/// The content of a run's files.
#[derive(Debug)]
pub struct Replayed {
    /// The measurement, as it was when the last row was written.
    pub measurement: Measurement,
    /// The last moment of which there is a row.
    pub reached: Duration,
    /// When injection ended, if it had.
    pub drain: Option<Duration>,
    /// Whether the drain had ended.
    pub is_over: bool,
    /// The number of transfers that had not ended.
    pub standing: Standing,
    /// Where a file stopped being readable. A run that is killed cuts its last row off.
    pub cut: Vec<ReadError>,
}

/// Measures a run again.
///
/// # Errors
/// A file is none of its kind.
pub fn replay<T: Read, S: Read, E: Read, R: Read, W: Read, G: Read>(
    plan: &Plan,
    recorded: Recorded<T, S, E, R, W, G>,
) -> Result<Replayed, ReadError> {
    let mut measurement = Measurement::of(plan);
    let mut cut = Vec::new();
    let mut closed = None;
    let mut last: Option<Sample> = None;
    cut.extend(samples::read(recorded.series, |sample| {
        if sample.stage != Stage::Injecting && closed.is_none() {
            closed = Some(sample.at);
        }
        measurement.gauge(sample.at, sample.standing.active, sample.standing.queued);
        last = Some(*sample);
    })?);
    let mut reached = last.map_or(Duration::ZERO, |sample| sample.at);
    // The windows end before the rows are counted into them: a row is counted the same whenever it comes.
    if let Some(closed) = closed {
        measurement.close(closed);
    }
    let spec = measurement.spec().clone();
    cut.extend(rows::read(recorded.transfers, &spec, |transfer| {
        reached = reached.max(transfer.ended);
        measurement.add(transfer);
    })?);
    if let Some(rules) = recorded.rules {
        cut.extend(chain::read(rules, &spec, |rule| measurement.add_rule(rule))?);
    }
    if let Some(rows) = recorded.signals {
        cut.extend(signals::rows::read(rows, &spec, |row| {
            measurement.signals().add_row(row);
        })?);
    }
    if let Some(rows) = recorded.gauges {
        cut.extend(gauges::rows::read(rows, |row| measurement.gauges().add(row))?);
    }
    if closed.is_none() {
        measurement.close(reached);
    }
    measurement.drained(reached);
    cut.extend(events::read(recorded.events, |event| measurement.event(event))?);
    let standing = last.map(|sample| sample.standing).unwrap_or_default();
    measurement.standing(standing);
    Ok(Replayed {
        measurement,
        reached,
        drain: closed,
        is_over: last.is_some_and(|sample| sample.stage == Stage::Over),
        standing,
        cut,
    })
}
