//! Runs that are interrupted twice at any moment: no false alarm, and no excuse for a counter that lies.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Run, grid, run_watched};
use weir_challenge::{Progress, Stop, Update};
use weir_measure::Verdict;

/// Moments that look like chance and can be repeated (`SplitMix64`, Steele, Lea and Flood, OOPSLA 2014).
struct Draw(u64);

impl Draw {
    /// From `start` up to, and without, `end`.
    fn millis(&mut self, start: u64, end: u64) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis(start + (mixed ^ (mixed >> 31)) % (end - start))
    }
}

const TWO: &str = "[[grid.rse]]\nname = \"ALPHA\"\n[[grid.rse]]\nname = \"BETA\"\n";

/// Stops a run for the first time so long after its injection began, and for the second time so long after that.
struct StopTwice {
    stop: Stop,
    first: Duration,
    second: Duration,
    began: AtomicBool,
}

impl Progress for StopTwice {
    fn show(&self, update: &Update) {
        if !matches!(update, Update::Live(_)) || self.began.swap(true, Ordering::SeqCst) {
            return;
        }
        let (stop, first, second) = (self.stop.clone(), self.first, self.second);
        std::thread::spawn(move || {
            std::thread::sleep(first);
            stop.soft.cancel();
            std::thread::sleep(second);
            stop.hard.cancel();
        });
    }
}

/// Many small files, and large ones of which some are under way at any moment.
fn rates() -> String {
    let link = |from: &str, to: &str, rate: &str| {
        format!("{{ source = \"{from}\", destination = \"{to}\", rate = \"{rate}\" }}")
    };
    format!(
        "name = \"cut\"\n[phases]\nramp = \"1 s\"\nhold = \"1h\"\n{}\n\
         [[workload]]\nkind = \"rates\"\nname = \"large\"\ncycle = \"250 ms\"\nfile_size_min = \"24 MB\"\nfile_size_max = \"24 MB\"\nrates = [{}]\n\
         [[workload]]\nkind = \"rates\"\nname = \"small\"\ncycle = \"250 ms\"\nfile_size_min = \"40 kB\"\nfile_size_max = \"40 kB\"\nrates = [{}]\n",
        grid(TWO),
        link("ALPHA", "BETA", "900 Mb/s"),
        link("BETA", "ALPHA", "8 Mb/s"),
    )
}

/// Large files, eight at once, all in one mode.
fn in_mode(mode: &str) -> String {
    format!(
        "name = \"cut\"\n[phases]\nhold = \"1 s\"\n{}\n\
         [[workload]]\nkind = \"ramp\"\nparallel = [8]\nrepeat = 100\nfile_size = \"8 MB\"\nmode = \"{mode}\"\nlinks = [\"ALPHA->BETA\"]\n",
        grid(TWO)
    )
}

fn interrupted(text: &str, draw: &mut Draw) -> Run {
    let stop = Stop::default();
    let watch = StopTwice {
        stop: stop.clone(),
        first: draw.millis(300, 2_300),
        second: draw.millis(0, 400),
        began: AtomicBool::new(false),
    };
    let moment = format!("{:?} and {:?}", watch.first, watch.second);
    let run = run_watched(text, None, false, Arc::new(watch), stop);
    let report = &run.outcome.report;
    assert!(report.interrupted, "{moment}");
    let alarms: Vec<_> = report
        .crosschecks
        .iter()
        .filter(|check| check.pass == Some(false))
        .collect();
    assert!(
        alarms.is_empty(),
        "stopped after {moment}: {alarms:#?}\n{:#?}",
        report.verdict_reasons
    );
    assert_eq!(
        report.verdict,
        Verdict::Unstable,
        "{moment}: {:?}",
        report.verdict_reasons
    );
    run
}

/// Rounds of all kinds of runs. `WEIR_SOAK` draws other moments, and many.
fn rounds() -> (Draw, usize) {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return (Draw(20_261_127), 5);
    }
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    (Draw(seed), 50)
}

#[test]
fn two_interruptions_raise_no_alarm() {
    // Wrong: a run that its user cut short is failed for bytes of copies of which nobody was told the end.
    let (mut draw, rounds) = rounds();
    let (mut unanswered, mut open) = (0, 0);
    for _ in 0..rounds {
        for text in [rates(), in_mode("pull"), in_mode("push"), in_mode("streamed")] {
            let run = interrupted(&text, &mut draw);
            let report = &run.outcome.report;
            let rows = run.transfers.iter().filter(|row| row["state"] == "unanswered");
            assert_eq!(rows.count() as u64, report.totals.unanswered, "they are not listed");
            unanswered += report.totals.unanswered;
            open += report.crosschecks.iter().filter(|check| check.pass.is_none()).count();
            for check in report.crosschecks.iter().filter(|check| check.pass.is_none()) {
                assert!(check.note.is_some(), "{check:?} does not say why it is open");
            }
        }
    }
    assert!(
        unanswered > 0 && open > 0,
        "no run ended while a copy was under way: {unanswered} {open}"
    );
}
