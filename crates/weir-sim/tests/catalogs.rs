//! Catalogues whose times can be worked out by hand.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_measure::chain::{RuleEnd, RuleRow};
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Outcome, Row, run};

/// From A to B: a file of 1 GB each minute, 9.4 s each; rules last ten minutes.
fn plan(sim: &str, tables: &str) -> SimPlan {
    let text = format!(
        r#"
name = "by-hand"
[grid]
name = "g"
[grid.catalog]
[grid.transfer]
retries = 0
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[phases]
ramp = "10 m"
hold = "2 h"
drain = "30 m"
[[workload]]
kind = "rates"
file_size_min = "1 GB"
file_size_max = "1 GB"
cycle = "1 m"
lifetime = "10 m"
rates = [{{ source = "A", destination = "B", rate = "133333333 b/s" }}]
[sim]
{sim}
[[sim.link]]
link = "*->*"
rtt = "100 ms"
capacity = "1 Gb/s"
{tables}
"#
    );
    let challenge = Challenge::parse(&text, "by-hand.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

struct Ran {
    outcome: Outcome,
    rows: Vec<Row>,
    rules: Vec<RuleRow>,
}

fn simulate(plan: &SimPlan) -> Ran {
    simulate_under(plan, Policy::Weir)
}

fn simulate_under(plan: &SimPlan, policy: Policy) -> Ran {
    let (mut rows, mut rules) = (Vec::new(), Vec::new());
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(row.clone()),
        rules: &mut |row| rules.push(row.clone()),
        ledger: &mut |_| {},
    };
    let outcome = run(plan, policy, &mut listeners);
    let violations = outcome.checks.violations();
    assert!(violations.is_empty(), "{violations:?}");
    Ran { outcome, rows, rules }
}

impl Ran {
    fn ok(&self) -> usize {
        self.rules.iter().filter(|rule| rule.end == RuleEnd::Ok).count()
    }

    /// Seconds from the question to the last lock of every rule that became OK.
    fn to_ok(&self) -> Vec<f64> {
        let ok = self.rules.iter().filter(|rule| rule.end == RuleEnd::Ok);
        ok.map(|rule| rule.ended.saturating_sub(rule.asked).as_secs_f64())
            .collect()
    }
}

/// Every file is in one row and every rule in one, whatever becomes of them.
fn is_complete(ran: &Ran) {
    let files: u64 = ran.rules.iter().map(|rule| rule.files).sum();
    assert_eq!(files, ran.rows.len() as u64);
    assert_eq!(files, ran.outcome.injected);
    let mut numbers: Vec<u64> = ran.rows.iter().map(|row| row.id).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ran.rows.len(), "a file has two rows");
}

/// Weir's catalogue would cost a file more than its copy and its parts of a millisecond, or leave copies for longer than a look of the reaper.
#[test]
fn a_rule_of_weir_takes_the_time_of_its_copy() {
    let ran = simulate(&plan("", ""));
    is_complete(&ran);
    assert!(ran.rules.len() > 100, "{}", ran.rules.len());
    assert_eq!(ran.ok(), ran.rules.len());
    for took in ran.to_ok() {
        // A copy of 9.4 s, two commits of 5 ms, the pause of the scheduler, a lock, a completion.
        assert!((9.4..9.5).contains(&took), "{took}");
    }
    let deletions = ran.outcome.deletions.unwrap();
    assert!(deletions.due > 100 && deletions.late == 0, "{deletions:?}");
    // The reaper looks once a second, and a deletion takes 100 ms.
    let delay = deletions.delay_s.unwrap();
    assert!((1.0..1.11).contains(&delay.p99), "{delay:?}");
}

/// The model of Rucio's daemons would be faster than their pauses and statements allow.
#[test]
fn a_rule_of_rucio_waits_for_its_daemons() {
    let ran = simulate(&plan(
        "catalog = \"rucio\"",
        "[sim.rucio]\ninjection_interval = \"1 m\"\n",
    ));
    is_complete(&ran);
    assert_eq!(ran.ok(), ran.rules.len());
    for took in ran.to_ok() {
        // At least the copy and the daemons' own times; at most the pauses of submitter, poller (two rounds) and finisher besides.
        let own = 9.4 + 0.002 + 0.1066 + 0.1 + 0.0046;
        assert!((own..own + 10.0 + 120.0 + 30.0 + 1.0).contains(&took), "{took}");
    }
    let mean = ran.to_ok().iter().sum::<f64>() / ran.ok() as f64;
    assert!(mean > 60.0, "{mean}");
}

/// The injector beside Rucio would not make the rules of its interval at once.
#[test]
fn the_injector_beside_rucio_works_every_15_minutes() {
    let ran = simulate(&plan("catalog = \"rucio\"", ""));
    is_complete(&ran);
    let asked: Vec<u64> = ran.rules.iter().map(|rule| rule.asked.as_secs()).collect();
    assert!(asked.iter().all(|asked| asked % 900 == 0), "{asked:?}");
    assert!(ran.rules[1..].iter().all(|rule| rule.files >= 14), "{:?}", ran.rules);
}

/// A request that failed would be given up at once, or tried for ever.
#[test]
fn failed_files_are_requested_again() {
    for catalog in ["weir", "rucio"] {
        let failing =
            "[[sim.rse]]\nrse = \"B\"\nfailures = { overload = 0.5 }\n[sim.rucio]\ninjection_interval = \"1 m\"\n";
        let ran = simulate(&plan(&format!("catalog = \"{catalog}\""), failing));
        is_complete(&ran);
        let again = ran.rows.iter().filter(|row| row.attempts > 1).count();
        assert!(again * 4 > ran.rows.len(), "{catalog}: {again} of {}", ran.rows.len());
        assert!(
            ran.ok() * 10 > ran.rules.len() * 8,
            "{catalog}: {} of {}",
            ran.ok(),
            ran.rules.len()
        );
        assert!(ran.rows.iter().all(|row| row.attempts <= 4), "{catalog}");
    }
}

/// A rule that has ended would go on, or its files would count as delivered.
#[test]
fn a_file_that_is_missing_when_its_rule_ends_never_comes() {
    for catalog in ["weir", "rucio"] {
        // The link carries a fifth of what is asked.
        let slow = "[[sim.link]]\nlink = \"A->B\"\ncapacity = \"26 Mb/s\"\n[sim.rucio]\ninjection_interval = \"1 m\"\n";
        let ran = simulate(&plan(&format!("catalog = \"{catalog}\""), slow));
        is_complete(&ran);
        let late = ran.rules.iter().filter(|rule| rule.end == RuleEnd::Incomplete).count();
        assert!(late > 10, "{catalog}: {late} of {}", ran.rules.len());
        let reason = ran.rules.iter().find(|rule| rule.end == RuleEnd::Incomplete).unwrap();
        assert!(reason.reason.contains("when it ended after 10m"), "{}", reason.reason);
    }
}

/// The transfer service would be said to have taken what it did not answer.
#[test]
fn a_service_that_does_not_answer_takes_nothing() {
    for catalog in ["weir", "rucio"] {
        let frozen = "[sim.rucio]\ninjection_interval = \"1 m\"\n[sim.store]\nfreezes = [{ at = \"30 m\", length = \"30 m\" }]\n";
        let ran = simulate(&plan(&format!("catalog = \"{catalog}\""), frozen));
        is_complete(&ran);
        let meanwhile = ran.rows.iter().filter_map(|row| row.stages?.submitted);
        let meanwhile = meanwhile.filter(|at| (1800..3600).contains(&at.as_secs()));
        assert_eq!(meanwhile.count(), 0, "{catalog}");
        let after = ran.rows.iter().filter_map(|row| row.stages?.submitted);
        assert!(after.filter(|at| at.as_secs() > 3600).count() > 20, "{catalog}");
    }
}

/// Requests would pass the throttler beyond its limit.
#[test]
fn a_throttler_lets_out_so_many() {
    let ran = simulate(&plan(
        "catalog = \"rucio\"",
        "[sim.rucio]\ninjection_interval = \"1 m\"\nthrottler_max = 2\nthrottler_interval = \"5 m\"\n",
    ));
    is_complete(&ran);
    // One a minute is asked: without a throttler five go out in each five minutes.
    let submitted: Vec<u64> = ran
        .rows
        .iter()
        .filter_map(|row| Some(row.stages?.submitted?.as_secs() / 300))
        .collect();
    let in_one = |interval: u64| submitted.iter().filter(|at| **at == interval).count();
    let most = (0..40).map(in_one).max().unwrap();
    assert_eq!(most, 2, "{submitted:?}");
}

/// A slow storage's chunk would outlast the window without being deleted twice; Weir's has one reaper at each storage element.
#[test]
fn a_chunk_that_outlasts_the_window_is_deleted_twice() {
    let slow = "[[sim.rse]]\nrse = \"B\"\ndelete_time = \"60 s\"\n[sim.rucio]\nreaper_window = \"2 m\"\n";
    let rucio = simulate(&plan("catalog = \"rucio\"", slow));
    is_complete(&rucio);
    let deletions = rucio.outcome.deletions.unwrap();
    assert!(
        deletions.repeated.is_some_and(|repeated| repeated > 10),
        "{deletions:?}"
    );
    let weir = simulate(&plan("", slow));
    let deletions = weir.outcome.deletions.unwrap();
    assert_eq!(deletions.repeated, None, "{deletions:?}");
    assert!(deletions.done > 50, "{deletions:?}");
}

/// A file that was stuck would stay so, though its cause is gone and its rule lasts.
#[test]
fn stuck_rules_are_repaired_half_an_hour_later() {
    for catalog in ["weir", "rucio"] {
        // Nothing moves at B for so long that four attempts fail.
        let outage = "outages = [{ at = \"20 m\", length = \"100 m\" }]\n";
        let tables = format!("[[sim.rse]]\nrse = \"B\"\n{outage}[sim.rucio]\ninjection_interval = \"1 m\"\n");
        let text = plan(&format!("catalog = \"{catalog}\""), &tables).resolved.clone();
        let text = text.replace("lifetime = \"10m\"", "lifetime = \"5h\"");
        assert!(text.contains("lifetime = \"5h\""), "{text}");
        let challenge = Challenge::parse(&text, "by-hand.toml".as_ref()).unwrap();
        let plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
        // Weir's scheduler would leave a storage alone of which all fails.
        let ran = simulate_under(&plan, Policy::Fixed);
        is_complete(&ran);
        let stuck = ran.rows.iter().filter(|row| row.attempts > 4).count();
        assert!(stuck > 0, "{catalog}: no file was stuck");
        assert_eq!(ran.ok(), ran.rules.len(), "{catalog}");
    }
}
