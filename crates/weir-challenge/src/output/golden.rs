//! The report of a real run, made again from its recording, stays the same byte for byte.
//!
//! `WEIR_GOLDEN=write` writes it anew after an intended change.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use weir_measure::report::{CrossCheck, Event, Host, Windows};
use weir_measure::{Failure, Measurement, Spec, State};
use weir_plan::{Challenge, Overrides, Plan};
use weir_world::{ErrorClass, Party, Phase};

use crate::execute::clock::Clock;
use crate::execute::drive::Driven;
use crate::execute::engine::Sums;
use crate::execute::record::Record;

/// The data of a run that are not in its rows.
#[derive(Deserialize)]
struct Rest {
    windows: Windows,
    events: Vec<Event>,
    crosschecks: Vec<CrossCheck>,
    host: Host,
    command: String,
    active: Vec<Option<u64>>,
    queued: Vec<Option<u64>>,
    deleted_files: u64,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/real")
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let last = fields.last_mut().unwrap();
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => last.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}

fn time(text: &str) -> Option<Duration> {
    let (seconds, micros) = text.split_once('.')?;
    Some(Duration::from_secs(seconds.parse().unwrap()) + Duration::from_micros(micros.parse().unwrap()))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn record(fields: &[String], workloads: &[&str], links: &[weir_measure::LinkSpec]) -> Record {
    let field: Vec<&str> = fields.iter().map(String::as_str).collect();
    let number = |at: usize| field[at].parse::<u64>().unwrap();
    let is_link = |link: &weir_measure::LinkSpec| link.source == field[2] && link.destination == field[3];
    Record {
        id: number(0),
        workload: workloads.iter().position(|name| *name == field[1]).unwrap(),
        link: links.iter().position(is_link).unwrap(),
        source: 0,
        size: number(6),
        path: field[18].to_owned(),
        job: None,
        wanted: time(field[9]).unwrap(),
        injected: time(field[10]).unwrap(),
        accepted: time(field[11]),
        started: time(field[13]),
        ended: time(field[14]).unwrap(),
        state: Some(match field[7] {
            "finished" => State::Finished,
            "failed" => State::Failed,
            _ => State::Cancelled,
        }),
        mode: some(field[8]),
        retries: number(16) as u32,
        bytes_moved: number(15),
        counted: None,
        first_byte: None,
        waits: None,
        failure: ErrorClass::parse(field[19]).map(|class| Failure {
            class,
            party: Party::parse(field[20]),
            phase: Phase::parse(field[21]),
            message: field[22].to_owned(),
            remedy: some(field[23]),
        }),
        kept: false,
        stages: None,
    }
}

/// The cell of each transfer of a matrix whose cells have one transfer each, in their order.
fn cells(records: &[Record]) -> BTreeMap<u64, usize> {
    let of_matrix = |record: &&Record| record.workload == 1;
    let mut ids: Vec<u64> = records.iter().filter(of_matrix).map(|record| record.id).collect();
    ids.sort_unstable();
    ids.into_iter().zip(0..).collect()
}

fn plan() -> Plan {
    let file = folder().join("challenge.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let challenge = Challenge::parse(&text, &file).unwrap();
    challenge.resolve(&Overrides::default()).unwrap()
}

fn report() -> String {
    let plan = plan();
    let rest: Rest = serde_json::from_str(&std::fs::read_to_string(folder().join("rest.json")).unwrap()).unwrap();
    let spec = Spec::of(&plan);
    let names: Vec<&str> = plan.workloads.iter().map(weir_plan::Workload::name).collect();
    let rows = std::fs::read_to_string(folder().join("transfers.csv")).unwrap();
    let records: Vec<Record> = rows
        .lines()
        .skip(1)
        .map(|line| record(&fields(line), &names, &spec.links))
        .collect();
    let cells = cells(&records);
    let end = |seconds: f64| Duration::from_secs_f64(seconds);
    let mut measurement = Measurement::of(&plan);
    measurement.close(end(rest.windows.hold.end_s));
    for record in &records {
        let cell = cells.get(&record.id).filter(|_| record.workload == 1);
        measurement.add(&record.transfer(cell.copied()));
    }
    for ((active, queued), bin) in rest.active.iter().zip(&rest.queued).zip(0_u64..) {
        if let (Some(active), Some(queued)) = (active, queued) {
            measurement.gauge(Duration::from_secs(bin), *active, *queued);
        }
    }
    rest.events.into_iter().for_each(|event| measurement.event(event));
    measurement.drained(end(rest.windows.drain.end_s));
    let found = crate::output::assemble::Found {
        acted: std::collections::BTreeMap::new(),
        command: &rest.command,
        host: rest.host,
        clock: Clock::start(),
        deletions: None,
        sums: Sums {
            deleted_files: rest.deleted_files,
            ..Sums::default()
        },
        driven: Driven::default(),
        told: weir_measure::diagnosis::Told::default(),
        crosschecks: rest.crosschecks,
        audit: None,
        verified_by_size: Vec::new(),
    };
    let mut report = crate::output::assemble::report(measurement, found);
    report.weir.commit = None;
    report.started_at = "2026-11-24T12:43:09Z".to_owned();
    report.ended_at = "2026-11-24T12:43:24Z".to_owned();
    report.to_json()
}

#[test]
fn the_report_of_recorded_rows_stays_the_same() {
    let golden = folder().join("report.json");
    let report = report();
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::write(&golden, report).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    let differs = expected.lines().zip(report.lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(expected.len(), report.len());
}
