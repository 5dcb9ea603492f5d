//! Whole runs, short ones, against a scripted service.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;

use weir_measure::report::{Build, Host, Report, Verdict};
use weir_measure::{Ending, Measurement, Spec};
use weir_plan::{Challenge, Overrides, Plan};

use super::*;
use crate::execute::engine::EngineParts;
use crate::execute::engine::tests::{Fate, Scripted, door};
use crate::inject::injection::Phase;
use crate::output::books::Subject;
use crate::prepare::layout::{Layout, lay_out};
use crate::verify::audit::Keep;

/// Some twenty files in a second, each in a job of its own or with a neighbour.
const CHALLENGE: &str = r#"
name = "short"
[grid]
name = "g"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[phases]
ramp = "0 s"
hold = "1 s"
drain = "1 s"
[[workload]]
kind = "rates"
rates = [{ source = "A", destination = "B", rate = "16 Mb/s" }]
file_size_min = "100 kB"
file_size_max = "100 kB"
cycle = "50 ms"
[[threshold]]
total = true
metric = "failed_ratio"
max = 0.0
"#;

fn plan() -> Plan {
    let challenge = Challenge::parse(CHALLENGE, "short.toml".as_ref()).unwrap();
    challenge.resolve(&Overrides::default()).unwrap()
}

/// Runs the challenge; the report of it.
async fn report(service: Scripted) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let folder = Arc::new(RunFolder::create(directory.path(), "short", jiff::Timestamp::UNIX_EPOCH).unwrap());
    let plan = plan();
    let mut doors = [door("A"), door("B")];
    doors.iter_mut().for_each(|door| door.quota = None);
    let doors = Arc::new(doors.to_vec());
    let spec = Spec::of(&plan);
    let Layout {
        ends, sources, rated, ..
    } = lay_out(&plan, &spec, &doors, "run");
    let sources = Arc::new(sources);
    let measurement = SharedMeasurement::new(Measurement::of(&plan));
    let subject = Subject {
        spec,
        ends: &ends,
        doors: &doors,
        measurement: &measurement,
    };
    let mut books = Books::open(&folder, subject).unwrap();
    let (clock, no_more) = (Clock::start(), CancellationToken::new());
    let ground = EngineParts {
        doors: doors.clone(),
        links: ends.clone(),
        workloads: 1,
        sources,
        folder: folder.clone(),
        made: books.made().clone(),
        clock,
        stop: no_more.clone(),
        keep: Keep::percent(1, None),
    };
    let mut engine = Engine::new(Arc::new(service), ground);
    let mut rates = RatesDriver::new(&plan, &rated);
    let drive = Drive {
        engine: &mut engine,
        rates: rates.as_mut(),
        steps: &mut [],
        phases: plan.phases,
        clock,
        measurement: &measurement,
        books: &mut books,
        folder: &folder,
        stop: &Stop::default(),
        no_more: &no_more,
        stage: Stage::Injecting,
        signals: None,
        sampled: Duration::ZERO,
    };
    let driven = drive.run().await;
    assert_eq!(books.close(), Vec::<String>::new());
    let text = String::new;
    let host = Host {
        name: text(),
        cores: 1,
        memory_bytes: 0,
        kernel: text(),
        scratch_filesystem: text(),
        cpu_busy_ratio: None,
        disk_stalled_ratio: None,
        memory_stalled_ratio: None,
    };
    measurement.into_inner().unwrap().finish().report(Ending {
        command: text(),
        started_at: text(),
        ended_at: text(),
        weir: Build {
            version: text(),
            commit: None,
        },
        host,
        interrupted: driven.interrupted,
        incomplete: None,
        crosschecks: Vec::new(),
        audit: None,
        deleted_files: 0,
        deletions: None,
        parameters: BTreeMap::new(),
        acted: std::collections::BTreeMap::new(),
        violations: Vec::new(),
    })
}

#[tokio::test]
async fn a_run_of_which_all_ends_well_passes() {
    // Wrong: the next tests fail for another reason than theirs.
    let report = report(Scripted::with([])).await;
    assert_eq!(report.verdict, Verdict::Pass, "{:?}", report.verdict_reasons);
    assert!(report.totals.finished >= 10, "{:?}", report.totals);
}

#[tokio::test]
async fn a_transfer_that_hangs_fails_the_run() {
    // Wrong: a service that never ends some transfers passes with an efficiency of 100 %.
    let report = report(Scripted::with([(3, Fate::Stays(Phase::Active))])).await;
    assert_eq!(report.verdict, Verdict::Fail, "{:?}", report.verdict_reasons);
    assert_eq!(
        (report.errors[0].class.as_str(), report.totals.cancelled),
        ("unfinished", 0)
    );
    assert!(report.totals.efficiency.unwrap() < 1.0);
}

#[tokio::test]
async fn a_job_that_is_lost_fails_the_run() {
    // Wrong: a transfer that the service acknowledged and forgot is in no figure.
    let report = report(Scripted::with([(3, Fate::Lost)])).await;
    assert_eq!(report.verdict, Verdict::Fail, "{:?}", report.verdict_reasons);
    assert_eq!(
        (report.errors[0].class.as_str(), report.totals.cancelled),
        ("forgotten", 0)
    );
}
