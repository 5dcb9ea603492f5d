//! The oracle: every bit that a link did not move has a cause, and the cause is the limit that the world has.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod faults;
mod known;
mod random;

use std::collections::BTreeMap;

use weir_measure::deficit::{DeficitPart, LinkDeficit};
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, Outcome, Row, run};

fn parse(text: &str) -> SimPlan {
    let challenge = Challenge::parse(text, "oracle.toml".as_ref()).unwrap_or_else(|error| panic!("{error:#?}\n{text}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

fn simulate(plan: &SimPlan, policy: Policy) -> (Outcome, Vec<Row>) {
    let mut rows = Vec::new();
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.push(row.clone()),
        rules: &mut |_| {},
        ledger: &mut |_| {},
    };
    let outcome = run(plan, policy, &mut listeners);
    let violations = outcome.checks.violations();
    assert!(violations.is_empty(), "{violations:?}");
    (outcome, rows)
}

/// In every bin of every link the parts add up to what is missing, to the bit.
fn adds_up(deficits: &[LinkDeficit]) {
    for link in deficits {
        for bin in 0..link.asked_bits.len() {
            let missing = i128::from(link.asked_bits[bin]) - i128::from(link.achieved_bits[bin]);
            let parts: i128 = link
                .parts
                .iter()
                .filter_map(|part| part.bits.get(bin))
                .map(|bits| i128::from(*bits))
                .sum();
            assert_eq!(missing, parts, "bin {bin} of {} to {}", link.source, link.destination);
        }
    }
}

/// Share of each cause in the bits that are missing: `wait place`, or the kind of part.
fn shares(link: &LinkDeficit) -> BTreeMap<String, f64> {
    let missing = |part: &&weir_measure::deficit::PartSeries| part.part != DeficitPart::Ahead;
    let all: i64 = link.parts.iter().filter(missing).map(|part| part.total_bits).sum();
    let mut shares = BTreeMap::new();
    for part in link.parts.iter().filter(missing) {
        let name = match (part.wait, &part.place) {
            (Some(wait), Some(place)) => format!("{wait} {place}"),
            (Some(wait), None) => wait.to_string(),
            _ => format!("{:?}", part.part),
        };
        shares.insert(name, part.total_bits as f64 / all as f64);
    }
    shares
}
