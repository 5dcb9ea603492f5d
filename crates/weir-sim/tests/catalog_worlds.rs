//! Both catalogues in worlds drawn from seeds: whatever happens, every file is in one row and every rule in one, and copies that are owed are deleted.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;
use weir_measure::chain::{RuleEnd, RuleRow};
use weir_plan::{Challenge, Overrides};
use weir_sched::Settled;
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Row, run};

/// The draws of a world.
#[derive(Debug, Clone)]
struct Drawn {
    catalog: &'static str,
    policy: Policy,
    is_loop: bool,
    rate_mbps: u32,
    capacity_mbps: u32,
    lifetime_m: u32,
    cycle_s: u32,
    failures: f64,
    delete_ms: u32,
    freeze_m: (u32, u32),
    tick: bool,
    skips_expired: bool,
    threads: [u32; 4],
    chunk: u32,
    throttler: Option<u32>,
    seed: u64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let world = (
        20..400_u32,
        20..400_u32,
        1..40_u32,
        5..900_u32,
        0.0..0.6_f64,
        0..5_000_u32,
    );
    let rucio = (prop::array::uniform4(1..4_u32), 1..200_u32, prop::option::of(1..60_u32));
    let kinds = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    (world, rucio, kinds, (0..100_u32, 1..40_u32), any::<u32>()).prop_map(
        |((rate, capacity, lifetime, cycle, failures, delete), (threads, chunk, throttler), kinds, freeze, seed)| {
            Drawn {
                catalog: if kinds.0 { "weir" } else { "rucio" },
                policy: if kinds.1 { Policy::Weir } else { Policy::Fts },
                is_loop: kinds.2,
                rate_mbps: rate,
                capacity_mbps: capacity,
                lifetime_m: lifetime,
                cycle_s: cycle,
                failures,
                delete_ms: delete,
                freeze_m: freeze,
                tick: kinds.3,
                skips_expired: kinds.4,
                threads,
                chunk,
                throttler,
                seed: u64::from(seed),
            }
        },
    )
}

fn plan(drawn: &Drawn) -> SimPlan {
    let Drawn {
        catalog,
        rate_mbps,
        capacity_mbps,
        lifetime_m,
        cycle_s,
        failures,
        delete_ms,
        freeze_m: (freeze, length),
        skips_expired,
        threads: [submitters, pollers, cleaners, reapers],
        chunk,
        seed,
        ..
    } = drawn;
    let tick = if drawn.tick { "tick = \"1 s\"\n" } else { "" };
    let is_loop = if drawn.is_loop {
        "loop = true\nsource_files = 40\n"
    } else {
        ""
    };
    let throttler = drawn.throttler.map_or_else(String::new, |most| {
        format!("throttler_max = {most}\nthrottler_interval = \"2 m\"\n")
    });
    let text = format!(
        r#"
name = "drawn"
seed = {seed}
[grid]
name = "g"
[grid.catalog]
[grid.transfer]
max_active_per_link = 30
retries = 1
retry_delay = "10 s"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "5 m"
hold = "90 m"
drain = "20 m"
[[workload]]
kind = "rates"
file_size_min = "100 MB"
file_size_max = "100 MB"
cycle = "{cycle_s} s"
lifetime = "{lifetime_m} m"
{is_loop}
rates = [
  {{ source = "A", destination = "B", rate = "{rate_mbps} Mb/s" }},
  {{ source = "A", destination = "C", rate = "{rate_mbps} Mb/s" }},
  {{ source = "C", destination = "B", rate = "{rate_mbps} Mb/s" }},
]
[sim]
catalog = "{catalog}"
{tick}
[sim.store]
freezes = [{{ at = "{freeze} m", length = "{length} m" }}]
[sim.rucio]
injection_interval = "{cycle_s} s"
skips_expired = {skips_expired}
submitters = {submitters}
pollers = {pollers}
cleaners = {cleaners}
reapers = {reapers}
reaper_chunk = {chunk}
{throttler}
[[sim.link]]
link = "*->*"
capacity = "{capacity_mbps} Mb/s"
failures = {{ timeout = {failures:.2} }}
[[sim.rse]]
rse = "*"
delete_time = "{delete_ms} ms"
"#
    );
    let challenge =
        Challenge::parse(&text, "drawn.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

/// The invariants of any run.
fn is_sound(drawn: &Drawn) {
    let (mut rows, mut rules): (Vec<Row>, Vec<RuleRow>) = (Vec::new(), Vec::new());
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(row.clone()),
        rules: &mut |rule| rules.push(rule.clone()),
        ledger: &mut |_| {},
    };
    let outcome = run(&plan(drawn), drawn.policy, &mut listeners);
    assert_eq!(outcome.checks.violations(), Vec::<String>::new());
    let files: u64 = rules.iter().map(|rule| rule.files).sum();
    assert_eq!((rows.len() as u64, files), (outcome.injected, outcome.injected));
    let mut numbers: Vec<u64> = rows.iter().map(|row| row.id).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), rows.len(), "a file has two rows");
    for row in &rows {
        let stages = row.stages.unwrap();
        let order = [Some(stages.asked), stages.requested, stages.submitted, stages.locked];
        let times: Vec<_> = order.into_iter().flatten().collect();
        assert!(times.is_sorted(), "{row:?}");
        assert_eq!(stages.locked.is_some(), row.state == Settled::Finished, "{row:?}");
    }
    for rule in rules.iter().filter(|rule| rule.end == RuleEnd::Ok) {
        let own = rows
            .iter()
            .filter(|row| row.rule.map(|number| number.to_string()).as_ref() == Some(&rule.id));
        assert!(
            own.clone().count() as u64 == rule.files && own.clone().all(|row| row.state == Settled::Finished),
            "{rule:?}"
        );
    }
    if let Some(deletions) = outcome.deletions {
        assert!(deletions.done <= deletions.due, "{deletions:?}");
        let delivered = rows.iter().filter(|row| row.state == Settled::Finished).count() as u64;
        // Files that came, and those that came without being known to have.
        assert!(
            deletions.due <= outcome.injected && (deletions.due >= delivered / 100 || delivered < 100),
            "{deletions:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A file would be lost between two daemons, or counted twice.
    #[test]
    fn nothing_is_lost_between_daemons(drawn in drawn()) {
        is_sound(&drawn);
    }
}
