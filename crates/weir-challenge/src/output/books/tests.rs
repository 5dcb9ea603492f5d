//! Books of a long run, fed by the simulator.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::process::Command;

use weir_measure::samples::Stage;
use weir_measure::{Measurement, Standing};
use weir_plan::{Challenge, Overrides, Plan};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Row, run};
use weir_units::Timestamp;

use super::*;
use crate::execute::engine::tests::door;
use crate::execute::record::{Wanted, WantedFile};
use crate::inject::injection::JobId;
use crate::prepare::layout::lay_out;

/// Twelve days, as long as the challenge of 2024. Most transfers of one of its two links fail.
const LONG: &str = "name = \"long\"\n[phases]\nramp = \"1 h\"\nhold = \"287 h\"\ndrain = \"10 m\"\n[grid]\nname = \"g\"\n\
    [[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[workload]]\nkind = \"rates\"\nfile_size_min = \"10 GB\"\nfile_size_max = \"10 GB\"\n\
    cycle = \"10 m\"\nrates = [{ source = \"A\", destination = \"B\", rate = \"8 Gb/s\" }, { source = \"B\", destination = \"A\", rate = \"8 Gb/s\" }]\n\
    [sim]\ntick = \"1 s\"\n[[sim.link]]\nlink = \"A->B\"\nfailures = { network = 0.9 }\n";

/// Set for the process that runs alone.
const ALONE: &str = "WEIR_TEST_ALONE";

/// Memory of this process that is its own, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Transfers of a link.
fn wanted(workload: usize, link: usize) -> Wanted {
    Wanted {
        workload,
        link,
        activity: String::new(),
        mode: None,
        measured: false,
        by_rule: false,
        may_keep: 0,
        is_loop: false,
        lifetime: Duration::ZERO,
        files: Vec::new(),
    }
}

fn plan() -> Plan {
    let challenge = Challenge::parse(LONG, "long.toml".as_ref()).unwrap_or_else(|problems| panic!("{}", problems[0]));
    challenge
        .resolve(&Overrides::default())
        .unwrap_or_else(|problems| panic!("{}", problems[0]))
}

/// Feeds everything that the simulator sees in twelve days; memory at the end of each.
fn feed() -> Vec<u64> {
    let plan = plan();
    let doors: Arc<Vec<StorageDoor>> = Arc::new(["A", "B"].map(door).into());
    let directory = tempfile::tempdir().unwrap();
    let folder = Arc::new(RunFolder::create(directory.path(), "long", jiff::Timestamp::UNIX_EPOCH).unwrap());
    let spec = Spec::of(&plan);
    let layout = lay_out(&plan, &spec, &doors, "run");
    let measurement = SharedMeasurement::new(Measurement::of(&plan));
    let subject = Subject {
        spec,
        ends: &layout.ends,
        doors: &doors,
        measurement: &measurement,
    };
    let books = std::cell::RefCell::new(Books::open(&folder, subject).unwrap());
    let (mut second, mut days, mut failed) = (0, Vec::new(), 0u64);
    let mut rows = |scene: &weir_sim::scene::Scene, row: &Row| {
        let mut books = books.borrow_mut();
        let since = |at: Timestamp| at.since(Timestamp(0));
        let transfer = row.transfer(scene, None);
        let file = WantedFile {
            id: row.id,
            source: 0,
            is_missing: false,
            wanted: since(row.wanted),
        };
        let wanted = wanted(transfer.workload, transfer.link);
        let path = format!("/weir/test/0/A/{}", row.id);
        let mut record = Record::new(&file, &wanted, row.size, path, since(row.injected));
        record.accepted(&JobId::Job(format!("job-{}", row.id)), since(row.injected));
        record.ended = since(row.ended);
        record.started = row.started.map(since);
        record.state = Some(transfer.state);
        record.bytes_moved = row.moved;
        record.failure.clone_from(&transfer.failure);
        failed += u64::from(transfer.state == State::Failed);
        books.ended(&record, None);
        // A run takes a sample each second in between.
        let now = since(row.ended).as_secs();
        while second < now {
            second += 1;
            let at = Duration::from_secs(second);
            let standing = Standing::default();
            books.measurement.with(|measurement| measurement.gauge(at, 3, 4));
            books.sample(&Sample {
                at,
                stage: Stage::Injecting,
                standing,
            });
            books.write();
            if second.is_multiple_of(86_400) {
                days.push(resident());
            }
        }
    };
    let sim = SimPlan::of(plan.clone()).unwrap_or_else(|problems| panic!("{}", problems[0]));
    let mut ledger = |row: &LedgerRow| books.borrow_mut().injected(row);
    let outcome = run(
        &sim,
        Policy::Weir,
        &mut Listeners {
            rows: &mut rows,
            rules: &mut |_| {},
            ledger: &mut ledger,
        },
    );
    assert!(
        outcome.injected > 100_000 && failed > 20_000,
        "{} {failed}",
        outcome.injected
    );
    assert_eq!(books.into_inner().close(), Vec::<String>::new());
    let written = std::fs::read_to_string(folder.path().join(rows::FILE)).unwrap();
    assert!(written.lines().count() as u64 >= outcome.injected, "rows are missing");
    days
}

#[test]
fn a_foreign_service_tells_queue_and_attempt_alone() {
    // Wrong: a report about an FTS3 has no time of its transfers, or names what held them although nobody told.
    let wanted = wanted(0, 3);
    let file = WantedFile {
        id: 1,
        source: 0,
        is_missing: false,
        wanted: Duration::ZERO,
    };
    let at = Duration::from_secs;
    let mut record = Record::new(&file, &wanted, 5, String::new(), at(1));
    record.accepted(&JobId::Job("job".to_owned()), at(2));
    record.started = Some(at(6));
    record.ended = at(9);
    let told = |record: &Record| -> Vec<_> {
        let rows = as_seen_outside(record, &record.transfer(None));
        rows.into_iter()
            .map(|row| (row.wait, row.place, row.span, row.time))
            .collect()
    };
    let expected = [
        (Some(Wait::Slots), None, (at(2), at(6)), at(4)),
        (Some(Wait::Data), None, (at(6), at(9)), at(3)),
    ];
    assert_eq!(told(&record), expected);
    // FTS3 cuts its times to seconds: a transfer may have begun before it was taken.
    record.started = Some(at(1));
    assert_eq!(told(&record)[0].3, Duration::ZERO);
    record.started = None;
    let times: Vec<_> = told(&record).into_iter().map(|(.., time)| time).collect();
    assert_eq!(times, [at(7), Duration::ZERO]);
}

/// Wrong: the injector of a challenge of twelve days is killed for its memory on the last of them. The memory of a
/// whole process is measured, so the test runs in one of its own.
#[test]
fn twelve_days_need_no_more_memory_than_two() {
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::twelve_days_need_no_more_memory_than_two");
        alone.args(["--exact", &name, "--nocapture"]);
        let ended = alone.env(ALONE, "yes").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert!(
            String::from_utf8_lossy(&ended.stdout).contains("1 passed"),
            "it did not run"
        );
        return;
    }
    let days = feed();
    let mib: Vec<u64> = days.iter().map(|bytes| bytes >> 20).collect();
    assert!(days.len() >= 11, "{mib:?}");
    // Nine days more, each with 17,000 transfers and 86,400 samples. A path for each transfer that failed would be 3 MiB.
    assert!(days[10] < days[1] + (1 << 20), "{mib:?}");
}

#[test]
fn the_time_with_the_catalogue_is_before_the_job_and_after_the_copy() {
    // Wrong: the wait for a catalogue is not seen, or that of a copy is counted for it.
    let second = Duration::from_secs(1);
    let transfer = |stages| Transfer {
        workload: 0,
        link: 3,
        cell: None,
        size: 1,
        state: State::Finished,
        mode: None,
        injected: Duration::ZERO,
        late: Duration::ZERO,
        started: Some(9 * second),
        ended: 20 * second,
        first_byte: None,
        waits: None,
        bytes_moved: 1,
        counted: None,
        retries: 0,
        stages,
        failure: None,
    };
    let told = |stages| {
        let rows = in_catalogue(&transfer(stages));
        let row = |row: &SignalRow| (row.link, row.span.0.as_secs(), row.span.1.as_secs(), row.time.as_secs());
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let stages = weir_measure::Stages {
        asked: second,
        requested: Some(3 * second),
        submitted: Some(7 * second),
        locked: Some(22 * second),
    };
    assert_eq!(told(Some(stages)), [(3, 1, 7, 6), (3, 20, 22, 2)]);
    // Clocks of two services that differ: never a negative wait.
    let skewed = weir_measure::Stages {
        submitted: Some(Duration::ZERO),
        locked: None,
        ..stages
    };
    assert_eq!(told(Some(skewed)), [(3, 1, 1, 0), (3, 20, 20, 0)]);
    assert_eq!(told(None), []);
}
