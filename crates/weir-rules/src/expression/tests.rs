#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

struct Rse(BTreeMap<String, String>);

impl Attributes for Rse {
    fn attribute(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// An RSE for each word of a text: its name, then its attributes.
fn rse(text: &str) -> Rse {
    let mut words = text.split(' ');
    let name = words.next().unwrap().to_owned();
    let attributes = words.map(|word| word.split_once('=').unwrap_or((word, "true")));
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Rse(attributes.chain([(name, "true".to_owned())]).collect())
}

fn grid() -> Vec<(&'static str, Rse)> {
    [
        ("CERN", "CERN tier=0 country=ch disk free=10.5"),
        ("RAL", "RAL tier=1 country=uk disk=True"),
        ("RAL-TAPE", "RAL-TAPE tier=1 country=uk disk=False istape free=3"),
        ("QMUL", "QMUL tier=2 country=uk disk rack=a.b"),
    ]
    .map(|(name, text)| (name, rse(text)))
    .into()
}

fn check(expression: &str, expected: &[&str]) {
    let parsed = expression.parse::<Expression>().unwrap();
    let grid = grid();
    let found = grid.iter().filter(|(_, rse)| parsed.matches(rse));
    let found = found.map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn expressions_mean_what_they_mean_in_rucio() {
    check("*", &["CERN", "RAL", "RAL-TAPE", "QMUL"]);
    check("CERN", &["CERN"]);
    check("CERN|RAL", &["CERN", "RAL"]);
    check("tier=1", &["RAL", "RAL-TAPE"]);
    check("tier=1&country=uk\\istape", &["RAL"]);
    check("disk", &["CERN", "RAL", "QMUL"]);
    check("disk=true", &["CERN", "RAL", "QMUL"]);
    check("disk=False", &["RAL-TAPE"]);
    check("tier<2", &["CERN", "RAL", "RAL-TAPE"]);
    check("free>5", &["CERN"]);
    check("NOWHERE", &[]);
    // From left to right: (CERN|QMUL)&country=uk.
    check("CERN|QMUL&country=uk", &["QMUL"]);
    check("CERN|(QMUL&country=uk)", &["CERN", "QMUL"]);
    check("*\\(tier=1|tier=2)", &["CERN"]);
}

#[test]
fn the_grammar_takes_more_than_rucios() {
    check(" tier=1 & ( country = uk ) ", &["RAL", "RAL-TAPE"]);
    check("tier!=1", &["CERN", "QMUL"]);
    check("free!=3", &["CERN", "RAL", "QMUL"]);
    check("free<=10.5", &["CERN", "RAL-TAPE"]);
    check("tier>=1", &["RAL", "RAL-TAPE", "QMUL"]);
    check("rack=a.b", &["QMUL"]);
}

fn refused(expression: &str, expected: &str) {
    assert_eq!(expression.parse::<Expression>().unwrap_err().to_string(), expected);
}

#[test]
fn refusals_say_where() {
    let start = "an RSE, an attribute, * or (";
    refused(
        "",
        &format!("RSE expression: expected {start} at character 1, found the end"),
    );
    refused(
        "A|&B",
        &format!("RSE expression: expected {start} at character 3, found '&'"),
    );
    refused("A B", "RSE expression: expected |, & or \\ at character 3, found 'B'");
    refused(
        "(A",
        "RSE expression: expected |, &, \\ or ) at character 3, found the end",
    );
    refused("A)", "RSE expression: expected |, & or \\ at character 2, found ')'");
    refused(
        "tier=",
        "RSE expression: expected a value at character 6, found the end",
    );
    refused(
        "tier<x",
        "RSE expression: tier is compared with \"x\", which is no number",
    );
    refused(
        "A'; DROP",
        "RSE expression: expected |, & or \\ at character 2, found '\\''",
    );
    refused(
        "é",
        &format!("RSE expression: expected {start} at character 1, found 'é'"),
    );
    refused(
        &"(".repeat(51),
        "RSE expression: parentheses are nested deeper than 50 at character 51",
    );
    refused(
        &"A".repeat(3001),
        "the RSE expression has 3001 bytes, at most 3000 are read",
    );
    assert!(
        format!("{}A{}", "(".repeat(50), ")".repeat(50))
            .parse::<Expression>()
            .is_ok()
    );
}

/// The same by sets of names, as the grammar is usually explained.
fn reference(chain: &Chain) -> BTreeSet<&'static str> {
    let of = |term: &Term| match term {
        Term::Group(chain) => reference(chain),
        term => {
            let grid = grid();
            let found = grid.iter().filter(|(_, rse)| term.matches(rse));
            found.map(|(name, _)| *name).collect()
        }
    };
    chain
        .rest
        .iter()
        .fold(of(&chain.first), |set, (operator, term)| match operator {
            Operator::Or => &set | &of(term),
            Operator::And => &set & &of(term),
            Operator::Without => &set - &of(term),
        })
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "*",
        "CERN",
        "RAL",
        "tier=1",
        "tier<2",
        "country!=uk",
        "istape",
        "X",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(4, 32, 4, |inner| {
        let operator = prop::sample::select(vec!["|", "&", "\\", " | "]);
        let chain = (inner.clone(), prop::collection::vec((operator, inner), 1..4));
        chain.prop_map(|(first, rest)| {
            let rest = rest.iter().map(|(operator, term)| format!("{operator}{term}"));
            format!("({first}{})", rest.collect::<String>())
        })
    })
}

proptest! {
    #[test]
    fn sets_and_single_rses_agree(text in expressions()) {
        let parsed = text.parse::<Expression>().unwrap();
        let grid = grid();
        let found = grid.iter().filter(|(_, rse)| parsed.matches(rse)).map(|(name, _)| *name);
        prop_assert_eq!(found.collect::<BTreeSet<_>>(), reference(&parsed.chain));
        prop_assert_eq!(parsed.as_str().parse::<Expression>().unwrap(), parsed);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[A-Z0-9=<>!|&\\\\()* .é']{0,40}") {
        let _ = text.parse::<Expression>();
    }
}
