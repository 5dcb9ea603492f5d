//! Runs a plan in the simulated world and writes the same run folder as a real run.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use weir_measure::Ending;
use weir_measure::report::{Build, CrossCheck, Host, Report};
use weir_plan::Plan;
use weir_sched::Settled;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{Listeners, Outcome, Probe, Row, run_observed};
use weir_units::Timestamp;

use crate::RunError;
use crate::assemble::write_report;
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

fn report(plan: &Plan, options: &SimulationOptions, mut outcome: Outcome) -> Report {
    let mut parameters = std::mem::take(&mut outcome.scene.drawn);
    parameters.insert("sim.policy".to_owned(), options.policy.to_string());
    if let Some(start) = plan.sim.start {
        parameters.insert("sim.start".to_owned(), start.rfc3339());
    }
    parameters.insert("sim.tick".to_owned(), weir_units::duration::format(plan.sim.tick));
    let ending = Ending {
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
        interrupted: None,
        crosschecks: vec![crosscheck(&outcome)],
        audit: None,
        deleted_files: 0,
        parameters,
        violations: outcome.checks.violations().to_vec(),
        carried_here: false,
    };
    outcome.measured.report(ending)
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
