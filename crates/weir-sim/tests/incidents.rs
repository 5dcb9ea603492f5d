//! Incidents of data challenges, each a challenge file: with the daemons as they were it fails, with Weir's catalogue it passes, and with the remedy
//! that was found the daemons pass too.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;

use weir_measure::report::{Build, Report};
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::report::{Rows, RunOutputs, report, run_into};
use weir_sim::spec::CatalogKind;
use weir_sim::world::Probe;

/// The report of a challenge file under a catalogue, with some of its lines replaced.
fn run(name: &str, catalog: CatalogKind, replaced: &[(&str, &str)]) -> Report {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../challenges")
        .join(name);
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (line, other) in replaced {
        assert!(text.contains(line), "{name} has no {line:?}");
        text = text.replace(line, other);
    }
    let challenge = Challenge::parse(&text, &path).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
    plan.sim.catalog = catalog;
    let sink = || std::io::sink();
    let files = RunOutputs {
        transfers: &mut sink(),
        rules: &mut sink(),
        ledger: &mut sink(),
    };
    let outcome = run_into(&plan, Policy::Weir, Rows::None, files, &Probe::default()).unwrap();
    let violations = outcome.checks.violations();
    assert!(violations.is_empty(), "{name}: {violations:?}");
    let build = Build {
        version: String::new(),
        commit: None,
    };
    report(&plan, Policy::Weir, outcome, "", build)
}

/// The thresholds that were not kept.
fn missed(report: &Report) -> Vec<&str> {
    let missed = report.thresholds.iter().filter(|threshold| !threshold.pass);
    missed.map(|threshold| threshold.name.as_str()).collect()
}

fn measured(report: &Report, threshold: &str) -> Option<f64> {
    let found = report.thresholds.iter().find(|one| one.name == threshold);
    found.unwrap_or_else(|| panic!("no threshold {threshold}")).measured
}

/// Passes under Weir, and gives the report under Rucio, which fails.
#[track_caller]
fn both(name: &str) -> Report {
    let weir = run(name, CatalogKind::Weir, &[]);
    assert_eq!(weir.verdict.as_str(), "pass", "{name}: {:?}", weir.verdict_reasons);
    let rucio = run(name, CatalogKind::Rucio, &[]);
    assert_eq!(rucio.verdict.as_str(), "fail", "{name}: {:?}", rucio.thresholds);
    rucio
}

/// INC-D15. Submitter and cleaner would get over an outage by themselves, or the remedy of 2024 would not help.
#[test]
fn submitter_and_cleaner_fight_over_rules_that_have_ended() {
    let name = "incidents/outage-expired-rules.toml";
    let rucio = both(name);
    let ratio = measured(&rucio, "total ratio").unwrap();
    assert!(ratio < 0.2, "{ratio}");
    // Version 34.1 alone, and with three times the submitters and four times the cleaners.
    let skips = ("skips_expired = false ", "skips_expired = true ");
    let mended = run(name, CatalogKind::Rucio, &[skips]);
    let better = measured(&mended, "total ratio").unwrap();
    assert!(better > 2.0 * ratio, "{better}");
    let more = ("submitters = 1 ", "cleaners = 4\nsubmitters = 3 ");
    let mended = run(name, CatalogKind::Rucio, &[skips, more]);
    assert_eq!(missed(&mended), Vec::<&str>::new(), "{:?}", mended.thresholds);
}

/// INC-D16. The cleaner's transaction over a large rule would hold nobody up.
#[test]
fn a_large_rule_holds_up_the_poller() {
    let name = "incidents/large-datasets.toml";
    let rucio = both(name);
    assert_eq!(missed(&rucio), ["total rule to ok p95"]);
    let known = &rucio.chain.unwrap().rooms.completion_s.unwrap();
    assert!(known.p95 > 300.0, "{known:?}");
    // Ten times smaller datasets.
    let small = run(
        name,
        CatalogKind::Rucio,
        &[("rate = \"13.888 Gb/s\"", "rate = \"1.388 Gb/s\"")],
    );
    assert_eq!(missed(&small), Vec::<&str>::new(), "{:?}", small.thresholds);
}

/// INC-D17. A chunk that outlasts the window would be deleted once.
#[test]
fn slow_storages_are_deleted_twice() {
    let name = "incidents/reaper-window.toml";
    let rucio = both(name);
    assert_eq!(missed(&rucio), ["total deletion p95"]);
    let deletions = rucio.chain.unwrap().deletions.unwrap();
    let repeated = deletions.repeated.unwrap();
    // Every second deletion at the slow storage is one of a file that is gone.
    assert!(repeated > deletions.done / 5, "{deletions:?}");
    let small = run(
        name,
        CatalogKind::Rucio,
        &[("reaper_chunk = 1000 ", "reaper_chunk = 100 ")],
    );
    let deletions = small.chain.as_ref().unwrap().deletions.clone().unwrap();
    assert_eq!(
        (missed(&small), deletions.repeated),
        (Vec::new(), None),
        "{deletions:?}"
    );
}

/// INC-D22. Two reapers would keep up with eight sites.
#[test]
fn too_few_reapers_fall_behind() {
    let name = "incidents/too-few-reapers.toml";
    let rucio = both(name);
    assert_eq!(missed(&rucio), ["total deletion p95", "total ratio"]);
    let more = run(name, CatalogKind::Rucio, &[("reapers = 2", "reapers = 16")]);
    assert_eq!(missed(&more), Vec::<&str>::new(), "{:?}", more.thresholds);
}

/// INC-D36 and INC-M9. Rules of 15 minutes at once would not make a comb.
#[test]
fn rules_at_once_make_a_comb() {
    for name in ["incidents/comb-t0-export.toml", "incidents/comb-ral-egress.toml"] {
        let rucio = both(name);
        assert!(
            missed(&rucio).contains(&"total variation"),
            "{name}: {:?}",
            rucio.thresholds
        );
        let variation = measured(&rucio, "total variation").unwrap();
        assert!(variation > 1.0, "{name}: {variation}");
    }
    // A rule each minute helps where files take as long as that.
    let finer = ("injection_interval = \"15 m\"", "injection_interval = \"1 m\"");
    let even = run("incidents/comb-t0-export.toml", CatalogKind::Rucio, &[finer]);
    let variation = measured(&even, "total variation").unwrap();
    assert!(variation < 0.8, "{variation}");
}

/// A slow storage would delay the deletions of others, or fall behind itself.
#[test]
fn ten_thousand_deletions_an_hour_beside_a_slow_storage() {
    let rucio = both("reaper-10k.toml");
    assert_eq!(missed(&rucio), ["total deletion p95"]);
}
