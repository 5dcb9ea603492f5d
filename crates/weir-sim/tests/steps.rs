//! Workloads of steps in virtual time: every cell is tried, a hanging one is given up, the hold lasts as long as the steps.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use weir_measure::report::WorkloadKind;
use weir_plan::{Challenge, Overrides};
use weir_sched::Settled;
use weir_sim::SimPlan;
use weir_sim::optimum::optimum;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{Listeners, Outcome, Row, run};
use weir_units::BitRate;

/// Three storage elements and one workload.
fn plan(workloads: &str) -> SimPlan {
    let text = format!(
        "name = \"steps\"\n[grid]\nname = \"g\"\n[grid.transfer]\nmax_active_per_link = 100\nmax_active_per_rse_in = 100\n\
         max_active_per_rse_out = 100\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[grid.rse]]\nname = \"C\"\n{workloads}"
    );
    let challenge = Challenge::parse(&text, "steps.toml".as_ref()).unwrap();
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

fn simulate(plan: &SimPlan, policy: Policy) -> (Outcome, Vec<Row>) {
    let mut rows = Vec::new();
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(row.clone()),
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, policy, &mut listeners);
    assert!(
        outcome.checks.violations().is_empty(),
        "{policy}: {:?}",
        outcome.checks.violations()
    );
    (outcome, rows)
}

const MATRIX: &str = "[[workload]]\nkind = \"matrix\"\nsizes = [\"1 MB\", \"100 MB\"]\n";

/// A cell would not be tried, would run beside another one, or in another mode than it says.
#[test]
fn a_matrix_tries_every_cell_alone() {
    let plan = plan(MATRIX);
    for policy in Policy::ALL {
        let (outcome, rows) = simulate(&plan, policy);
        let WorkloadKind::Matrix { cells } = &outcome.measured.figures.workloads[0].kind else {
            panic!()
        };
        assert_eq!(cells.len(), 6 * 3 * 2);
        assert!(
            cells.iter().all(|cell| cell.ok && cell.rate_bps.is_some()),
            "{policy}: {cells:?}"
        );
        for pair in rows.windows(2) {
            assert!(pair[1].started.unwrap() >= pair[0].ended, "{policy}: {pair:?}");
        }
        let modes = &outcome.measured.figures.links[0].modes;
        assert_eq!(modes.values().copied().collect::<Vec<_>>(), [2, 2, 2], "{modes:?}");
        let windows = outcome.measured.spec.windows;
        let last = rows.last().unwrap().ended.since(weir_units::Timestamp(0));
        assert!(
            windows.hold_end >= last && windows.hold_end < last + Duration::from_secs(1),
            "{windows:?} {last:?}"
        );
        assert_eq!(
            outcome.measured.figures.totals.hold_verified_bytes,
            outcome.measured.figures.totals.verified_bytes
        );
    }
}

/// A streamed copy would cost no more than another, or its host would carry more than it can.
#[test]
fn streamed_copies_go_through_the_service() {
    let plan = plan(&format!("{MATRIX}[sim]\nstreamed_rate = \"200 Mb/s\"\n"));
    let (outcome, _) = simulate(&plan, Policy::Weir);
    let WorkloadKind::Matrix { cells } = &outcome.measured.figures.workloads[0].kind else {
        panic!()
    };
    for cell in cells.iter().filter(|cell| cell.size_bytes == 100_000_000) {
        let rate = cell.rate_bps.unwrap();
        assert_eq!(rate < BitRate(200_000_000), cell.mode == "streamed", "{cell:?}");
    }
}

/// A transfer that never ends would hold up the whole matrix, or count as withdrawn instead of failed.
#[test]
fn a_step_that_takes_too_long_fails() {
    let hanging = "[sim]\nstall_timeout = \"1 h\"\n[[sim.link]]\nlink = \"A->B\"\nstalls = 1\n";
    let plan = plan(&format!("{MATRIX}timeout = \"2 m\"\n{hanging}"));
    for policy in Policy::ALL {
        let (outcome, _) = simulate(&plan, policy);
        let WorkloadKind::Matrix { cells } = &outcome.measured.figures.workloads[0].kind else {
            panic!()
        };
        let (bad, good): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| !cell.ok);
        assert_eq!((bad.len(), good.len()), (6, 30), "{policy}");
        for cell in bad {
            assert_eq!(
                (cell.source.as_str(), cell.error_class.as_deref()),
                ("A", Some("timeout")),
                "{cell:?}"
            );
        }
        let totals = &outcome.measured.figures.totals;
        assert_eq!((totals.failed, totals.cancelled), (6, 0), "{policy}");
    }
}

const RAMP: &str = "[[workload]]\nkind = \"ramp\"\nlinks = [\"A->B\"]\nparallel = [1, 10, 40]\nrepeat = 4\nfile_size = \"5 GB\"\ntimeout = \"4 h\"\n";

/// The knee of a storage would not show, or more transfers would run than a step says.
#[test]
fn a_ramp_shows_the_knee() {
    let knee = "[[sim.rse]]\nrse = \"B\"\nstream_rate = \"500 Mb/s\"\nmax_active_in = 100\n\
                write_curve = [{ active = 10, rate = \"4 Gb/s\" }, { active = 40, rate = \"2 Gb/s\" }]\n\
                [[sim.link]]\nlink = \"A->B\"\nmax_active = 100\n";
    let plan = plan(&format!("{RAMP}[sim]\nfixed_active = 100\n{knee}"));
    let (outcome, rows) = simulate(&plan, Policy::Fixed);
    let WorkloadKind::Ramp { steps } = &outcome.measured.figures.workloads[0].kind else {
        panic!()
    };
    let rates: Vec<f64> = steps
        .iter()
        .map(|step| step.achieved_bps.unwrap().as_f64() / 1e9)
        .collect();
    assert!(
        (0.48..=0.5).contains(&rates[0]) && (3.6..=4.0).contains(&rates[1]) && (1.8..=2.3).contains(&rates[2]),
        "{rates:?}"
    );
    let at_once = |row: &Row| {
        let start = row.started.unwrap();
        rows.iter()
            .filter(|other| other.started.unwrap() <= start && other.ended > start)
            .count()
    };
    assert_eq!(rows.iter().map(at_once).max(), Some(40));
}

/// A run would be faster than anything can be, or the bound far from what is possible.
#[test]
fn the_optimum_of_steps_is_close_above() {
    for (name, workloads) in [
        ("matrix", MATRIX.to_owned()),
        ("ramp", RAMP.to_owned()),
        ("two at once", format!("{MATRIX}at_once = 6\nrepeat = 3\n{RAMP}")),
        ("full", format!("{RAMP}[[sim.rse]]\nrse = \"B\"\nwrite = \"3 Gb/s\"\n")),
    ] {
        // Else every step waits for the scheduler's next cycle.
        let plan = plan(&format!(
            "{workloads}[sim]\nfixed_active = 100\n[sim.fts]\nscheduler_interval = \"100 ms\"\n"
        ));
        let best = optimum(&plan, &Scene::new(&plan)).unwrap().total.as_f64();
        let (outcome, _) = simulate(&plan, Policy::Fixed);
        let achieved = outcome.measured.figures.totals.achieved_bps.unwrap().as_f64();
        assert!(
            (0.8..=1.0001).contains(&(achieved / best)),
            "{name}: {achieved} of {best}"
        );
    }
}

/// Steps beside rates would change what the rates are measured by, or stop with them.
#[test]
fn steps_run_beside_rates() {
    let rates = "[[workload]]\nkind = \"rates\"\nfile_size_min = \"100 MB\"\nfile_size_max = \"100 MB\"\n\
                 rates = [{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" }]\n[phases]\nramp = \"20 s\"\nhold = \"60 s\"\n";
    let plan = plan(&format!("{MATRIX}repeat = 4\n{rates}"));
    let (outcome, rows) = simulate(&plan, Policy::Weir);
    let WorkloadKind::Matrix { cells } = &outcome.measured.figures.workloads[0].kind else {
        panic!()
    };
    assert!(cells.iter().all(|cell| cell.ok && cell.transfers == 4));
    let windows = outcome.measured.spec.windows;
    assert_eq!((windows.ramp_end.as_secs(), windows.hold_end.as_secs()), (20, 80));
    assert!(
        outcome.ended.as_secs_f64() > 120.0,
        "the matrix lasts longer than the hold"
    );
    let matrix = |row: &&Row| outcome.scene.asks[row.ask].workload == 0;
    assert!(
        rows.iter()
            .filter(matrix)
            .all(|row| row.started.unwrap().as_secs_f64() >= 20.0)
    );
    let ratio = outcome.measured.figures.totals.ratio.unwrap();
    assert!((0.95..=1.05).contains(&ratio), "{ratio}");
    assert!(rows.iter().all(|row| row.state == Settled::Finished));
}

/// Two runs of one seed would differ.
#[test]
fn same_seed_same_steps() {
    let plan = plan(&format!(
        "{MATRIX}{RAMP}[[sim.link]]\nlink = \"*->*\"\nfailures = {{ network = 0.1 }}\n"
    ));
    let [(one, rows), (other, again)] = [Policy::Weir; 2].map(|policy| simulate(&plan, policy));
    assert_eq!(rows, again);
    assert_eq!(one.measured.figures.series, other.measured.figures.series);
    assert_eq!(one.measured.figures.workloads, other.measured.figures.workloads);
}
