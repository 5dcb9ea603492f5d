//! One word, one figure: the asked rate.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::PathBuf;

use weir_measure::Spec;
use weir_plan::{Challenge, Overrides};
use weir_units::BitRate;

/// `weir challenge plan` and the terminal would ask for another rate than the report, where workloads have times of their own.
#[test]
fn plan_and_report_ask_for_the_same() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../challenges");
    let (mut compared, mut own_times) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let plan = Challenge::load(&path).unwrap().resolve(&Overrides::default()).unwrap();
        let asked: BitRate = Spec::of(&plan).links.iter().filter_map(|link| link.asked).sum();
        assert_eq!(plan.summary().asked, asked, "{}", path.display());
        compared += 1;
        let is_own = |(_, rates): (usize, &weir_plan::RatesPlan)| rates.own_hold(&plan.phases).is_some();
        own_times += usize::from(plan.rates().any(is_own));
    }
    assert!(
        compared >= 5 && own_times >= 1,
        "{compared} challenges, {own_times} with times of their own"
    );
}
