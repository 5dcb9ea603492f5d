//! Accounting: properties over random transfers, and the contract of the report.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::time::Duration;

use proptest::prelude::*;
use weir_measure::Failure;
use weir_measure::accounting::Figures;
use weir_measure::chain::Chain;
use weir_measure::report::{Build, Host, Report, ReportError, SCHEMA, Verdict, Window, Windows, WorkloadKind};
use weir_measure::spec::AskedCurve;
use weir_measure::spread::{self, Bins};
use weir_measure::threshold::{Beside, evaluate};
use weir_measure::verdict::{Evidence, decide};
use weir_measure::{Accounting, LinkSpec, Spec, State, Transfer, WindowSpec, WorkloadSpec};
use weir_plan::{Comparison, Metric, Subject, Threshold};
use weir_units::BitRate;
use weir_world::ErrorClass;

const SITES: usize = 3;

/// Nothing was measured beside transfers.
fn no_more() -> Beside<'static> {
    let chain: &'static Chain = Box::leak(Box::default());
    Beside {
        crosschecks: &[],
        chain,
        deletions: None,
        evenness: None,
    }
}

fn rates(asked_bps: u64) -> WorkloadKind {
    WorkloadKind::Rates {
        asked_bps: BitRate(asked_bps),
        achieved_bps: None,
        ratio: None,
        lateness_p95_s: None,
        lateness_max_s: None,
    }
}

/// Three sites, a link between every two of them in each direction, 800 bit/s asked of each.
fn spec(windows: WindowSpec) -> Spec {
    let sites: Vec<String> = (0..SITES).map(|site| format!("S{site}")).collect();
    let mut links = Vec::new();
    for source in 0..SITES {
        for destination in (0..SITES).filter(|destination| *destination != source) {
            links.push(LinkSpec {
                source: format!("R{source}"),
                destination: format!("R{destination}"),
                source_site: source,
                destination_site: destination,
                asked: Some(BitRate(800)),
                curves: vec![AskedCurve {
                    rate: BitRate(800),
                    from: Duration::ZERO,
                    full: windows.ramp_end,
                    until: windows.hold_end,
                }],
                file_bytes: None,
            });
        }
    }
    let workloads = vec![WorkloadSpec {
        name: "load".to_owned(),
        kind: rates(4_800),
        planned_bytes: 0,
        cells: Vec::new(),
        hold: None,
    }];
    Spec {
        sites,
        links,
        workloads,
        windows,
        bin: Duration::from_secs(1),
    }
}

/// A limit on the ratio of a site.
fn at_least(site: &str, ratio: f64) -> Threshold {
    let subject = Subject::Site(site.parse().unwrap());
    Threshold::new(subject, Metric::Ratio, Comparison::AtLeast, ratio)
}

fn windows(ramp: u64, hold: u64, drain: u64) -> WindowSpec {
    WindowSpec {
        ramp_end: Duration::from_secs(ramp),
        hold_end: Duration::from_secs(ramp + hold),
        drain_end: Duration::from_secs(ramp + hold + drain),
    }
}

fn finished(link: usize, size: u64, start: u64, end: u64) -> Transfer {
    Transfer {
        workload: 0,
        link,
        cell: None,
        size,
        state: State::Finished,
        mode: Some("pull".to_owned()),
        injected: Duration::ZERO,
        late: Duration::ZERO,
        started: Some(Duration::from_millis(start)),
        ended: Duration::from_millis(end),
        bytes_moved: size,
        counted: Some(size),
        first_byte: None,
        waits: None,
        retries: 0,
        stages: None,
        failure: None,
    }
}

fn failed(link: usize, size: u64, moved: u64, class: ErrorClass, end: u64) -> Transfer {
    let failure = Failure {
        class,
        phase: None,
        message: format!("{class} at {end}"),
        party: None,
        remedy: None,
    };
    Transfer {
        state: State::Failed,
        bytes_moved: moved,
        counted: None,
        first_byte: None,
        mode: None,
        failure: Some(failure),
        ..finished(link, size, 0, end)
    }
}

fn account(windows: WindowSpec, rows: &[Transfer]) -> (Spec, Figures) {
    let spec = spec(windows);
    let mut accounting = Accounting::new(spec.clone());
    for row in rows {
        accounting.add(row);
    }
    (spec, accounting.finish().0)
}

prop_compose! {
    fn any_transfer()(link in 0..SITES * (SITES - 1), size in 0u64..1 << 50, start in 0u64..40_000, length in 0u64..20_000,
                      state in 0..3u8, moved in 0u64..1 << 50, late in 0u64..5_000) -> Transfer {
        let mut row = match state {
            0 | 1 => finished(link, size, start, start + length),
            _ => failed(link, size, moved.min(size), ErrorClass::Stall, start + length),
        };
        row.late = Duration::from_millis(late);
        row
    }
}

proptest! {
    /// Wrong: bytes appear or vanish when a transfer is spread over bins, or bins and windows see different bytes.
    #[test]
    fn spreading_conserves_bytes(bytes: u64, start in 0u64..100_000_000_000, length in 0u64..100_000_000_000, width in 1u64..40) {
        let (start, end) = (Duration::from_nanos(start), Duration::from_nanos(start + length));
        let width = Duration::from_secs(width);
        let mut bins = Bins::new(width);
        bins.add(bytes, start, end);
        prop_assert_eq!(bins.sum(), bytes);
        let parts: Vec<u64> = (0..300u32).map(|bin| spread::between(bytes, start, end, width * bin, width * (bin + 1))).collect();
        prop_assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(bytes));
        for (bin, part) in parts.iter().enumerate() {
            prop_assert_eq!(bins.get(bin), *part);
        }
    }

    /// Wrong: a byte counts for a link but not for its site or the total, or in two windows.
    #[test]
    fn links_add_up_to_sites_and_total(rows in prop::collection::vec(any_transfer(), 0..60)) {
        let (_, figures) = account(windows(5, 20, 10), &rows);
        let totals = &figures.totals;
        let size = |state: State| rows.iter().filter(|row| row.state == state).map(|row| row.size).sum::<u64>();
        prop_assert_eq!(totals.verified_bytes, size(State::Finished));
        prop_assert_eq!(totals.injected_bytes, rows.iter().map(|row| row.size).sum::<u64>());
        prop_assert_eq!(totals.moved_bytes_failed, rows.iter().filter(|row| row.state == State::Failed).map(|row| row.bytes_moved).sum::<u64>());
        prop_assert_eq!(totals.verified_bytes, totals.ramp_verified_bytes + totals.hold_verified_bytes + totals.drain_verified_bytes);
        prop_assert_eq!(totals.transfers, totals.finished + totals.failed + totals.cancelled);
        for sum in [figures.links.iter().map(|link| link.hold_verified_bytes).sum::<u64>(), figures.sites.iter().map(|site| site.hold_verified_bytes).sum()] {
            prop_assert_eq!(sum, totals.hold_verified_bytes);
        }
        for sum in [figures.links.iter().map(|link| link.verified_bytes).sum::<u64>(), figures.sites.iter().map(|site| site.verified_bytes).sum()] {
            prop_assert_eq!(sum, totals.verified_bytes);
        }
        prop_assert_eq!(figures.links.iter().map(|link| link.failed).sum::<u64>(), figures.errors.iter().map(|error| error.count).sum::<u64>());
        prop_assert_eq!(figures.sites.iter().map(|site| site.transfers).sum::<u64>(), totals.transfers);
        let n_bins = usize::try_from(figures.series.n_bins).unwrap();
        prop_assert!(figures.series.links.values().all(|series| series.achieved_bps.len() == n_bins && series.asked_bps.len() == n_bins));
    }

    /// Wrong: the figures depend on the order in which transfers end.
    #[test]
    fn order_does_not_matter(rows in prop::collection::vec(any_transfer(), 0..30)) {
        let backwards: Vec<Transfer> = rows.iter().rev().cloned().collect();
        let (forward, backward) = (account(windows(5, 20, 10), &rows).1, account(windows(5, 20, 10), &backwards).1);
        prop_assert_eq!(forward.totals, backward.totals);
        prop_assert_eq!(forward.series, backward.series);
        prop_assert_eq!(forward.parts, backward.parts);
    }
}

#[test]
fn a_failed_transfer_counts_what_moved() {
    // Wrong: a failed transfer counts with its size, or its error is lost.
    let rows = [
        finished(0, 1000, 5_000, 6_000),
        failed(0, 5000, 70, ErrorClass::NoSpace, 9_000),
        failed(1, 5000, 0, ErrorClass::Stall, 7_000),
    ];
    let (_, figures) = account(windows(5, 20, 10), &rows);
    assert_eq!(figures.totals.verified_bytes, 1000);
    assert_eq!(figures.totals.moved_bytes_failed, 70);
    assert_eq!(figures.totals.efficiency, Some(1.0 / 3.0));
    assert_eq!(figures.links[0].errors[0].class, "no-space");
    assert_eq!(figures.errors.len(), 2);
    assert_eq!(figures.series.total.failed[7], Some(1));
}

#[test]
fn only_the_hold_window_counts_as_achieved() {
    // Wrong: ramp or drain bytes flatter the achieved rate. 1000 bytes over 10 s, half of them before the hold.
    let (_, figures) = account(windows(5, 20, 10), &[finished(0, 1000, 0, 10_000)]);
    assert_eq!(figures.totals.ramp_verified_bytes, 500);
    assert_eq!(figures.totals.achieved_bps, Some(BitRate(500 * 8 / 20)));
    assert_eq!(figures.links[0].ratio, Some(0.25));
    assert_eq!(figures.sites[1].ratio, Some(0.125));
    assert_eq!(figures.sites[0].egress.achieved_bps, Some(BitRate(200)));
}

#[test]
fn a_burst_beside_a_rate_does_not_make_up_for_it() {
    // Wrong: a link that delivers nothing of its rate passes because another workload was busy on it.
    let mut spec = spec(windows(0, 10, 0));
    spec.workloads.push(WorkloadSpec {
        name: "burst".to_owned(),
        kind: WorkloadKind::Ramp { steps: Vec::new() },
        cells: Vec::new(),
        planned_bytes: 1_000_000,
        hold: None,
    });
    let mut accounting = Accounting::new(spec);
    accounting.add(&finished(0, 500, 0, 10_000));
    let mut burst = finished(0, 1_000_000, 0, 10_000);
    burst.workload = 1;
    accounting.add(&burst);
    let figures = accounting.finish().0;
    assert_eq!(figures.links[0].achieved_bps, Some(BitRate(400)));
    assert_eq!(figures.links[0].ratio, Some(0.5));
    assert_eq!(figures.sites[1].achieved_bps, Some(BitRate(400)));
    assert_eq!(figures.totals.achieved_bps, Some(BitRate(400)));
    assert_eq!(figures.totals.verified_bytes, 1_000_500);
    assert_eq!(figures.series.total.achieved_bps[0], Some(BitRate(400)));
}

#[test]
fn without_a_hold_nothing_was_achieved_nor_missed() {
    // Wrong: a run interrupted in its ramp fails with "ratio is 0".
    let (spec, figures) = account(windows(5, 0, 10), &[finished(0, 1000, 0, 4_000)]);
    assert_eq!((figures.totals.achieved_bps, figures.totals.ratio), (None, None));
    assert_eq!((figures.sites[1].achieved_bps, figures.sites[1].ratio), (None, None));
    let threshold = at_least("S1", 0.9);
    let evaluated = evaluate(&threshold, &figures, &spec, &no_more());
    let (verdict, reasons) = decide(&Evidence {
        thresholds: &[evaluated],
        crosschecks: &[],
        audit: None,
        interrupted: Some("interrupted 2 s into the ramp"),
        cells: (0, 0),
        finished: 1,
        parts: &[],
    });
    assert_eq!(verdict, Verdict::Unstable, "{reasons:?}");
}

#[test]
fn series_tell_no_data_from_zero() {
    // Wrong: a bin without a sample shows zero queued transfers, short transfers are not among the active ones because no sample met
    // them, one that never ends is not either, or the asked line does not rise through the ramp.
    let spec = spec(windows(4, 4, 2));
    let mut accounting = Accounting::new(spec);
    accounting.gauge(Duration::from_secs(3), 7, 9);
    accounting.gauge(Duration::from_secs(5), 0, 9);
    for start in [5_000, 5_100, 5_800] {
        accounting.add(&finished(0, 0, start, start + 300));
    }
    let series = accounting.finish().0.series;
    assert_eq!(series.n_bins, 10);
    assert_eq!((series.total.active[3], series.total.active[5]), (Some(7), Some(0)));
    let mean = &series.total.active_mean;
    assert_eq!((mean[3], mean[4]), (Some(7.0), Some(0.0)));
    assert_eq!((mean[5], mean[6]), (Some(0.8), Some(0.1)));
    assert_eq!(series.total.queued[4], None);
    assert_eq!(series.total.achieved_bps[4], Some(BitRate(0)));
    let asked: Vec<u64> = series.links["R0→R1"]
        .asked_bps
        .iter()
        .map(|asked| asked.unwrap().0)
        .collect();
    assert_eq!(asked, [100, 300, 500, 700, 800, 800, 800, 800, 0, 0]);
}

/// One file per second on every link, the n-th of the size given.
fn steps(sizes: &[u64]) -> Vec<Transfer> {
    let mut rows = Vec::new();
    for (second, size) in sizes.iter().enumerate() {
        let start = second as u64 * 1000;
        rows.extend((0..SITES * (SITES - 1)).map(|link| finished(link, *size, start, start + 1000)));
    }
    rows
}

fn judge(sizes: &[u64], limit: f64) -> (Verdict, Vec<String>) {
    let (spec, figures) = account(windows(0, sizes.len() as u64, 0), &steps(sizes));
    let threshold = at_least("S1", limit);
    let thresholds = [evaluate(&threshold, &figures, &spec, &no_more())];
    let evidence = Evidence {
        thresholds: &thresholds,
        crosschecks: &[],
        audit: None,
        interrupted: None,
        cells: (0, 0),
        finished: figures.totals.finished,
        parts: figures.parts.total(),
    };
    decide(&evidence)
}

#[test]
fn verdicts() {
    // Wrong: a steady run is doubted, a weak one passes, or an accident of the window is believed.
    assert_eq!(judge(&[100; 12], 0.9).0, Verdict::Pass);
    let (verdict, reasons) = judge(&[50; 12], 0.9);
    assert_eq!(verdict, Verdict::Fail);
    assert_eq!(reasons, ["site S1 ratio is 0.5, asked >= 0.9"]);
    // First half at 1.5, second at 0.5 of the asked rate: 1.0 on average, which says nothing.
    let (verdict, reasons) = judge(&[150, 150, 150, 150, 150, 150, 50, 50, 50, 50, 50, 50], 0.9);
    assert_eq!(verdict, Verdict::Unstable);
    assert!(
        reasons[0].starts_with("site S1 ratio: parts of the hold window contradict each other"),
        "{reasons:?}"
    );
    // One bad part of six is a dip, not a contradiction.
    assert_eq!(
        judge(&[110, 110, 110, 110, 110, 110, 110, 110, 110, 110, 40, 40], 0.9).0,
        Verdict::Pass
    );
    // Too short to be cut into three parts.
    assert_eq!(judge(&[150, 150, 50, 50], 0.9).0, Verdict::Pass);
}

#[test]
fn nothing_delivered_fails() {
    // Wrong: a run without a single delivered file passes for want of thresholds.
    let evidence = Evidence {
        thresholds: &[],
        crosschecks: &[],
        audit: None,
        interrupted: None,
        cells: (0, 0),
        finished: 0,
        parts: &[],
    };
    assert_eq!(
        decide(&evidence),
        (Verdict::Fail, vec!["not a single transfer finished".to_owned()])
    );
}

#[test]
fn an_interrupted_run_never_passes() {
    // Wrong: a run stopped after a good minute counts as passed.
    let text = "interrupted 12 s into the hold window";
    let evidence = Evidence {
        thresholds: &[],
        crosschecks: &[],
        audit: None,
        interrupted: Some(text),
        cells: (0, 0),
        finished: 9,
        parts: &[],
    };
    assert_eq!(decide(&evidence), (Verdict::Unstable, vec![text.to_owned()]));
}

#[test]
fn a_threshold_without_a_figure_does_not_pass() {
    let (spec, figures) = account(windows(0, 12, 0), &[]);
    let threshold = at_least("S9", 0.0);
    let evaluated = evaluate(&threshold, &figures, &spec, &no_more());
    assert_eq!((evaluated.report.measured, evaluated.report.pass), (None, false));
}

fn report() -> Report {
    let (spec, figures) = account(
        windows(5, 20, 10),
        &[
            finished(0, 1000, 5_000, 6_000),
            failed(0, 10, 7, ErrorClass::NoSpace, 9_000),
        ],
    );
    let window = |start_s: f64, end_s: f64| Window { start_s, end_s };
    Report {
        signals: Vec::new(),
        gauges: Vec::new(),
        deficits: Vec::new(),
        statements: Vec::new(),
        withdrawn: Vec::new(),
        ledger: Vec::new(),
        faults: Vec::new(),
        verified_by_size: Vec::new(),
        chain: None,
        evenness: None,
        schema: SCHEMA.to_owned(),
        verdict: Verdict::Pass,
        verdict_reasons: vec!["all thresholds hold".to_owned()],
        advice: None,
        challenge: "two".to_owned(),
        description: String::new(),
        seed: 42,
        scale: 0.01,
        interrupted: false,
        incomplete: false,
        command: "weir challenge run two.toml".to_owned(),
        started_at: "2026-11-21T12:00:00Z".to_owned(),
        ended_at: "2026-11-21T12:00:35Z".to_owned(),
        weir: Build {
            version: "0.1.0".to_owned(),
            commit: None,
        },
        host: Host {
            name: "host".to_owned(),
            cores: 2,
            memory_bytes: 1 << 34,
            kernel: "Linux 6".to_owned(),
            scratch_filesystem: "ext4".to_owned(),
            cpu_busy_ratio: Some(0.5),
            disk_stalled_ratio: None,
            memory_stalled_ratio: None,
        },
        windows: Windows {
            ramp: window(0.0, 5.0),
            hold: window(5.0, 25.0),
            drain: window(25.0, 35.0),
        },
        stability: figures.parts.report(&spec.sites),
        totals: figures.totals,
        links: figures.links,
        sites: figures.sites,
        workloads: figures.workloads,
        thresholds: Vec::new(),
        crosschecks: Vec::new(),
        audit: None,
        errors: figures.errors,
        series: figures.series,
        events: Vec::new(),
        parameters: [("size".to_owned(), "1 kB".to_owned())].into(),
    }
}

#[test]
fn a_report_survives_its_own_json() {
    // Wrong: writing and reading loses a field.
    let report = report();
    assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);
}

#[test]
fn the_report_has_the_shape_of_the_contract() {
    // Wrong: a field that readers rely on was renamed, moved or changed its kind.
    let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
    assert_eq!(json["schema"], "weir-report/1");
    assert_eq!(json["verdict"], "pass");
    for field in [
        "asked_bps",
        "achieved_bps",
        "ratio",
        "asked_bytes",
        "injected_bytes",
        "verified_bytes",
        "hold_verified_bytes",
        "ramp_verified_bytes",
        "drain_verified_bytes",
        "moved_bytes_failed",
        "transfers",
        "finished",
        "failed",
        "efficiency",
        "retries",
        "deleted_files",
        "lateness_p95_s",
        "lateness_max_s",
    ] {
        assert!(json["totals"].get(field).is_some(), "totals.{field}");
    }
    for field in [
        "source",
        "destination",
        "asked_bps",
        "achieved_bps",
        "ratio",
        "transfers",
        "failed",
        "errors",
        "modes",
    ] {
        assert!(json["links"][0].get(field).is_some(), "links[].{field}");
    }
    for field in [
        "site",
        "asked_bps",
        "achieved_bps",
        "ratio",
        "transfers",
        "failed",
        "errors",
        "egress",
    ] {
        assert!(json["sites"][0].get(field).is_some(), "sites[].{field}");
    }
    assert_eq!(json["workloads"][0]["kind"], "rates");
    assert_eq!(json["links"][0]["modes"]["pull"], 1);
    assert_eq!(
        json["series"]["links"]["R0→R1"]["achieved_bps"]
            .as_array()
            .unwrap()
            .len(),
        35
    );
}

#[test]
fn reports_of_another_contract_are_refused() {
    // Wrong: a report of a later contract is read with the meaning of this one.
    let text = report().to_json().replace(SCHEMA, "weir-report/2");
    assert!(matches!(Report::from_json(&text), Err(ReportError::Schema { found }) if found == "weir-report/2"));
    assert!(matches!(Report::from_json("{}"), Err(ReportError::Parse(_))));
}

#[test]
fn a_reader_ignores_fields_it_does_not_know() {
    let mut json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
    json["totals"]["later"] = 1.into();
    json["workloads"][0]["later"] = "x".into();
    assert_eq!(Report::from_json(&json.to_string()).unwrap(), report());
}

/// The curve of what is asked would not follow workloads that begin later or end earlier than the run.
#[test]
fn the_asked_curve_follows_the_workloads() {
    let mut spec = spec(windows(2, 8, 2));
    let seconds = Duration::from_secs;
    let curve = |rate, from, full, until| AskedCurve {
        rate: BitRate(rate),
        from: seconds(from),
        full: seconds(full),
        until: seconds(until),
    };
    spec.links.iter_mut().for_each(|link| link.curves.clear());
    spec.links[0].curves = vec![curve(800, 0, 0, 4), curve(400, 3, 5, 8), curve(100, 9, 9, 99)];
    let series = Accounting::new(spec).finish().0.series;
    let asked: Vec<u64> = series.links["R0→R1"]
        .asked_bps
        .iter()
        .map(|bin| bin.unwrap().0)
        .collect();
    assert_eq!(asked, [800, 800, 800, 900, 300, 400, 400, 400, 0, 100, 0, 0]);
    assert_eq!(series.total.asked_bps, series.links["R0→R1"].asked_bps);
    assert_eq!(series.sites["S0"].asked_bps[0], None, "nobody asks anything into it");
}
