//! Worlds drawn at random: the account is whole in each of them.

use std::fmt::Write;

use proptest::prelude::*;
use weir_sim::policies::Policy;

use super::{adds_up, parse, simulate};

fn maybe<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.4, value)
}

#[allow(clippy::struct_excessive_bools, reason = "each is one switch of the world")]
#[derive(Debug, Clone)]
struct Limits {
    write: Option<u32>,
    read: Option<u32>,
    site: Option<u32>,
    capacity: Option<u32>,
    stream: Option<u32>,
    connections: Option<u32>,
    slots: Option<u32>,
    readback: bool,
    overwrite: Option<u32>,
    tokens: Option<u32>,
    failures: Option<u32>,
    stalls: bool,
    outage: Option<u32>,
    freeze: Option<u32>,
    tick: bool,
    rules: bool,
}

fn limits() -> impl Strategy<Value = Limits> {
    let rates = (
        maybe(1..40_u32),
        maybe(1..40_u32),
        maybe(1..40_u32),
        maybe(1..40_u32),
        maybe(1..10_u32),
    );
    let places = (
        maybe(1..6_u32),
        maybe(1..6_u32),
        any::<bool>(),
        maybe(1..100_u32),
        maybe(1..40_u32),
    );
    let troubles = (
        maybe(1..60_u32),
        any::<bool>(),
        maybe(0..60_u32),
        maybe(0..60_u32),
        any::<bool>(),
        any::<bool>(),
    );
    (rates, places, troubles).prop_map(|(rates, places, troubles)| Limits {
        write: rates.0,
        read: rates.1,
        site: rates.2,
        capacity: rates.3,
        stream: rates.4,
        connections: places.0,
        slots: places.1,
        readback: places.2,
        overwrite: places.3,
        tokens: places.4,
        failures: troubles.0,
        stalls: troubles.1,
        outage: troubles.2,
        freeze: troubles.3,
        tick: troubles.4,
        rules: troubles.5,
    })
}

fn text(limits: &Limits, seed: u64) -> String {
    let mut text = format!(
        r#"
name = "random"
seed = {seed}
[grid]
name = "g"
[grid.catalog]
[grid.transfer]
max_active_per_link = {slots}
max_active_per_rse_in = 8
retries = 2
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "20 s"
hold = "60 s"
drain = "20 s"
[[workload]]
kind = "rates"
{inject}
file_size_min = "1 MB"
file_size_max = "30 MB"
cycle = "10 s"
lifetime = "1 m"
rates = [
  {{ source = "A", destination = "B", rate = "30 Mb/s" }},
  {{ source = "B", destination = "A", rate = "10 Mb/s" }},
  {{ source = "C", destination = "B", rate = "20 Mb/s" }},
]
[sim]
tick = "{tick}"
"#,
        slots = limits.slots.unwrap_or(20),
        inject = if limits.rules {
            "inject = \"rules\""
        } else {
            "inject = \"transfers\""
        },
        tick = if limits.tick { "1 s" } else { "0 s" },
    );
    if let Some(at) = limits.freeze {
        write!(
            text,
            "[sim.store]\nfreezes = [{{ at = \"{at} s\", length = \"9 s\" }}]\n"
        )
        .unwrap();
    }
    if let Some(rate) = limits.tokens {
        writeln!(text, "[sim.tokens]\nrate = {}", f64::from(rate) / 10.0).unwrap();
    }
    if let Some(rate) = limits.site {
        write!(text, "[[sim.site]]\nsite = \"B\"\nin = \"{rate} Mb/s\"\n").unwrap();
    }
    text.push_str("[[sim.rse]]\nrse = \"B\"\n");
    for (key, rate) in [("write", limits.write), ("read", limits.read)] {
        if let Some(rate) = rate {
            writeln!(text, "{key} = \"{rate} Mb/s\"").unwrap();
        }
    }
    if limits.readback {
        text.push_str("readback = true\n");
    }
    if let Some(places) = limits.connections {
        writeln!(text, "write_connections = {places}").unwrap();
    }
    if let Some(share) = limits.overwrite {
        write!(
            text,
            "overwrite = {}\ndelete_time = \"2 s\"\n",
            f64::from(share) / 100.0
        )
        .unwrap();
    }
    if let Some(at) = limits.outage {
        writeln!(text, "outages = [{{ at = \"{at} s\", length = \"15 s\" }}]").unwrap();
    }
    text.push_str("[[sim.link]]\nlink = \"*->*\"\n");
    for (key, rate) in [("capacity", limits.capacity), ("stream_rate", limits.stream)] {
        if let Some(rate) = rate {
            writeln!(text, "{key} = \"{rate} Mb/s\"").unwrap();
        }
    }
    if let Some(share) = limits.failures {
        let share = f64::from(share) / 300.0;
        writeln!(
            text,
            "failures = {{ network = {share}, checksum = {share}, permission = {share} }}"
        )
        .unwrap();
    }
    if limits.stalls {
        text.push_str("stalls = 0.05\n");
    }
    text
}

proptest! {
    /// Not a bit is lost, whatever goes wrong; states with their times are those of the links, and none is negative.
    #[test]
    fn every_missing_bit_has_a_part(limits in limits(), seed in 0..1_000_000_u64, policy in 0..Policy::ALL.len()) {
        let plan = parse(&text(&limits, seed));
        let (outcome, rows) = simulate(&plan, Policy::ALL[policy]);
        let deficits = outcome.measured.deficits();
        prop_assert_eq!(deficits.len(), 3);
        adds_up(&deficits);
        for (at, link) in deficits.iter().enumerate() {
            let achieved: i64 = link.achieved_bits.iter().sum();
            let rows = rows.iter().filter(|row| outcome.scene.asks[row.ask].link == at);
            let delivered: u64 = rows.filter(|row| row.state == weir_sched::Settled::Finished).map(|row| row.size * 8).sum();
            // A rule may end before its transfer, whose bytes then came without a row of it.
            prop_assert!(limits.rules || achieved == delivered as i64, "{achieved} bits of {delivered}");
            prop_assert!(link.parts.iter().all(|part| (part.total_bits < 0) == (part.part == weir_measure::deficit::DeficitPart::Ahead)));
            prop_assert!(link.parts.iter().all(|part| part.part != weir_measure::deficit::DeficitPart::Unexplained), "{:#?}", link.parts);
        }
    }
}
