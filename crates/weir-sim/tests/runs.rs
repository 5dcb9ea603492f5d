//! Whole runs: sound under every policy and whatever the world does, and the same each time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Outcome, run};

/// Three storage elements, one of them with everything that can go wrong.
const TROUBLE: &str = include_str!("trouble.toml");

fn plan(text: &str, seed: u64) -> SimPlan {
    let challenge = Challenge::parse(text, "test.toml".as_ref()).unwrap();
    let overrides = Overrides {
        seed: Some(seed),
        ..Overrides::default()
    };
    SimPlan::of(challenge.resolve(&overrides).unwrap()).unwrap()
}

fn simulate(plan: &SimPlan, policy: Policy) -> (Outcome, Vec<String>) {
    let mut rows = Vec::new();
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(format!("{row:?}")),
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, policy, &mut listeners);
    (outcome, rows)
}

/// Two runs of one seed would differ, or two seeds would not.
#[test]
fn same_seed_same_rows() {
    for policy in Policy::ALL {
        let [(first, rows), (again, rows_again)] = [7, 7].map(|seed| simulate(&plan(TROUBLE, seed), policy));
        assert_eq!(rows, rows_again, "{policy}");
        assert_eq!(first.measured.figures.totals, again.measured.figures.totals);
        assert_eq!(first.measured.figures.series, again.measured.figures.series);
        let (_, others) = simulate(&plan(TROUBLE, 8), policy);
        assert_ne!(rows, others, "{policy}");
    }
}

/// A tick would lose transfers, or change the figures by more than it is long.
#[test]
fn ticks_change_little() {
    let coarse = TROUBLE.replace("[sim]\n", "[sim]\ntick = \"1 s\"\n");
    let [exact, ticked] = [TROUBLE, &coarse].map(|text| simulate(&plan(text, 3), Policy::Weir).0);
    assert!(
        ticked.checks.violations().is_empty(),
        "{:?}",
        ticked.checks.violations()
    );
    let [one, other] = [&exact, &ticked].map(|outcome| outcome.measured.figures.totals.ratio.unwrap());
    assert!((one - other).abs() < 0.05, "{one} {other}");
}

/// A full link would carry something else than its capacity.
#[test]
fn a_full_link_is_full() {
    let text = r#"
name = "full"
[grid]
name = "g"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[phases]
ramp = "5 m"
hold = "30 m"
[[workload]]
kind = "rates"
file_size_min = "500 MB"
file_size_max = "500 MB"
cycle = "20 s"
rates = [{ source = "A", destination = "B", rate = "20 Gb/s" }]
[sim]
[[sim.link]]
link = "A->B"
capacity = "10 Gb/s"
"#;
    let (outcome, _) = simulate(&plan(text, 1), Policy::Fixed);
    let totals = &outcome.measured.figures.totals;
    assert!(
        (9.9e9..=10.001e9).contains(&(totals.achieved_bps.unwrap().as_f64())),
        "{totals:?}"
    );
    assert!(
        outcome.checks.violations().is_empty(),
        "{:?}",
        outcome.checks.violations()
    );
}

/// The curve of what is asked would not follow workloads that begin later or end earlier than the run.
#[test]
fn the_asked_curve_follows_the_workloads() {
    let workload = |name: &str, times: &str, rate: &str| {
        format!(
            "[[workload]]\nkind = \"rates\"\nname = \"{name}\"\n{times}\ncycle = \"20 s\"\nfile_size_min = \"500 MB\"\n\
             file_size_max = \"500 MB\"\nrates = [{{ source = \"A\", destination = \"B\", rate = \"{rate}\" }}]\n"
        )
    };
    let text = format!(
        "name = \"c\"\n[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n\
         [phases]\nramp = \"4 m\"\nhold = \"56 m\"\n{}{}",
        workload("early", "length = \"20 m\"", "1 Gb/s"),
        workload("late", "start = \"30 m\"\nlength = \"15 m\"", "3 Gb/s"),
    );
    let (outcome, _) = simulate(&plan(&text, 1), Policy::Weir);
    let series = &outcome.measured.figures.series;
    let gigabits = |minute: f64| {
        let bin = (minute * 60.0 / series.bin_s) as usize;
        let rates = [&series.total.asked_bps, &series.total.achieved_bps].map(|bins| bins[bin].unwrap().as_f64() / 1e9);
        assert_eq!(series.sites["B"].asked_bps[bin], series.total.asked_bps[bin]);
        rates
    };
    for (minute, asked) in [
        (1.5, 0.5),
        (10.0, 1.0),
        (19.0, 1.0),
        (21.0, 0.0),
        (29.0, 0.0),
        (40.0, 3.0),
        (44.0, 3.0),
        (46.0, 0.0),
    ] {
        assert!(
            (gigabits(minute)[0] - asked).abs() < 0.05,
            "{minute}: {:?}",
            gigabits(minute)
        );
    }
    // The achieved rate follows after the time that transfers take. Files are injected every five seconds, so a single bin says nothing.
    let achieved = |minute: u32| {
        let bins = (0..60).map(|second| gigabits(f64::from(minute) + f64::from(second) / 60.0)[1]);
        bins.sum::<f64>() / 60.0
    };
    assert!(
        achieved(25) < 0.01 && achieved(55) < 0.01 && achieved(40) > 2.8,
        "{} {} {}",
        achieved(25),
        achieved(55),
        achieved(40)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A run would lose or invent bytes, exceed a capacity, do something twice or never end.
    #[test]
    fn runs_are_sound(seed in 0_u64..1_000_000, policy in prop::sample::select(Policy::ALL.to_vec()), ticked: bool, frozen: bool) {
        let mut text = TROUBLE.to_owned();
        if ticked {
            text = text.replace("[sim]\n", "[sim]\ntick = \"700 ms\"\n");
        }
        if frozen {
            text.push_str("[sim.store]\nlatency = \"20 ms\"\nfreezes = [{ at = \"10 m\", length = \"4 m\" }]\n");
        }
        let (outcome, rows) = simulate(&plan(&text, seed), policy);
        prop_assert!(outcome.checks.violations().is_empty(), "{:?}", outcome.checks.violations());
        prop_assert_eq!(rows.len() as u64, outcome.injected);
        prop_assert!(outcome.measured.figures.totals.finished > 100, "{:?}", outcome.measured.figures.totals);
    }
}
