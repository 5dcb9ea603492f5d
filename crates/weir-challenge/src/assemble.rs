//! Puts the report together and writes the run folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_measure::accounting::Figures;
use weir_measure::report::{Audit, Build, CrossCheck, Event, Host, Report, SCHEMA, Window, Windows, ratio};
use weir_measure::threshold::{self, Evaluated};
use weir_measure::verdict::{Evidence, decide};
use weir_measure::{Accounting, Spec, advice};
use weir_plan::{Plan, Workload};

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
    let Found { plan, driven, .. } = found;
    let windows = driven.windows;
    let spec = Spec {
        windows,
        bin: windows.bin(),
        ..found.spec.clone()
    };
    let mut figures = account(found, &spec);
    fill_steps(&mut figures, found);
    figures.totals.deleted_files = found.sums.deleted_files;
    let thresholds: Vec<Evaluated> = plan
        .thresholds
        .iter()
        .map(|asked| threshold::evaluate(asked, &figures, &spec, &found.crosschecks))
        .collect();
    let (verdict, verdict_reasons) = decide(&Evidence {
        thresholds: &thresholds,
        crosschecks: &found.crosschecks,
        audit: found.audit.as_ref(),
        interrupted: driven.interrupted.as_deref(),
        finished: figures.totals.finished,
        parts: if figures.totals.asked_bps.is_some() {
            figures.parts.total()
        } else {
            &[]
        },
    });
    let failed = ratio(figures.totals.failed, figures.totals.finished + figures.totals.failed).unwrap_or(0.0);
    let weak = figures.totals.asked_bps.filter(|_| driven.interrupted.is_none());
    let window = |start: std::time::Duration, end: std::time::Duration| Window {
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
    };
    Report {
        schema: SCHEMA.to_owned(),
        verdict,
        verdict_reasons,
        advice: weak
            .zip(figures.totals.achieved_bps)
            .and_then(|(asked, achieved)| advice::weak_machine(plan.scale, asked, achieved, failed)),
        challenge: plan.name.clone(),
        description: plan.description.clone(),
        seed: plan.seed,
        scale: plan.scale,
        interrupted: driven.interrupted.is_some(),
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
        windows: Windows {
            ramp: window(std::time::Duration::ZERO, windows.ramp_end),
            hold: window(windows.ramp_end, windows.hold_end),
            drain: window(windows.hold_end, windows.drain_end),
        },
        stability: figures.parts.report(&spec.sites),
        totals: figures.totals,
        links: figures.links,
        sites: figures.sites,
        workloads: figures.workloads,
        thresholds: thresholds.into_iter().map(|evaluated| evaluated.report).collect(),
        crosschecks: found.crosschecks.clone(),
        audit: found.audit.clone(),
        errors: figures.errors,
        series: figures.series,
        events: events(found),
        parameters: parameters(plan),
    }
}

fn account(found: &Found<'_>, spec: &Spec) -> Figures {
    let mut accounting = Accounting::new(spec.clone());
    for record in found.records {
        accounting.add(&record.transfer());
    }
    for (at, active, queued) in &found.driven.gauges {
        accounting.gauge(*at, *active, *queued);
    }
    accounting.finish()
}

/// Puts cells and steps where the accounting left room for them.
fn fill_steps(figures: &mut Figures, found: &Found<'_>) {
    for driver in found.steps {
        driver
            .account(found.records)
            .fill(&mut figures.workloads[driver.workload()].kind);
    }
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
    events.sort_by(|one, other| one.t_s.total_cmp(&other.t_s));
    events
}

/// Writes down every value that was derived or drawn.
pub(crate) fn parameters(plan: &Plan) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    let mut put = |key: String, value: String| drop(parameters.insert(key, value));
    let time = weir_units::duration::format;
    put("phases.ramp".to_owned(), time(plan.phases.ramp));
    put("phases.hold".to_owned(), time(plan.phases.hold));
    put("phases.drain".to_owned(), time(plan.phases.drain));
    let limits = &plan.grid.transfer;
    put(
        "transfer.max_active_per_link".to_owned(),
        limits.max_active_per_link.to_string(),
    );
    put(
        "transfer.max_active_per_rse_in".to_owned(),
        limits.max_active_per_rse_in.to_string(),
    );
    put(
        "transfer.max_active_per_rse_out".to_owned(),
        limits.max_active_per_rse_out.to_string(),
    );
    put("transfer.retries".to_owned(), limits.retries.to_string());
    for workload in &plan.workloads {
        let name = workload.name();
        match workload {
            Workload::Rates(rates) => {
                put(format!("{name}.cycle"), time(rates.cycle));
                put(format!("{name}.lifetime"), time(rates.lifetime));
                put(format!("{name}.source_files"), rates.source_files.to_string());
                for rated in &rates.links {
                    let value = format!("{} in files of {}", rated.rate, rated.file_size);
                    put(format!("{name}.link.{}", rated.link), value);
                }
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                put(format!("{name}.steps"), steps.steps.len().to_string());
                put(format!("{name}.timeout"), time(steps.timeout));
            }
        }
    }
    parameters
}
