//! Runs a plan in the simulated world and writes the same run folder as a real run.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use weir_measure::report::{Build, CrossCheck, Event, Host, Report, SCHEMA, Verdict, Window, Windows};
use weir_measure::threshold;
use weir_measure::verdict::{Evidence, decide};
use weir_plan::Plan;
use weir_sched::Settled;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{Listeners, Outcome, Probe, Row, run_observed};
use weir_units::Timestamp;

use crate::RunError;
use crate::assemble::{parameters, write_report};
use crate::folder::{CsvLine, RunFolder, csv_line};
use crate::ledger;
use crate::record::COLUMNS;
use crate::run::RunOutcome;

/// One row in so many is written with [`Rows::Sample`].
const SAMPLE: u64 = 100;

/// Which transfers are written down one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Every transfer, and the injectors' ledger.
    All,
    /// One in a hundred.
    Sample,
    /// None.
    None,
}

impl Rows {
    fn takes(self, row: &Row) -> bool {
        match self {
            Rows::All => true,
            Rows::Sample => row.id.is_multiple_of(SAMPLE),
            Rows::None => false,
        }
    }
}

/// How a plan is simulated.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Who decides.
    pub policy: Policy,
    /// Where the run folder goes.
    pub out: PathBuf,
    /// Which transfers are written down.
    pub rows: Rows,
    /// Command line that runs the same again.
    pub command: String,
}

/// Runs a plan in virtual time and writes its run folder.
///
/// The report holds nothing of this machine and of this moment: same plan, same seed, same build, same report.
///
/// # Errors
/// The run folder cannot be written.
pub fn simulate(plan: &Plan, options: &SimulationOptions) -> Result<RunOutcome, RunError> {
    simulate_observed(plan, options, &Probe::default())
}

/// The same, and shows what it works at.
///
/// # Errors
/// The run folder cannot be written.
pub fn simulate_observed(plan: &Plan, options: &SimulationOptions, probe: &Probe) -> Result<RunOutcome, RunError> {
    let folder = RunFolder::create(&options.out, &plan.name, jiff::Timestamp::now())?;
    folder.write("challenge.toml", |to| to.write_all(plan.resolved.as_bytes()))?;
    folder.log(&format!("simulates {} under the policy {}", plan.name, options.policy));
    let mut outcome = None;
    folder.write("transfers.csv", |rows| {
        let written = folder.write("ledger.csv", |ledger| {
            outcome = Some(simulate_into(plan, options, probe, rows, ledger)?);
            Ok(())
        });
        written.map(|_| ()).map_err(io::Error::other)
    })?;
    let outcome = outcome.expect("a run that was written has an outcome");
    let report = report(plan, options, outcome);
    write_report(&report, &folder)?;
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

fn simulate_into(
    plan: &Plan,
    options: &SimulationOptions,
    probe: &Probe,
    rows: &mut dyn Write,
    ledger: &mut dyn Write,
) -> io::Result<Outcome> {
    csv_line(rows, &COLUMNS)?;
    csv_line(ledger, &ledger::COLUMNS)?;
    let (mut first_error, mut ledger_error) = (Ok(()), Ok(()));
    let mut listeners = Listeners {
        rows: &mut |scene, row| {
            if first_error.is_ok() && options.rows.takes(row) {
                first_error = write_row(rows, plan, scene, row);
            }
        },
        ledger: &mut |row| {
            if ledger_error.is_ok() && options.rows == Rows::All {
                ledger_error = ledger::write_row(ledger, row, plan.workloads[row.workload].name());
            }
        },
    };
    let outcome = run_observed(plan, options.policy, &mut listeners, probe);
    first_error.and(ledger_error).map(|()| outcome)
}

fn write_row(to: &mut dyn Write, plan: &Plan, scene: &Scene, row: &Row) -> io::Result<()> {
    let ask = &scene.asks[row.ask];
    let link = &scene.links[ask.link];
    let site = |storage: usize| scene.sites[scene.storages[storage].site].name.as_str();
    let time = |at: Timestamp| Some(at.since(Timestamp(0)));
    let failure = row.failure.as_deref();
    let (state, mode) = match row.state {
        Settled::Finished => ("finished", row.mode.as_str()),
        Settled::Failed => ("failed", ""),
        Settled::Cancelled => ("cancelled", ""),
    };
    // In the order of COLUMNS.
    let mut line = CsvLine::new(to);
    line.number(row.id)?
        .text(plan.workloads[ask.workload].name())?
        .text(link.link.source.as_str())?
        .text(link.link.destination.as_str())?
        .text(site(link.source))?
        .text(site(link.destination))?
        .number(row.size)?
        .text(state)?
        .text(mode)?
        .time(time(row.wanted))?
        .time(time(row.injected))?
        .time(time(row.injected))?
        .time(Some(row.injected.since(row.wanted)))?
        .time(row.started.and_then(time))?
        .time(time(row.ended))?
        .number(row.moved)?
        .number(u64::from(row.attempts.saturating_sub(1)))?
        .text("")?
        .text("")?
        .text(failure.map_or("", |failure| failure.class.as_str()))?
        .text(failure.map_or("", |failure| failure.party.as_str()))?
        .text(failure.map_or("", |failure| failure.phase.as_str()))?
        .text(failure.map_or("", |failure| &failure.message))?
        .text(failure.map_or("", |failure| &failure.remedy))?
        .end()
}

fn report(plan: &Plan, options: &SimulationOptions, outcome: Outcome) -> Report {
    let Outcome { figures, spec, .. } = &outcome;
    let crosschecks = vec![crosscheck(&outcome)];
    let thresholds: Vec<_> = plan
        .thresholds
        .iter()
        .map(|asked| threshold::evaluate(asked, figures, spec, &crosschecks))
        .collect();
    let (mut verdict, mut verdict_reasons) = decide(&Evidence {
        thresholds: &thresholds,
        crosschecks: &crosschecks,
        audit: None,
        interrupted: None,
        finished: figures.totals.finished,
        // Workloads that begin one after the other change the total on purpose.
        parts: &[],
    });
    let violations = outcome.checks.violations();
    if !violations.is_empty() {
        verdict = Verdict::Fail;
        verdict_reasons.insert(0, format!("the simulated world broke its own rules: {}", violations[0]));
    }
    let window = |start: Duration, end: Duration| Window {
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
    };
    let windows = spec.windows;
    let mut parameters = parameters(plan);
    parameters.insert("sim.policy".to_owned(), options.policy.to_string());
    if let Some(start) = plan.sim.start {
        parameters.insert("sim.start".to_owned(), start.rfc3339());
    }
    parameters.insert("sim.tick".to_owned(), weir_units::duration::format(plan.sim.tick));
    parameters.extend(outcome.scene.drawn.clone());
    Report {
        schema: SCHEMA.to_owned(),
        verdict,
        verdict_reasons,
        advice: None,
        challenge: plan.name.clone(),
        description: plan.description.clone(),
        seed: plan.seed,
        scale: plan.scale,
        interrupted: false,
        command: options.command.clone(),
        started_at: moment(plan.sim.start, Duration::ZERO),
        ended_at: moment(plan.sim.start, outcome.ended.since(Timestamp(0))),
        weir: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Some(env!("WEIR_COMMIT"))
                .filter(|commit| !commit.is_empty())
                .map(str::to_owned),
        },
        host: Host {
            name: "simulated world".to_owned(),
            cores: 0,
            memory_bytes: 0,
            kernel: "virtual time".to_owned(),
            scratch_filesystem: "none".to_owned(),
            cpu_busy_ratio: None,
        },
        windows: Windows {
            ramp: window(Duration::ZERO, windows.ramp_end),
            hold: window(windows.ramp_end, windows.hold_end),
            drain: window(windows.hold_end, windows.drain_end),
        },
        events: events(&outcome),
        stability: outcome.figures.parts.report(&outcome.spec.sites),
        totals: outcome.figures.totals,
        links: outcome.figures.links,
        sites: outcome.figures.sites,
        workloads: outcome.figures.workloads,
        thresholds: thresholds.into_iter().map(|evaluated| evaluated.report).collect(),
        crosschecks,
        audit: None,
        errors: outcome.figures.errors,
        series: outcome.figures.series,
        parameters,
    }
}

/// A moment in the world's own calendar; where it has none, the time since the start: `T+1d 12h`.
fn moment(start: Option<Timestamp>, at: Duration) -> String {
    let millis = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
    match start {
        Some(start) => (start + at).rfc3339(),
        None => format!("T+{}", weir_units::duration::format(millis)),
    }
}

/// What attempts say they moved, beside what the storage elements of the world counted.
fn crosscheck(outcome: &Outcome) -> CrossCheck {
    let sum = |bytes: &[u64]| bytes.iter().sum::<u64>();
    let counts = [
        outcome.checks.by_attempts(),
        sum(outcome.checks.received()),
        sum(outcome.checks.sent()),
    ];
    let (most, least) = (counts.iter().max().copied(), counts.iter().min().copied());
    let difference = most.zip(least).filter(|(most, _)| *most > 0);
    let difference_ratio = difference.map(|(most, least)| (most - least) as f64 / most as f64);
    CrossCheck {
        subject: "all".to_owned(),
        quantity: "bytes received".to_owned(),
        transfer_service: Some(counts[0]),
        receiving_storage: Some(counts[1]),
        sending_storage: Some(counts[2]),
        difference_ratio,
        pass: difference_ratio.is_none_or(|ratio| ratio == 0.0),
        note: Some("counted within the simulated world; failed attempts included".to_owned()),
    }
}

fn events(outcome: &Outcome) -> Vec<Event> {
    let end = outcome.spec.windows.hold_end.as_secs_f64();
    let given_up = (outcome.given_up > 0).then(|| Event {
        t_s: end,
        text: format!(
            "{} files were wanted so long before they could be injected that they were given up",
            outcome.given_up
        ),
    });
    let violations = outcome.checks.violations().iter().map(|text| Event {
        t_s: end,
        text: text.clone(),
    });
    given_up.into_iter().chain(violations).collect()
}
