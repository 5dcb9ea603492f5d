//! Puts the report together and writes the run folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_measure::report::{Audit, Build, CrossCheck, Event, Host, Report};
use weir_measure::{Ending, Measurement, Spec};
use weir_plan::Plan;

use crate::clock::Clock;
use crate::drive::Driven;
use crate::engine::Sums;
use crate::folder::RunFolder;
use crate::rates::RatesDriver;
use crate::record::{self, Names, Record};
use crate::run::RunOutcome;
use crate::steps::StepsDriver;
use crate::{RunError, html};

/// Everything a run found out.
pub(crate) struct Found<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) command: &'a str,
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    /// As planned.
    pub(crate) spec: Spec,
    pub(crate) steps: &'a [StepsDriver],
    pub(crate) rates: Option<&'a RatesDriver>,
    pub(crate) records: &'a [Record],
    pub(crate) sums: Sums,
    pub(crate) driven: Driven,
    pub(crate) crosschecks: Vec<CrossCheck>,
    pub(crate) audit: Option<Audit>,
}

/// Writes report, rows and ledger into the run folder.
pub(crate) fn write(found: &Found<'_>, folder: &RunFolder) -> Result<RunOutcome, RunError> {
    let spec = &found.spec;
    let names: Vec<[String; 4]> = spec
        .links
        .iter()
        .map(|link| {
            let (from, to) = (&spec.sites[link.source_site], &spec.sites[link.destination_site]);
            [link.source.clone(), link.destination.clone(), from.clone(), to.clone()]
        })
        .collect();
    let workloads: Vec<String> = spec.workloads.iter().map(|workload| workload.name.clone()).collect();
    let rows = Names {
        workloads: &workloads,
        links: &names,
    };
    folder.write("transfers.csv", |to| record::write_transfers(to, found.records, &rows))?;
    folder.write("ledger.csv", |to| crate::ledger::write(to, found.rates, &rows))?;
    let report = report(found);
    write_report(&report, folder)?;
    folder.log(&format!(
        "verdict {}: {}",
        report.verdict.as_str(),
        report.verdict_reasons.join("; ")
    ));
    Ok(RunOutcome {
        report,
        folder: folder.path().to_owned(),
    })
}

pub(crate) fn write_report(report: &Report, folder: &RunFolder) -> Result<PathBuf, RunError> {
    folder.write("report.json", |to| to.write_all(report.to_json().as_bytes()))?;
    let page = html::render(report).map_err(|error| RunError::Folder {
        path: folder.path().join("report.html"),
        source: std::io::Error::other(error),
    })?;
    folder.write("report.html", |to| to.write_all(page.as_bytes()))
}

pub(crate) fn report(found: &Found<'_>) -> Report {
    let driven = &found.driven;
    let mut measurement = Measurement::of(found.plan);
    measurement.close(driven.windows.hold_end);
    for record in found.records {
        let cell = found.steps.iter().find_map(|driver| driver.cell(record.id));
        measurement.add(&record.transfer(cell));
    }
    for (at, active, queued) in &driven.gauges {
        measurement.gauge(*at, *active, *queued);
    }
    events(found).into_iter().for_each(|event| measurement.event(event));
    let given_up = found.rates.map_or(0, RatesDriver::given_up);
    measurement.given_up(driven.windows.hold_end, given_up);
    measurement.drained(driven.windows.drain_end);
    measurement.finish().report(Ending {
        command: found.command.to_owned(),
        started_at: moment(found.clock.started_at()),
        ended_at: moment(jiff::Timestamp::now()),
        weir: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Some(env!("WEIR_COMMIT"))
                .filter(|commit| !commit.is_empty())
                .map(str::to_owned),
        },
        host: Host {
            cpu_busy_ratio: driven.cpu_busy_ratio,
            ..found.host.clone()
        },
        interrupted: driven.interrupted.clone(),
        crosschecks: found.crosschecks.clone(),
        audit: found.audit.clone(),
        deleted_files: found.sums.deleted_files,
        parameters: BTreeMap::new(),
        violations: Vec::new(),
        carried_here: true,
    })
}

fn moment(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

fn events(found: &Found<'_>) -> Vec<Event> {
    let mut events = found.driven.events.clone();
    if let Some(rates) = found.rates {
        events.extend(rates.events().iter().cloned());
    }
    if found.sums.deletion_failures > 0 {
        let text = format!("{} delivered files could not be deleted", found.sums.deletion_failures);
        events.push(Event {
            t_s: found.driven.windows.drain_end.as_secs_f64(),
            text,
        });
    }
    events
}
