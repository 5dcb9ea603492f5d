//! Small challenges on an embedded grid, from preflight to report.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{Row, Run, files, grid, run, run_watched, sum};
use weir_challenge::{Progress, Silent, Stop, Update};
use weir_measure::Verdict;
use weir_measure::report::{Report, WorkloadKind};
use weir_units::BitRate;

const TWO: &str = "[[grid.rse]]\nname = \"ALPHA\"\n[[grid.rse]]\nname = \"BETA\"\n";

fn rates(hold: &str) -> String {
    format!(
        r#"
name = "small"
seed = 7
[phases]
ramp = "1 s"
hold = "{hold}"
drain = "30 s"
{}
[[workload]]
kind = "rates"
name = "load"
lifetime = "1 s"
cycle = "500 ms"
file_size_min = "20 kB"
rates = [
    {{ source = "ALPHA", destination = "BETA", rate = "6 Mb/s" }},
    {{ source = "BETA", destination = "ALPHA", rate = "3 Mb/s" }},
]
"#,
        grid(TWO)
    )
}

/// The books of a run agree with each other.
fn check_books(run: &Run) {
    let report = &run.outcome.report;
    let totals = &report.totals;
    assert_eq!(totals.transfers, run.transfers.len() as u64);
    assert_eq!(totals.injected_bytes, sum(&run.transfers, "size_bytes", |_| true));
    let finished = |row: &Row| row["state"] == "finished";
    assert_eq!(totals.verified_bytes, sum(&run.transfers, "size_bytes", finished));
    assert_eq!(
        totals.finished,
        run.transfers.iter().filter(|row| finished(row)).count() as u64
    );
    assert_eq!(
        totals.failed,
        run.transfers.iter().filter(|row| row["state"] == "failed").count() as u64
    );
    assert_eq!(
        totals.moved_bytes_failed,
        sum(&run.transfers, "bytes_moved", |row| !finished(row))
    );
    for link in &report.links {
        let of_link = |row: &Row| row["source"] == link.source && row["destination"] == link.destination;
        let rows = run.transfers.iter().filter(|row| of_link(row)).count() as u64;
        assert_eq!(link.transfers, rows, "{}→{}", link.source, link.destination);
        assert_eq!(
            link.verified_bytes,
            sum(&run.transfers, "size_bytes", |row| of_link(row) && finished(row))
        );
        if !run.ledger.is_empty() {
            assert_eq!(
                sum(&run.ledger, "injected", of_link),
                rows,
                "{}→{}",
                link.source,
                link.destination
            );
        }
    }
    let on_disk = std::fs::read_to_string(run.outcome.folder.join("report.json")).unwrap();
    assert_eq!(Report::from_json(&on_disk).unwrap(), *report);
}

#[test]
fn the_numbers_of_a_run_agree() {
    // Wrong: report, rows and ledger tell different stories, counters disagree, or a delivered file is not what was sent.
    let run = run_watched(&rates("4 s"), Some(20.0), false, Arc::new(Silent), Stop::default());
    let report = &run.outcome.report;
    assert_eq!(report.totals.failed, 0, "{:?}", report.errors);
    assert_eq!(report.totals.cancelled, 0);
    assert!(report.totals.finished >= 30, "{}", report.totals.finished);
    check_books(&run);
    for check in &report.crosschecks {
        assert_eq!(check.difference_ratio, Some(0.0), "{check:?}");
        let (carried, tolerance) = (
            check.sockets_difference_ratio.unwrap(),
            check.sockets_tolerance_ratio.unwrap(),
        );
        assert!(
            carried > 0.0 && carried <= tolerance && check.pass == Some(true),
            "{check:?}"
        );
    }
    let all = &report.crosschecks[0];
    assert_eq!(all.transfer_service, Some(report.totals.verified_bytes));
    assert_eq!(
        (all.receiving_storage, all.sending_storage),
        (all.transfer_service, all.transfer_service)
    );
    let audit = report.audit.as_ref().unwrap();
    assert!(audit.files > 0);
    assert_eq!(audit.failed, 0, "{:?}", audit.samples);
    assert_eq!(report.totals.deleted_files, report.totals.finished);
    assert!(
        report
            .links
            .iter()
            .all(|link| link.modes.values().sum::<u64>() == link.finished)
    );
    assert!(!run.outcome.folder.join("scratch").exists());
    let page = std::fs::read_to_string(run.outcome.folder.join("report.html")).unwrap();
    assert!(page.contains("\"schema\":\"weir-report/1\""));
    let again = std::fs::read_to_string(run.outcome.folder.join("challenge.toml")).unwrap();
    assert!(weir_plan::Challenge::parse(&again, "challenge.toml".as_ref()).is_ok());
}

/// Changes a byte of each file below the data area of a grid, just before the audit reads them.
struct FlipsBeforeAudit(parking_lot::Mutex<Option<std::path::PathBuf>>);

impl Progress for FlipsBeforeAudit {
    fn show(&self, update: &Update) {
        let mut folder = self.0.lock();
        match update {
            Update::Folder { folder: path } => *folder = Some(path.clone()),
            Update::Step { text } if text.contains("are read back") => {
                let data = files(&folder.as_ref().unwrap().join("scratch"));
                // Delivered files lie below the number of their workload, source files below `src`.
                let is_delivered = |path: &&std::path::PathBuf| path.to_string_lossy().contains("/0/ALPHA/");
                let delivered: Vec<_> = data.iter().filter(is_delivered).collect();
                assert!(!delivered.is_empty(), "{data:?}");
                for path in delivered {
                    let mut bytes = std::fs::read(path).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    std::fs::write(path, bytes).unwrap();
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_flipped_byte_at_the_destination_fails_the_run() {
    // Wrong: a disk that changes what it took is found by nobody, or only told in passing.
    let flips = Arc::new(FlipsBeforeAudit(parking_lot::Mutex::default()));
    let run = run_watched(&rates("3 s"), Some(100.0), false, flips, Stop::default());
    let report = &run.outcome.report;
    assert_eq!(report.verdict, Verdict::Fail, "{:?}", report.verdict_reasons);
    let audit = report.audit.as_ref().unwrap();
    assert!(audit.failed > 0 && audit.failed < audit.files, "{audit:?}");
    assert!(
        report.verdict_reasons[0].contains("audited files differ from the sent ones"),
        "{:?}",
        report.verdict_reasons
    );
    assert!(
        audit.samples[0].contains("its bytes differ from the sent ones"),
        "{:?}",
        audit.samples
    );
}

/// Stops the run when the first files have arrived.
struct StopAfterFirst(Stop);

impl Progress for StopAfterFirst {
    fn show(&self, update: &Update) {
        if let Update::Live(live) = update
            && live.finished > 0
        {
            self.0.soft.cancel();
        }
    }
}

#[test]
fn an_interrupted_run_still_reports() {
    // Wrong: Ctrl-C loses what was measured, leaves transfers without an end, or passes as a full run. The hold of an hour
    // would end the test by its time limit if the interruption were not heard.
    let stop = Stop::default();
    let run = run_watched(&rates("1h"), None, false, Arc::new(StopAfterFirst(stop.clone())), stop);
    let report = &run.outcome.report;
    assert!(report.interrupted);
    assert_eq!(run.outcome.exit_code(), 130);
    assert_ne!(report.verdict, Verdict::Pass);
    assert!(report.totals.finished > 0);
    check_books(&run);
    assert!(
        report
            .verdict_reasons
            .iter()
            .any(|reason| reason.starts_with("interrupted ")),
        "{:?}",
        report.verdict_reasons
    );
}

/// Stops the run while its source files are written.
struct StopAtUpload(Stop);

impl Progress for StopAtUpload {
    fn show(&self, update: &Update) {
        if let Update::Step { text } = update
            && text.contains("source files go to their places")
        {
            self.0.soft.cancel();
        }
    }
}

#[test]
fn a_run_interrupted_before_its_start_reports_too() {
    // Wrong: no report says that it was interrupted, or zero is reported where nothing was measured.
    let stop = Stop::default();
    let run = run_watched(&rates("1h"), None, false, Arc::new(StopAtUpload(stop.clone())), stop);
    let report = &run.outcome.report;
    assert_eq!((report.interrupted, run.outcome.exit_code()), (true, 130));
    assert_eq!((report.totals.transfers, report.totals.achieved_bps), (0, None));
    assert_eq!(report.verdict, Verdict::Unstable, "{:?}", report.verdict_reasons);
}

#[test]
fn one_rse_that_refuses_does_not_stop_the_others() {
    // Wrong: a read-only or full destination ends the run, or its failures have no name.
    let rses = format!(
        "{TWO}[[grid.rse]]\nname = \"FROZEN\"\nread_only = true\n[[grid.rse]]\nname = \"TINY\"\nquota = \"60 kB\"\n"
    );
    let text = rates("3 s").replace(&grid(TWO), &grid(&rses)).replace(
        "rates = [",
        "rates = [\n{ source = \"ALPHA\", destination = \"FROZEN\", rate = \"1 Mb/s\" },\n\
         { source = \"ALPHA\", destination = \"TINY\", rate = \"1 Mb/s\" },\n\
         { source = \"FROZEN\", destination = \"ALPHA\", rate = \"1 Mb/s\" },",
    );
    let run = run(&text);
    let report = &run.outcome.report;
    check_books(&run);
    let link = |source: &str, destination: &str| {
        report
            .links
            .iter()
            .find(|link| link.source == source && link.destination == destination)
            .unwrap()
    };
    let into_frozen = link("ALPHA", "FROZEN");
    assert_eq!(into_frozen.finished, 0);
    assert!(into_frozen.failed > 0);
    // Some are still tried again when the drain is over.
    let read_only = into_frozen.errors.iter().find(|error| error.class == "read-only");
    assert!(read_only.is_some(), "{:?}", into_frozen.errors);
    let out_of_frozen = link("FROZEN", "ALPHA");
    assert!(out_of_frozen.failed > 0);
    assert!(
        out_of_frozen.errors[0].sample.contains("FROZEN has no source files"),
        "{:?}",
        out_of_frozen.errors
    );
    // Injection stops before a destination is full, so nothing fails there for want of space.
    let into_tiny = link("ALPHA", "TINY");
    assert_eq!(into_tiny.failed, 0, "{:?}", into_tiny.errors);
    assert!(
        run.ledger
            .iter()
            .any(|row| row["destination"] == "TINY" && row["held"] == "space")
    );
    for (source, destination) in [("ALPHA", "BETA"), ("BETA", "ALPHA")] {
        let link = link(source, destination);
        assert!(link.finished > 0 && link.failed == 0, "{link:?}");
    }
}

#[test]
fn a_matrix_says_what_works() {
    // Wrong: a cell is missing, or a forced mode is not the one that was used.
    let text = format!(
        "name = \"cells\"\nseed = 1\n[phases]\nramp = \"0 s\"\nhold = \"1 s\"\ndrain = \"10 s\"\n{}\n\
         [[workload]]\nkind = \"matrix\"\nname = \"matrix\"\nmodes = [\"pull\", \"push\", \"streamed\"]\nsizes = [\"64 kB\", \"1 MB\"]\n",
        grid(TWO)
    );
    let run = run(&text);
    let report = &run.outcome.report;
    check_books(&run);
    let WorkloadKind::Matrix { cells } = &report.workloads[0].kind else {
        panic!("a matrix")
    };
    assert_eq!(cells.len(), 2 * 3 * 2);
    for cell in cells {
        assert!(cell.ok, "{cell:?}");
        assert!(cell.rate_bps.is_some_and(|rate| rate > BitRate::ZERO), "{cell:?}");
    }
    for row in &run.transfers {
        assert!(["pull", "push", "streamed"].contains(&row["mode"].as_str()), "{row:?}");
    }
    let pulls = run.transfers.iter().filter(|row| row["mode"] == "pull").count();
    assert_eq!(pulls, 4);
    assert_eq!(report.totals.asked_bps, None);
    assert_eq!(report.totals.asked_bytes, 6 * (64_000 + 1_000_000));
    assert_eq!(report.totals.hold_verified_bytes, report.totals.verified_bytes);
}

#[test]
fn a_ramp_shows_every_step() {
    // Wrong: a step has another number of transfers than asked, or no rate.
    let text = format!(
        "name = \"steps\"\nseed = 1\n[phases]\nramp = \"0 s\"\nhold = \"1 s\"\ndrain = \"10 s\"\n{}\n\
         [[workload]]\nkind = \"ramp\"\nname = \"ramp\"\nparallel = [1, 4]\nfile_size = \"500 kB\"\nlinks = [\"ALPHA→BETA\"]\n",
        grid(TWO)
    );
    let run = run(&text);
    check_books(&run);
    let WorkloadKind::Ramp { steps } = &run.outcome.report.workloads[0].kind else {
        panic!("a ramp")
    };
    assert_eq!(steps.iter().map(|step| step.parallel).collect::<Vec<_>>(), [1, 4]);
    for step in steps {
        assert_eq!(step.failed, 0, "{:?}", run.outcome.report.errors);
        assert!(step.achieved_bps.is_some_and(|rate| rate > BitRate::ZERO), "{step:?}");
    }
}

#[test]
fn nothing_a_run_writes_holds_a_secret() {
    // Wrong: a token or key is in a log, a row, a report or a page. What the grid itself keeps are key files, apart.
    let run = run_watched(&rates("2 s"), None, true, Arc::new(Silent), Stop::default());
    let scratch = run.outcome.folder.join("scratch");
    let secret = std::fs::read_to_string(scratch.join("client.secret")).unwrap();
    let mut read = 0;
    for path in files(&run.outcome.folder)
        .into_iter()
        .filter(|path| !path.starts_with(&scratch))
    {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains(secret.trim()), "{}", path.display());
        for sign in ["eyJ", "Bearer ey", "PRIVATE KEY"] {
            assert!(!text.contains(sign), "{sign:?} in {}", path.display());
        }
        read += 1;
    }
    assert!(read >= 6, "{read} files");
}

#[test]
fn kept_data_areas_hold_what_was_delivered() {
    // Wrong: a user who wants to look at the files of a run finds empty folders; or they stay without being asked for.
    let run = run_watched(&rates("2 s"), None, true, Arc::new(Silent), Stop::default());
    let area = run.outcome.folder.join("scratch/storage/BETA/weir");
    let kept = files(&area);
    let is_source = |path: &&PathBuf| path.parent().is_some_and(|parent| parent.ends_with("src"));
    assert_eq!(kept.iter().filter(is_source).count(), 2, "{kept:?}");
    let delivered = run.transfers.iter().filter(|row| {
        let path = area.with_file_name("").join(row["path"].trim_start_matches('/'));
        row["destination"] == "BETA"
            && std::fs::metadata(path).is_ok_and(|file| file.len().to_string() == row["size_bytes"])
    });
    assert_eq!(delivered.count() + 2, kept.len(), "{kept:?}");
    assert!(kept.len() > 4, "{kept:?}");
}
