//! Each kind of fault does in a simulated world what it says, where and when it says so, and nothing after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_measure::deficit::{DeficitPart, LinkDeficit};
use weir_measure::report::{Build, Report};
use weir_plan::{Challenge, FaultKind, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::report::report;

use super::{adds_up, parse, simulate};

/// From A to B and from C to B, 5 Gb/s each in files of 1 GB: nothing holds them back. The fault is on from 2 to 4 minutes.
fn world(fault: &str, more: &str) -> String {
    format!(
        r#"
name = "broken"
[grid]
name = "g"
[grid.transfer]
max_active_per_link = 40
max_active_per_rse_in = 60
max_active_per_rse_out = 60
retries = 2
retry_delay = "10 s"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "10 s"
hold = "6 m"
drain = "1 m"
[[workload]]
kind = "rates"
file_size_min = "1 GB"
file_size_max = "1 GB"
cycle = "4 s"
rates = [
  {{ source = "A", destination = "B", rate = "5 Gb/s" }},
  {{ source = "C", destination = "B", rate = "5 Gb/s" }},
]
[[fault]]
name = "broken"
at = "2 m"
for = "2 m"
{fault}
[sim]
startup = "100 ms"
finalization = "100 ms"
[[sim.link]]
link = "*->*"
via = ["sea"]
[[sim.segment]]
name = "sea"
capacity = "100 Gb/s"
[[sim.segment]]
name = "cape"
capacity = "4 Gb/s"
[[sim.rse]]
rse = "B"
servers = [{{ count = 2, rate = "20 Gb/s", slots = 100 }}]
[[sim.rse]]
rse = "B"
{more}
"#
    )
}

/// A run with its report, as the binary makes it.
fn run(text: &str) -> Report {
    let plan = parse(text);
    let (outcome, _) = simulate(&plan, Policy::Weir);
    let build = Build {
        version: String::new(),
        commit: None,
    };
    let report = report(&plan, Policy::Weir, outcome, "", build);
    adds_up(&report.deficits);
    report
}

/// The share of the asked bits between two moments that did not move, and the causes of what is missing, by their share.
fn missing(link: &LinkDeficit, from: f64, to: f64) -> (f64, BTreeMap<String, f64>) {
    let bins = (from / link.bin_s) as usize..(to / link.bin_s) as usize;
    let asked: i64 = link.asked_bits[bins.clone()].iter().map(|bits| *bits as i64).sum();
    let achieved: i64 = link.achieved_bits[bins.clone()].iter().sum();
    let mut parts = BTreeMap::new();
    for part in link.parts.iter().filter(|part| part.part != DeficitPart::Ahead) {
        let bits: i64 = bins.clone().filter_map(|bin| part.bits.get(bin)).sum();
        let name = match (part.wait, &part.place) {
            (Some(wait), Some(place)) => format!("{wait} {place}"),
            (Some(wait), None) => wait.to_string(),
            _ => format!("{:?}", part.part),
        };
        *parts.entry(name).or_insert(0.0) += bits as f64 / asked as f64;
    }
    ((asked - achieved) as f64 / asked as f64, parts)
}

/// Kinds whose effect is a deficit: the fault, tables that it needs, the cause that it must have.
const DEFICITS: &[(&str, &str, &str)] = &[
    (
        "kind = \"slow-read\"\nrse = \"A\"\nrate = \"2 Gb/s\"",
        "",
        "disk rse-out:A",
    ),
    (
        "kind = \"slow-write\"\nrse = \"B\"\nrate = \"4 Gb/s\"",
        "",
        "disk rse-in:B",
    ),
    (
        "kind = \"slow-disk\"\nrse = \"B\"\nrate = \"4 Gb/s\"",
        "",
        "disk rse-in:B",
    ),
    (
        "kind = \"slow-stream\"\nrse = \"A\"\nrate = \"50 Mb/s\"",
        "",
        "disk rse-out:A",
    ),
    (
        "kind = \"slow-close\"\nrse = \"B\"\ndelay = \"2 m\"",
        "",
        "close rse-in:B",
    ),
    (
        "kind = \"read-back\"\nrse = \"B\"",
        "disk = \"12 Gb/s\"",
        "checksum rse-in:B",
    ),
    (
        "kind = \"mixing\"\nrse = \"B\"\nshare = 0.9",
        "disk = \"20 Gb/s\"\nreadback = true",
        "checksum rse-in:B",
    ),
    (
        "kind = \"connections\"\nrse = \"B\"\nway = \"in\"\nlimit = 2",
        "stream_rate = \"1 Gb/s\"",
        "place rse-in:B",
    ),
    (
        "kind = \"overload\"\nrse = \"B\"\nlimit = 10\nrate = \"6 Gb/s\"",
        "",
        "disk rse-in:B",
    ),
    (
        "kind = \"crash\"\nrse = \"B\"\nlimit = 4\ndelay = \"20 s\"",
        "stream_rate = \"1 Gb/s\"",
        "pause path:A→B",
    ),
    (
        "kind = \"slow-server\"\nrse = \"B\"\nserver = 1\nrate = \"500 Mb/s\"",
        "imbalance = 1.0",
        "disk server:B#1",
    ),
    (
        "kind = \"uneven\"\nrse = \"B\"\nshare = 1.0",
        "servers = [{ rate = \"1 Gb/s\" }, { rate = \"20 Gb/s\" }]",
        "disk server:B#1",
    ),
    ("kind = \"outage\"\nrse = \"B\"", "", "disk rse-in:B"),
    ("kind = \"outage\"\nsite = \"B\"\nway = \"in\"", "", "network site-in:B"),
    ("kind = \"outage\"\nlink = \"A->B\"", "", "network path:A→B"),
    ("kind = \"outage\"\nsegment = \"sea\"", "", "network segment:sea"),
    (
        "kind = \"outage\"\nservice = \"transfer\"",
        "",
        "store service:transfer",
    ),
    ("kind = \"outage\"\nservice = \"issuer\"", "", "token issuer:tokens"),
    (
        "kind = \"slow-delete\"\nrse = \"B\"\ndelay = \"40 s\"",
        "overwrite = 1.0",
        "delete rse-in:B",
    ),
    (
        "kind = \"overwrite\"\nrse = \"B\"\nshare = 1.0",
        "delete_time = \"100 s\"",
        "delete rse-in:B",
    ),
    ("kind = \"quota\"\nrse = \"B\"\nsize = \"5 GB\"", "", "retry"),
    (
        "kind = \"failures\"\nrse = \"A\"\nway = \"out\"\nerror = \"overload\"\nshare = 0.9",
        "",
        "pause path:A→B",
    ),
    (
        "kind = \"failures\"\nlink = \"A->B\"\nerror = \"checksum\"\nabove = \"1 MB\"\nmode = \"pull\"\nshare = 1",
        "",
        "Failed",
    ),
    (
        "kind = \"capacity\"\nsite = \"B\"\nway = \"in\"\nrate = \"4 Gb/s\"",
        "",
        "network site-in:B",
    ),
    (
        "kind = \"capacity\"\nlink = \"A->B\"\nrate = \"2 Gb/s\"",
        "",
        "network path:A→B",
    ),
    (
        "kind = \"capacity\"\nsegment = \"sea\"\nrate = \"4 Gb/s\"",
        "",
        "network segment:sea",
    ),
    (
        "kind = \"foreign-load\"\nsegment = \"sea\"\nrate = \"96 Gb/s\"",
        "",
        "network segment:sea",
    ),
    (
        "kind = \"round-trip\"\nlink = \"A->B\"\ndelay = \"2 s\"",
        "",
        "window path:A→B",
    ),
    (
        "kind = \"window\"\nlink = \"A->B\"\nsize = \"64 kB\"",
        "",
        "window path:A→B",
    ),
    (
        "kind = \"packet-loss\"\nlink = \"A->B\"\nshare = 0.01",
        "",
        "window path:A→B",
    ),
    ("kind = \"mtu\"\nlink = \"A->B\"\nsize = \"1 MB\"", "", "data path:A→B"),
    (
        "kind = \"reroute\"\nlink = \"*->B\"\nto = \"cape\"",
        "",
        "network segment:cape",
    ),
    ("kind = \"frozen-site\"\nsite = \"A\"", "", "disk rse-out:A"),
    ("kind = \"killed-site\"\nsite = \"B\"", "", "disk rse-in:B"),
    ("kind = \"skewed-clock\"\nsite = \"B\"\ndelay = \"10 m\"", "", "retry"),
    (
        "kind = \"slots\"\nlink = \"A->B\"\nlimit = 1",
        "stream_rate = \"1 Gb/s\"",
        "slots path:A→B",
    ),
    (
        "kind = \"slots\"\nrse = \"B\"\nway = \"in\"\nlimit = 2",
        "stream_rate = \"1 Gb/s\"",
        "slots rse-in:B",
    ),
    (
        "kind = \"late-decisions\"\nservice = \"transfer\"\ndelay = \"1 m\"",
        "",
        "store service:transfer",
    ),
    (
        "kind = \"slow-store\"\nservice = \"transfer\"\ndelay = \"50 s\"",
        "",
        "store service:transfer",
    ),
    ("kind = \"frozen-store\"", "", "store service:transfer"),
    ("kind = \"slow-issuer\"\ndelay = \"60 s\"", "", "token issuer:tokens"),
    ("kind = \"failing-issuer\"\nshare = 0.9", "", "retry"),
    ("kind = \"pause\"\nworkload = \"rates\"", "", "NotInjected"),
    (
        "kind = \"volume\"\nworkload = \"rates\"\nfactor = 0.3",
        "",
        "NotInjected",
    ),
    (
        "kind = \"controller\"\nworkload = \"*\"\nlimit = 3\ndelay = \"30 s\"",
        "stream_rate = \"500 Mb/s\"",
        "NotInjected",
    ),
];

/// A fault would act elsewhere, at another time, or not at all.
#[test]
fn faults_do_what_they_say() {
    let mut wrong = Vec::new();
    for (fault, more, cause) in DEFICITS {
        let report = run(&world(fault, more));
        let link = &report.deficits[0];
        let (before, _) = missing(link, 60.0, 115.0);
        let (missed, mut parts) = missing(link, 130.0, 240.0);
        let all = parts.clone();
        // Slots fill up behind whatever is slow.
        parts.retain(|name, _| {
            cause.starts_with("slots") || !name.starts_with("slots") && !name.starts_with("optimiser")
        });
        let largest = parts.iter().max_by(|one, other| one.1.total_cmp(other.1));
        let is_named = largest.is_some_and(|(name, share)| name == cause && *share > 0.02);
        let effect = report.faults[0].effect;
        if before > 0.05 || missed < 0.1 || !is_named || effect != Some(true) {
            wrong.push(format!(
                "{fault}: not {cause}: before {before:.3}, missed {missed:.3} of {all:.3?}, effect {effect:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every kind must be in some test of this file.
#[test]
fn no_kind_is_left_out() {
    let tested: BTreeSet<&str> = DEFICITS
        .iter()
        .filter_map(|(fault, ..)| fault.split('"').nth(1))
        .collect();
    let others = include_str!("faults.rs");
    for kind in FaultKind::ALL {
        let mentioned = others.matches(&format!("\\\"{kind}\\\"")).count();
        assert!(tested.contains(kind.as_str()) || mentioned > 0, "{kind} is not tested");
    }
}

/// A counter that lies would look like a loss of data, or a loss of data like nothing.
#[test]
fn counters_and_files_that_are_gone_are_found_out() {
    let of = |report: &Report| {
        let check = report.crosschecks.iter().find(|check| check.subject == "B").cloned();
        check.map(|check| (check.pass, check.receiving_storage.is_some(), check.note))
    };
    let double = run(&world("kind = \"wrong-counters\"\nrse = \"B\"\nfactor = 2", ""));
    assert_eq!(of(&double), Some((Some(false), true, None)));
    let negative = of(&run(&world("kind = \"wrong-counters\"\nrse = \"B\"\nfactor = -9", ""))).unwrap();
    assert!(negative.0.is_none() && negative.2.unwrap().contains("less than nothing"));
    let silent = of(&run(&world("kind = \"missing-counters\"\nrse = \"B\"", ""))).unwrap();
    assert!(silent.0.is_none() && silent.2.unwrap().contains("did not count"));
    let late = of(&run(&world(
        "kind = \"late-counters\"\nrse = \"B\"\ndelay = \"1 h\"",
        "",
    )))
    .unwrap();
    assert_eq!((late.0, late.1), (Some(false), true));
    assert_eq!(double.faults[0].effect, Some(false), "a counter moves no byte");
    for fault in ["kind = \"vanish\"", "kind = \"corrupt\""] {
        let spoilt = run(&world(&format!("{fault}\nrse = \"B\"\nshare = 0.1"), ""));
        let audit = spoilt.audit.unwrap();
        assert!(audit.failed > 0 && audit.failed < audit.files / 5, "{audit:?}");
    }
}

/// Files that are not there, tokens that are too old, and small files.
#[test]
fn workloads_and_tokens_break() {
    let absent = run(&world(
        "kind = \"missing-source\"\nworkload = \"rates\"\nshare = 0.5",
        "",
    ));
    assert!(
        absent
            .errors
            .iter()
            .any(|error| error.class == "not-found" && error.count > 20),
        "{:?}",
        absent.errors
    );
    let old = run(&world(
        "kind = \"token-lifetime\"\ndelay = \"5 s\"\n[[fault]]\nkind = \"slots\"\nlink = \"A->B\"\nlimit = 2\nat = \"2 m\"\nfor = \"2 m\"",
        "stream_rate = \"1 Gb/s\"",
    ));
    let (missed, parts) = missing(&old.deficits[0], 130.0, 240.0);
    assert!(missed > 0.3 && parts["retry"] > 0.2, "{parts:?}");
    let plan = parse(&world(
        "kind = \"small-files\"\nworkload = \"rates\"\nsize = \"10 MB\"",
        "",
    ));
    let (_, rows) = simulate(&plan, Policy::Weir);
    let is_small = |row: &&weir_sim::world::Row| row.size <= 10_000_000;
    let small: Vec<_> = rows.iter().filter(is_small).collect();
    assert!(small.len() > 5_000, "{}", small.len());
    assert!(
        small
            .iter()
            .all(|row| (120.0..=245.0).contains(&row.injected.as_secs_f64()))
    );
    let comb = parse(&world("kind = \"comb\"\nworkload = \"rates\"\ndelay = \"30 s\"", ""));
    let (_, rows) = simulate(&comb, Policy::Weir);
    let moments: BTreeSet<u64> = rows
        .iter()
        .map(|row| row.injected.as_millis())
        .filter(|at| (125_000..235_000).contains(at))
        .collect();
    assert!((2..=8).contains(&moments.len()), "{moments:?}");
}

/// A slow link holds the slots of a storage that others need, where files start in the order in which they came.
#[test]
fn fifo_lets_slow_links_hold_the_slots() {
    let world = |slow: &str| {
        world(
            &format!("kind = \"slow-stream\"\nrse = \"C\"\nway = \"out\"\nrate = \"{slow}\"\n[[fault]]\nkind = \"fifo\"\nservice = \"transfer\""),
            "stream_rate = \"5 Gb/s\"",
        )
        .replace("max_active_per_rse_in = 60", "max_active_per_rse_in = 8")
    };
    let missed = |report: &Report| missing(&report.deficits[0], 150.0, 240.0).0;
    let (slow, fast) = (run(&world("30 Mb/s")), run(&world("4 Gb/s")));
    assert!(missed(&slow) > 0.3, "{}", missed(&slow));
    assert!(missed(&fast) < 0.05, "{}", missed(&fast));
}

/// The catalogue's faults: only where a workload makes rules.
#[test]
fn the_catalogue_is_late() {
    let ruled = |fault: &str| {
        run(&world(fault, "")
            .replace("name = \"g\"\n", "name = \"g\"\n[grid.catalog]\n")
            .replace("cycle = \"4 s\"\n", "cycle = \"4 s\"\nlifetime = \"1 m\"\n"))
    };
    for fault in [
        "kind = \"outage\"\nservice = \"catalog\"",
        "kind = \"late-submission\"\ndelay = \"50 s\"",
        "kind = \"slow-submission\"\ndelay = \"2 s\"",
    ] {
        let report = ruled(fault);
        let (missed, parts) = missing(&report.deficits[0], 125.0, 240.0);
        let catalogue = parts.get("catalogue").copied().unwrap_or_default();
        assert!(missed > 0.1 && catalogue > 0.05, "{fault}: {missed} {parts:?}");
    }
    let late = ruled("kind = \"late-deletion\"\ndelay = \"90 s\"");
    let healthy = ruled("kind = \"round-trip\"\nlink = \"*->*\"\ndelay = \"1 ms\"");
    let p95 = |report: &Report| {
        report
            .chain
            .as_ref()
            .unwrap()
            .deletions
            .as_ref()
            .unwrap()
            .delay_s
            .as_ref()
            .unwrap()
            .p95
    };
    assert!(p95(&late) > p95(&healthy) + 30.0, "{} {}", p95(&late), p95(&healthy));
    assert_eq!(healthy.faults[0].effect, Some(false));
}

/// Ramps, periods and flapping change what is left.
#[test]
fn shapes_change_the_rate() {
    let of = |shape: &str| {
        let report = run(&world(
            &format!("kind = \"slow-write\"\nrse = \"B\"\nrate = \"1 Gb/s\"\n{shape}"),
            "",
        ));
        [120.0, 150.0, 180.0, 210.0].map(|from| missing(&report.deficits[0], from, from + 30.0).0)
    };
    let ramp = of("shape = \"ramp\"");
    assert!(ramp[0] < 0.4 && ramp[3] > 0.7, "{ramp:?}");
    let periodic = of("shape = \"periodic\"\nperiod = \"1 m\"");
    assert!(
        periodic[0] > 0.5 && periodic[1] < 0.1 && periodic[2] > 0.5 && periodic[3] < 0.1,
        "{periodic:?}"
    );
    let flapping = run(&world(
        "kind = \"outage\"\nlink = \"A->B\"\nshape = \"flapping\"\nperiod = \"20 s\"",
        "",
    ));
    assert!(flapping.faults[0].times.len() >= 4, "{:?}", flapping.faults[0].times);
}

/// A fault that a world cannot make would be passed over.
#[test]
fn what_cannot_be_made_is_refused() {
    let problems = |text: &str| {
        let challenge = Challenge::parse(text, Path::new("broken.toml")).unwrap();
        let problems = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).expect_err(text);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (fault, said) in [
        (
            "kind = \"outage\"\nsegment = \"see\"",
            "fault.segment: there is no segment \"see\" to break; use one of sea, cape",
        ),
        (
            "kind = \"reroute\"\nlink = \"*->B\"\nto = \"horn\"",
            "fault.to: there is no segment \"horn\"",
        ),
        (
            "kind = \"slow-server\"\nrse = \"B\"\nserver = 3\nrate = \"1 Gb/s\"",
            "B has 2 servers in [sim]; give it 3 or more",
        ),
        (
            "kind = \"uneven\"\nrse = \"*\"\nshare = 0.5",
            "has 0 servers in [sim]; give it 2 or more",
        ),
        ("kind = \"late-submission\"\ndelay = \"1 s\"", "no workload makes rules"),
        ("kind = \"fifo\"", "a transfer service has one order for a whole run"),
        ("kind = \"outage\"\nlink = \"B->A\"", "no workload uses the link B→A"),
        (
            "kind = \"slots\"\nrse = \"A\"\nway = \"in\"\nlimit = 3",
            "no workload uses the rse A in",
        ),
        (
            "kind = \"outage\"\nsite = \"B\"\nway = \"out\"",
            "no workload uses the site B out",
        ),
    ] {
        let found = problems(&world(fault, ""));
        assert!(
            found.contains(said) && found.contains("broken.toml:"),
            "{found}\nis not\n{said}"
        );
    }
}
