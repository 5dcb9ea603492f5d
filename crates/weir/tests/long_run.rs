//! A run of many days and links, measured as a real one is: rows as they end, samples each second, a report in the end.
//!
//! The rows come from the simulator. The test is alone in its process, whose peak of memory is looked at.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use weir_measure::report::{Build, Host};
use weir_measure::{Ending, Measurement, Report};
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, run};

const RSES: u32 = 40;
const LINKS: usize = 1_200;
const DAYS: u64 = 12;

/// Links between all pairs in order until there are enough, each with files that take some minutes.
fn plan() -> SimPlan {
    let mut text = format!(
        "name = \"days\"\n[grid]\nname = \"g\"\n[phases]\nramp = \"1 h\"\nhold = \"{} h\"\ndrain = \"1 h\"\n",
        DAYS * 24 - 2
    );
    for rse in 0..RSES {
        writeln!(text, "[[grid.rse]]\nname = \"R{rse:02}\"").unwrap();
    }
    text += "[[workload]]\nkind = \"rates\"\nfile_size_min = \"40 GB\"\nfile_size_max = \"40 GB\"\ncycle = \"1 h\"\n\
             lifetime = \"2 h\"\nrates = [\n";
    let pairs = (0..RSES).flat_map(|from| (0..RSES).map(move |to| (from, to)));
    for (from, to) in pairs.filter(|(from, to)| from != to).take(LINKS) {
        writeln!(
            text,
            "{{ source = \"R{from:02}\", destination = \"R{to:02}\", rate = \"20 Mb/s\" }},"
        )
        .unwrap();
    }
    text += "]\n[[threshold]]\ntotal = true\nmetric = \"ratio\"\nmin = 0.9\n[sim]\ntick = \"1 s\"\n\
             injection_interval = \"1 h\"\n[[sim.link]]\nlink = \"*->*\"\nrtt = \"30 ms\"\nstream_rate = \"500 Mb/s\"\n";
    let challenge = Challenge::parse(&text, "days.toml".as_ref()).unwrap();
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

/// The most memory that this process ever had, in MiB.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Feeds a measurement with what a real run feeds it with: each end, and each second a sample.
fn measured(plan: &SimPlan) -> Report {
    let measurement = RefCell::new((Measurement::of(plan), Duration::ZERO));
    let mut listeners = Listeners {
        rows: &mut |scene, row| {
            let (measurement, sampled) = &mut *measurement.borrow_mut();
            let transfer = row.transfer(scene, None);
            while *sampled < transfer.ended {
                measurement.gauge(*sampled, 5, 7);
                *sampled += Duration::from_secs(1);
            }
            measurement.add(&transfer);
        },
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, Policy::Weir, &mut listeners);
    let (mut measurement, sampled) = measurement.into_inner();
    assert!(sampled > Duration::from_secs((DAYS - 1) * 86_400), "{sampled:?}");
    assert_eq!(measurement.last_hour(sampled).n_bins, 360);
    measurement.close(plan.phases.end());
    measurement.drained(sampled.max(plan.phases.end()));
    let text = || "a long run".to_owned();
    let report = measurement.finish().report(Ending {
        command: text(),
        started_at: text(),
        ended_at: text(),
        weir: Build {
            version: text(),
            commit: None,
        },
        host: Host {
            name: text(),
            cores: 2,
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
    });
    // The simulator's own measurement.
    assert_eq!(report.totals, outcome.measured.figures.totals);
    report
}

/// A run of twelve days would be killed for want of memory, or leave a report that no browser opens.
#[test]
fn twelve_days_of_many_links_take_little_memory_and_a_small_report() {
    let report = measured(&plan());
    assert!(report.totals.finished > 60_000, "{:?}", report.totals);
    assert_eq!(report.links.len(), LINKS);
    let json = report.to_json();
    let page = weir_challenge::render(&report).unwrap();
    let (mebibytes, megabytes) = (peak_mebibytes(), json.len().max(page.len()) / 1_000_000);
    assert!(mebibytes <= 300, "{mebibytes} MiB");
    assert!(megabytes <= 30, "{megabytes} MB");
    // Bins of seconds would be a million.
    assert!((500..=600).contains(&report.series.n_bins), "{}", report.series.n_bins);
}
