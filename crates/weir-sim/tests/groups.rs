//! Resources that several storage elements share: a capacity for the rates, limits for the policies, a bound for the optimum.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::optimum::optimum;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{Listeners, Outcome, run};
use weir_units::Timestamp;

/// T sends 4 Gb/s each to two storage elements of one site and to one of another; `group` says what the first two share.
fn plan(group: &str) -> SimPlan {
    let text = format!(
        r#"
name = "groups"
[grid]
name = "g"
[grid.transfer]
max_active_per_link = 200
max_active_per_rse_in = 200
max_active_per_rse_out = 600
[[grid.site]]
name = "T"
[[grid.site]]
name = "S"
[[grid.site]]
name = "U"
[[grid.rse]]
name = "T"
site = "T"
[[grid.rse]]
name = "S-disk"
site = "S"
[[grid.rse]]
name = "S-tape"
site = "S"
[[grid.rse]]
name = "U"
site = "U"
[phases]
ramp = "5 m"
hold = "30 m"
[[workload]]
kind = "rates"
file_size_min = "500 MB"
file_size_max = "500 MB"
cycle = "20 s"
rates = [
  {{ source = "T", destination = "S-disk", rate = "4 Gb/s" }},
  {{ source = "T", destination = "S-tape", rate = "4 Gb/s" }},
  {{ source = "T", destination = "U", rate = "4 Gb/s" }},
]
[sim]
fixed_active = 200
[[sim.link]]
link = "*->*"
stream_rate = "500 Mb/s"
[[sim.group]]
name = "S-gateways"
rses = ["S-*"]
direction = "in"
{group}
"#
    );
    let challenge = Challenge::parse(&text, "groups.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

struct Run {
    outcome: Outcome,
    /// Most transfers into the group at one moment.
    at_once: usize,
}

impl Run {
    /// Gb/s into the group, and to U.
    fn gigabits(&self) -> [f64; 2] {
        let sites = &self.outcome.measured.figures.sites;
        [1, 2].map(|site| sites[site].achieved_bps.unwrap().as_f64() / 1e9)
    }
}

fn simulate(plan: &SimPlan, policy: Policy) -> Run {
    let mut spans: Vec<(Timestamp, Timestamp)> = Vec::new();
    let mut listeners = Listeners {
        rows: &mut |scene, row| {
            if scene.asks[row.ask].link < 2 {
                spans.push((row.started.unwrap_or(row.ended), row.ended));
            }
        },
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, policy, &mut listeners);
    assert!(
        outcome.checks.violations().is_empty(),
        "{policy}: {:?}",
        outcome.checks.violations()
    );
    let at_once =
        |(start, _): &(Timestamp, Timestamp)| spans.iter().filter(|(from, to)| from <= start && to > start).count();
    let at_once = spans.iter().map(at_once).max().unwrap_or(0);
    Run { outcome, at_once }
}

fn best(plan: &SimPlan) -> f64 {
    optimum(plan, &Scene::new(plan)).unwrap().total.as_f64() / 1e9
}

/// The shared capacity would be exceeded, or hold others back too.
#[test]
fn a_capacity_is_shared() {
    let plan = plan("capacity = \"5 Gb/s\"");
    assert!((8.95..=9.05).contains(&best(&plan)), "{}", best(&plan));
    for policy in Policy::ALL {
        let [group, other] = simulate(&plan, policy).gigabits();
        assert!(
            (4.0..=5.001).contains(&group) && (3.6..=4.2).contains(&other),
            "{policy}: {group} {other}"
        );
    }
}

/// A policy would run more transfers through it than it is told, or stay far below.
#[test]
fn every_policy_keeps_the_slots() {
    let plan = plan("max_active = 8");
    for policy in Policy::ALL {
        let run = simulate(&plan, policy);
        assert!((6..=8).contains(&run.at_once), "{policy}: {}", run.at_once);
        // Eight transfers of 8 s and one to start and to end: 3.5 Gb/s.
        let [group, other] = run.gigabits();
        assert!((2.0..=3.6).contains(&group) && other > 3.6, "{policy}: {group} {other}");
        assert!(best(&plan) < 7.6 && best(&plan) > 7.4, "{}", best(&plan));
    }
}

/// Weir would not keep a shared limit on bandwidth.
#[test]
fn weir_keeps_the_rate() {
    let plan = plan("max_rate = \"3 Gb/s\"");
    assert!((6.95..=7.05).contains(&best(&plan)), "{}", best(&plan));
    let [group, other] = simulate(&plan, Policy::Weir).gigabits();
    assert!((2.6..=3.15).contains(&group) && other > 3.6, "{group} {other}");
}

/// A change of the shared capacity would pass by, or count for the whole run.
#[test]
fn a_capacity_changes() {
    let plan = plan("capacity = \"8 Gb/s\"\nchanges = [{ at = \"20 m\", capacity = \"2 Gb/s\" }]");
    assert!(
        (8.9..=9.1).contains(&best(&plan)),
        "half of the hold at 12, half at 6: {}",
        best(&plan)
    );
    let [group, _] = simulate(&plan, Policy::Fixed).gigabits();
    assert!((4.5..=5.1).contains(&group), "{group}");
}

/// A transfer between two members would count twice, or one within a site not at all.
#[test]
fn a_transfer_between_members_counts_once() {
    let text = r#"
name = "g"
[grid]
name = "g"
[[grid.site]]
name = "X"
[[grid.rse]]
name = "A"
site = "X"
[[grid.rse]]
name = "B"
site = "X"
[phases]
ramp = "5 m"
hold = "30 m"
[[workload]]
kind = "rates"
file_size_min = "500 MB"
file_size_max = "500 MB"
cycle = "20 s"
rates = [{ source = "A", destination = "B", rate = "2 Gb/s" }]
[[sim.group]]
name = "all"
rses = ["*"]
capacity = "1 Gb/s"
"#;
    let challenge = Challenge::parse(text, "g.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    let plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
    assert!((0.99..=1.01).contains(&best(&plan)), "{}", best(&plan));
    let [only] = &simulate(&plan, Policy::Weir).outcome.measured.figures.sites[..] else {
        panic!()
    };
    let achieved = only.achieved_bps.unwrap().as_f64() / 1e9;
    assert!((0.9..=1.0001).contains(&achieved), "{achieved}");
}
