//! The text and the page of a comparison.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};

use weir_sim::world::Probe;

use super::text::text;
use super::*;

/// Long names, and two sites of which one cannot take its asked rate.
const RATES: &str = include_str!("../../../../weir-sim/tests/compare.toml");

fn plan(text: &str) -> SimPlan {
    let challenge = Challenge::parse(text, "c.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

fn compared(text: &str) -> Comparison {
    let comparison = compare(&plan(text), |_| Probe::default());
    let violations = comparison.policies.iter().flat_map(|policy| &policy.violations);
    assert_eq!(violations.count(), 0);
    comparison
}

/// Anything would come out wider than a terminal, or as a page that a browser cannot read.
fn is_readable(comparison: &Comparison) {
    let lines = text(comparison);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    let data = Data::of(comparison, "weir sim compare 'a & b.toml'".to_owned());
    let page = weir_challenge::render_data(&data, &lines).unwrap();
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
    assert!(!page.contains("What <this> is about"), "text of a file is read as HTML");
}

/// The page would not name the contribution of each, the sites that fall short, and the cause.
#[test]
fn the_page_says_who_brings_what_and_why() {
    let comparison = compared(RATES);
    is_readable(&comparison);
    let page = text(&comparison).join("\n");
    for said in [
        "Asked: ",
        "Estimated optimum",
        "Most is brought by ",
        "thresholds kept",
        "NARROW",
        "wide, 4.00 Gb/s",
        "lost most to shared-capacity",
    ] {
        assert!(page.contains(said), "{said} is missing in\n{page}");
    }
    assert!(page.contains("0 of 2") && page.contains("1 of 2"), "{page}");
    let data = serde_json::to_value(Data::of(&comparison, "again".to_owned())).unwrap();
    assert_eq!(data["schema"], "weir-comparison/1");
    let full = data["causes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cause| cause["cause"] == "shared-capacity");
    assert_eq!(
        full.unwrap()["sites"].as_array().unwrap().len(),
        comparison.policies.len()
    );
    assert_eq!(data["policies"][0]["policy"], "weir");
}

/// A plan that makes rules would be compared without its catalogue, or with one of them.
#[test]
fn rules_are_compared_with_both_catalogues() {
    let text_of = RATES
        .replacen("[grid]\n", "[grid]\ncatalog = {}\n", 1)
        .replace("cycle = \"20 s\"", "cycle = \"20 s\"\nlifetime = \"2 h\"");
    let comparison = compared(&text_of);
    is_readable(&comparison);
    let names: Vec<&str> = comparison
        .policies
        .iter()
        .map(|policy| policy.policy.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "weir + weir",
            "fts-imitation + weir",
            "weir + rucio",
            "fts-imitation + rucio"
        ]
    );
    let page = text(&comparison).join("\n");
    for said in [
        "catalogue                         weir      weir     rucio     rucio",
        "rule to OK, 95 % within",
        "copies deleted",
    ] {
        assert!(page.contains(said), "{said} is missing in\n{page}");
    }
    let to_ok = |at: usize| {
        comparison.policies[at]
            .chain
            .as_ref()
            .unwrap()
            .rule_to_ok_s
            .unwrap()
            .p50
    };
    assert!(to_ok(0) < to_ok(2), "{} {}", to_ok(0), to_ok(2));
}

/// Steps would be shown as shares of nothing.
#[test]
fn steps_are_compared_by_their_time() {
    let head = RATES.split("[phases]").next().unwrap();
    let steps = "[[workload]]\nkind = \"matrix\"\nsizes = [\"1 MB\"]\n[[workload]]\nkind = \"ramp\"\nlinks = [\"SOURCE->NARROW\"]\nparallel = [1, 4]\nfile_size = \"1 GB\"\n";
    let comparison = compared(&format!("{head}{steps}"));
    is_readable(&comparison);
    let page = text(&comparison).join("\n");
    for said in ["time for all steps", "cells that worked, of 36", "SOURCE→NARROW × 4"] {
        assert!(page.contains(said), "{said} is missing in\n{page}");
    }
    assert!(!page.contains("asked"), "{page}");
}
