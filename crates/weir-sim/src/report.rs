//! The output of a simulated run: rows of its transfers and injectors while it goes on, and the report at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use weir_measure::report::{Build, CrossCheck, Host, Report};
use weir_measure::{Ending, Spec, chain, ledger, rows};
use weir_units::Timestamp;

use crate::policies::Policy;
use crate::row::Row;
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::world::{Listeners, Outcome, Probe, run_observed};

/// One row in so many is written with [`Rows::Sample`].
const SAMPLE: u64 = 100;

/// The selection of transfers that get a row each.
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

/// Where the rows of a run go.
pub struct RunOutputs<'w> {
    /// The contents of `transfers.csv`: rows in the order of ends.
    pub transfers: &'w mut dyn Write,
    /// The contents of `rules.csv`: every rule, unless no rows are written.
    pub rules: &'w mut dyn Write,
    /// The contents of `ledger.csv`.
    pub ledger: &'w mut dyn Write,
}

/// Runs a plan in virtual time, writes its rows, and publishes its progress to `probe`.
///
/// # Errors
/// The first failure of a writer.
pub fn run_into(
    plan: &SimPlan,
    policy: Policy,
    which: Rows,
    files: RunOutputs<'_>,
    probe: &Probe,
) -> io::Result<Outcome> {
    let RunOutputs {
        transfers,
        rules,
        ledger: cycles,
    } = files;
    rows::begin(transfers)?;
    chain::begin(rules)?;
    ledger::begin(cycles)?;
    let spec = Spec::of(plan);
    let (mut first_error, mut rules_error, mut ledger_error) = (Ok(()), Ok(()), Ok(()));
    let mut listeners = Listeners {
        rows: &mut |scene, row| {
            if first_error.is_ok() && which.takes(row) {
                first_error = write_row(transfers, &spec, scene, row);
            }
        },
        rules: &mut |row| {
            // Rules are few beside their files.
            if rules_error.is_ok() && which != Rows::None {
                rules_error = chain::write(rules, &spec, row);
            }
        },
        ledger: &mut |row| {
            if ledger_error.is_ok() && which == Rows::All {
                ledger_error = ledger::write(cycles, &spec, row);
            }
        },
    };
    let outcome = run_observed(plan, policy, &mut listeners, probe);
    first_error.and(rules_error).and(ledger_error).map(|()| outcome)
}

fn write_row(to: &mut dyn Write, spec: &Spec, scene: &Scene, row: &Row) -> io::Result<()> {
    let since = |at: Timestamp| at.since(Timestamp(0));
    let more = rows::Row {
        id: row.id,
        wanted: since(row.wanted),
        injected: since(row.injected),
        accepted: Some(since(row.injected)),
        job: "",
        rule: &row.rule.map_or_else(String::new, |rule| rule.to_string()),
        path: "",
    };
    rows::write(to, spec, &more, &row.transfer(scene, None))
}

/// Returns the report of a run of `plan` under `policy`, which `command` runs again.
///
/// It holds nothing of this machine and of this moment: same plan, same seed, same build, same report.
pub fn report(plan: &SimPlan, policy: Policy, mut outcome: Outcome, command: &str, weir: Build) -> Report {
    let mut parameters = std::mem::take(&mut outcome.scene.drawn);
    parameters.insert("sim.policy".to_owned(), policy.to_string());
    if let Some(start) = plan.sim.start {
        parameters.insert("sim.start".to_owned(), start.rfc3339());
    }
    if plan.makes_rules() {
        parameters.insert("sim.catalog".to_owned(), plan.sim.catalog.to_string());
    }
    parameters.insert("sim.tick".to_owned(), weir_units::duration::format(plan.sim.tick));
    let ending = Ending {
        command: command.to_owned(),
        started_at: moment(plan.sim.start, Duration::ZERO),
        ended_at: moment(plan.sim.start, outcome.ended.since(Timestamp(0))),
        weir,
        host: Host {
            name: "simulated world".to_owned(),
            cores: 0,
            memory_bytes: 0,
            kernel: "virtual time".to_owned(),
            scratch_filesystem: "none".to_owned(),
            cpu_busy_ratio: None,
            disk_stalled_ratio: None,
            memory_stalled_ratio: None,
        },
        interrupted: None,
        incomplete: None,
        crosschecks: std::iter::once(crosscheck(&outcome))
            .chain(outcome.crosschecks)
            .collect(),
        audit: outcome.audit,
        deleted_files: 0,
        deletions: outcome.deletions.take(),
        parameters,
        acted: BTreeMap::new(),
        violations: outcome.checks.violations().to_vec(),
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

/// Compares the bytes that attempts reported with those counted by the storage elements of the world.
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
        catalogue: None,
        difference_ratio,
        explained_bytes: 0,
        unexplained_ratio: difference_ratio,
        sockets: None,
        sockets_difference_ratio: None,
        sockets_tolerance_ratio: None,
        pass: difference_ratio.map(|ratio| ratio == 0.0),
        lapsed: false,
        note: Some("counted within the simulated world; failed attempts included".to_owned()),
    }
}
