//! A run is measured the same from its observations and from the files that it wrote of them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use weir_measure::gauges::{self, GaugeRow};
use weir_measure::replay::{Recorded, Replayed, replay};
use weir_measure::report::{Build, Event, Host};
use weir_measure::samples::{self, Sample, Stage};
use weir_measure::signals::{self, SignalRow};
use weir_measure::{Ending, Failure, Measurement, Report, Spec, Standing, State, Transfer, events, rows};
use weir_plan::{Challenge, Overrides, Plan};
use weir_world::{ErrorClass, Gauge, Party, Phase, Place, Wait, Waits};

const CHALLENGE: &str = r#"
name = "two"
[phases]
ramp = "2 s"
hold = "10 s"
drain = "5 s"
[grid]
name = "two"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[workload]]
kind = "rates"
rates = [
    { source = "A", destination = "B", rate = "40 Mb/s" },
    { source = "B", destination = "A", rate = "20 Mb/s" },
]
[[workload]]
kind = "matrix"
name = "cells"
links = ["A -> B"]
modes = ["pull"]
sizes = ["1 MB"]
"#;

fn plan() -> Plan {
    let challenge = Challenge::parse(CHALLENGE, "two.toml".as_ref()).unwrap();
    challenge.resolve(&Overrides::default()).unwrap()
}

/// Some transfers of every kind, in the order in which they end: at whole microseconds, as files have them.
fn transfers(until_ms: u64) -> Vec<Transfer> {
    let one = |at: u64| {
        let ended = Duration::from_millis(at);
        let state = State::ALL[usize::from(at.is_multiple_of(7)) + usize::from(at.is_multiple_of(21))];
        let failure = Failure {
            class: ErrorClass::ALL[at as usize % ErrorClass::ALL.len()],
            message: format!("it said: \"no, {at}\"\nand more"),
            party: Some(Party::Source).filter(|_| at.is_multiple_of(2)),
            phase: Some(Phase::ALL[at as usize % Phase::ALL.len()]),
            remedy: Some("try, try again".to_owned()).filter(|_| at.is_multiple_of(3)),
        };
        let in_matrix = at.is_multiple_of(10);
        Transfer {
            workload: usize::from(in_matrix),
            link: if in_matrix { 0 } else { at as usize % 2 },
            cell: Some(0).filter(|_| in_matrix),
            size: 1_000_000 + at,
            state,
            mode: Some("pull".to_owned()).filter(|_| state == State::Finished),
            injected: Duration::ZERO,
            late: Duration::from_micros(at * 13),
            started: Some(ended.saturating_sub(Duration::from_millis(40))).filter(|_| !at.is_multiple_of(5)),
            ended,
            bytes_moved: at * 100,
            counted: Some(at).filter(|_| at.is_multiple_of(2)),
            first_byte: Some(Duration::from_millis(at)).filter(|_| at.is_multiple_of(4)),
            waits: Waits::parse(&format!("token={at} disk=77"))
                .filter(|_| at.is_multiple_of(5))
                .map(Box::new),
            retries: at as u32 % 3,
            stages: None,
            failure: Some(failure).filter(|_| state != State::Finished),
        }
    };
    (1..=until_ms / 37).map(|number| one(number * 37)).collect()
}

/// The files of a run, and what it measured of itself.
#[derive(Default)]
struct Files {
    transfers: Vec<u8>,
    series: Vec<u8>,
    events: Vec<u8>,
    signals: Vec<u8>,
    gauges: Vec<u8>,
}

impl Files {
    fn replay(&self, plan: &Plan) -> Replayed {
        let recorded = Recorded {
            transfers: &self.transfers[..],
            series: &self.series[..],
            events: &self.events[..],
            rules: None::<&[u8]>,
            signals: Some(&self.signals[..]),
            gauges: Some(&self.gauges[..]),
        };
        replay(plan, recorded).unwrap()
    }
}

fn run(plan: &Plan) -> (Measurement, Files) {
    let (mut measurement, mut files) = (Measurement::of(plan), Files::default());
    let spec = Spec::of(plan);
    rows::begin(&mut files.transfers).unwrap();
    samples::begin(&mut files.series).unwrap();
    events::begin(&mut files.events).unwrap();
    signals::rows::begin(&mut files.signals).unwrap();
    gauges::rows::begin(&mut files.gauges).unwrap();
    for at in 0..40 {
        let row = SignalRow {
            span: (Duration::from_millis(at * 350), Duration::from_millis(at * 350 + 350)),
            link: at as usize % 2,
            wait: match at {
                0 | 1 => Some(Wait::Verify),
                3 | 9 => None,
                _ => Some(Wait::Disk),
            },
            failed: (at == 7).then_some((ErrorClass::Token, Party::Issuer, 12)),
            place: Place::parse("rse-in:B, the second").filter(|_| at.is_multiple_of(3)),
            time: Duration::from_micros(if at < 2 { 0 } else { at * 1234 }),
        };
        signals::rows::write(&mut files.signals, &spec, &row).unwrap();
        measurement.signals().add_row(&row);
        let row = GaugeRow {
            span: row.span,
            gauge: Gauge::ALL[at as usize % 3],
            place: Place::parse("server:node1/vda").unwrap(),
            value: at as f64 / 7.0,
        };
        gauges::rows::write(&mut files.gauges, &row).unwrap();
        measurement.gauges().add(&row);
    }
    let mut sample = |measurement: &mut Measurement, at: Duration, stage: Stage| {
        let standing = Standing {
            active: 3,
            queued: at.as_secs(),
            injected_bytes: 5,
        };
        measurement.gauge(at, standing.active, standing.queued);
        samples::write(&mut files.series, &Sample { at, stage, standing }).unwrap();
    };
    for second in 0..12 {
        sample(&mut measurement, Duration::from_secs(second), Stage::Injecting);
    }
    let (closed, over) = (Duration::from_millis(12_001), Duration::from_millis(14_500));
    sample(&mut measurement, closed, Stage::Draining);
    sample(&mut measurement, over, Stage::Over);
    let mut is_closed = false;
    for (id, transfer) in transfers(14_400).iter().enumerate() {
        if transfer.ended > closed && !is_closed {
            measurement.close(closed);
            is_closed = true;
        }
        measurement.add(transfer);
        let row = rows::Row {
            rule: "",
            id: id as u64,
            wanted: Duration::ZERO,
            injected: Duration::ZERO,
            accepted: None,
            job: "job",
            path: "/weir/x, y",
        };
        rows::write(&mut files.transfers, &spec, &row, transfer).unwrap();
    }
    measurement.drained(over);
    let event = Event {
        t_s: 2.0,
        text: "hold begins, \"so\"".to_owned(),
    };
    events::write(&mut files.events, &event).unwrap();
    measurement.event(event);
    (measurement, files)
}

fn report(measurement: Measurement) -> Report {
    let text = String::new;
    measurement.finish().report(Ending {
        command: text(),
        started_at: text(),
        ended_at: text(),
        weir: Build {
            version: text(),
            commit: None,
        },
        host: Host {
            name: text(),
            cores: 1,
            memory_bytes: 0,
            kernel: text(),
            scratch_filesystem: text(),
            cpu_busy_ratio: None,
            disk_stalled_ratio: None,
            memory_stalled_ratio: None,
        },
        interrupted: None,
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

#[test]
fn the_files_of_a_run_say_what_it_measured() {
    // Wrong: the report of a run that was killed shows other figures than the run would have, or loses cells, errors or events.
    let plan = plan();
    let (measurement, files) = run(&plan);
    let replayed = files.replay(&plan);
    assert!(replayed.is_over && replayed.cut.is_empty());
    assert_eq!(replayed.reached, Duration::from_millis(14_500));
    assert_eq!(replayed.standing.active, 3);
    let live = report(measurement);
    assert!(live.totals.failed > 5 && live.totals.cancelled > 5 && live.totals.finished > 100);
    let waits: usize = live.signals.iter().map(|link| link.waits.len()).sum();
    assert_eq!((live.signals.len(), waits), (2, 4));
    assert_eq!(report(replayed.measurement).to_json(), live.to_json());
}

#[test]
fn rows_of_an_older_version_have_fewer_columns() {
    // Wrong: a folder of before cannot be read any more, or its rows lose what they have.
    let plan = plan();
    let spec = Spec::of(&plan);
    let (_, files) = run(&plan);
    let rows = |file: &[u8]| {
        let mut all = Vec::new();
        let cut = rows::read(file, &spec, |row| all.push(row.clone())).unwrap();
        assert_eq!(cut, None);
        all
    };
    let now = rows(&files.transfers);
    assert!(now.iter().any(|row| row.waits.is_some()) && now.iter().any(|row| row.waits.is_none()));
    let text = String::from_utf8(files.transfers).unwrap();
    let before = text.replace(",waits\n", "\n");
    let without_last = before.lines().map(|line| match line.rsplit_once(',') {
        Some((start, last)) if last.is_empty() || last.starts_with("token=") => format!("{start}\n"),
        _ => format!("{line}\n"),
    });
    let before = rows(without_last.collect::<String>().as_bytes());
    let strip = |rows: Vec<weir_measure::Transfer>| {
        rows.into_iter()
            .map(|row| weir_measure::Transfer { waits: None, ..row })
    };
    assert!(strip(now).eq(before));
}

#[test]
fn files_of_another_program_are_refused() {
    // Wrong: rows with other columns are counted by their places.
    let recorded = Recorded {
        transfers: &b"id,size\n1,2\n"[..],
        series: &b"t_s,stage,active,queued,injected_bytes\n"[..],
        events: &b"t_s,text\n"[..],
        rules: None::<&[u8]>,
        signals: None::<&[u8]>,
        gauges: None::<&[u8]>,
    };
    let error = replay(&plan(), recorded).unwrap_err();
    assert!(error.to_string().starts_with("transfers.csv, line 1"), "{error}");
}

#[test]
fn a_row_without_its_end_is_none() {
    // Wrong: a number whose last digits are missing is taken for a smaller one.
    let plan = plan();
    let (_, mut files) = run(&plan);
    files.series.truncate(files.series.len() - 1);
    let replayed = files.replay(&plan);
    assert!(!replayed.is_over);
    assert_eq!(replayed.cut.len(), 1);
    assert!(
        replayed.cut[0].to_string().ends_with("its end is missing"),
        "{}",
        replayed.cut[0]
    );
}

proptest! {
    /// A kill cuts a file anywhere, and a machine that loses its power may leave zeros in place of the last rows.
    #[test]
    fn a_file_that_is_cut_off_gives_every_whole_row(cut in 300_usize..60_000, zeros in 0_usize..50) {
        let plan = plan();
        let (_, mut files) = run(&plan);
        let cut = cut.min(files.transfers.len());
        let whole = files.transfers[..cut].split(|byte| *byte == b'\n');
        // A row of a failure has a line break in its message.
        let rows = whole.clone().filter(|line| line.first().is_some_and(u8::is_ascii_digit)).count();
        files.transfers.truncate(cut);
        files.transfers.extend(std::iter::repeat_n(0, zeros));
        let replayed = files.replay(&plan);
        let counted = report(replayed.measurement).totals.transfers as usize;
        // The last line may be part of a row.
        prop_assert!(counted <= rows && counted + 1 >= rows, "{counted} of {rows}");
    }

    /// A line that is no row at all stops the reading, and nothing else.
    #[test]
    fn any_bytes_may_follow(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let plan = plan();
        let (_, mut files) = run(&plan);
        files.series.extend(&noise);
        files.events.extend(&noise);
        files.transfers.extend(&noise);
        let replayed = files.replay(&plan);
        prop_assert!(report(replayed.measurement).totals.transfers >= 380);
    }
}
