//! Runs every input that the fuzz targets begin with, and those that once found something.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod targets;

use proptest::prelude::*;

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus.rs"));

/// A crash that was fixed must stay fixed, and a corpus must not get lost.
#[test]
fn corpora_hold() {
    run("sim_flows", targets::flows);
    run("sim_worlds", targets::worlds);
}

/// A corpus of worlds that are all refused would try the reader alone.
#[test]
fn the_worlds_of_the_corpus_can_be() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/sim_worlds");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        weir_plan::Challenge::parse(&text, "corpus.toml".as_ref()).unwrap();
    }
}

/// Texts that stand in a file in place of a number, a size or a time.
const VALUES: [&str; 22] = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1e-300",
    "1e300",
    "1e400",
    "0.5",
    "1000000",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "nan",
    "\"1 bps\"",
    "\"1 Pbps\"",
    "\"0 s\"",
    "\"1 ns\"",
    "\"100 ms\"",
    "\"366 d\"",
    "\"1 B\"",
    "[]",
];

/// Where numbers and texts stand in a text.
fn values(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut from, mut quoted) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        let part = quoted || c == '"' || c.is_ascii_digit() || (from.is_some() && matches!(c, '.' | 'e' | '-'));
        match (part, from) {
            (true, None) => from = Some(at),
            (false, Some(begin)) => {
                found.push(begin..at);
                from = None;
            }
            _ => {}
        }
        quoted ^= c == '"';
    }
    found
}

fn corpus(name: &str) -> Vec<String> {
    let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn damaged(name: &str) -> impl Strategy<Value = String> + use<> {
    let changes = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::sample::select(VALUES.to_vec())),
        1..4,
    );
    (prop::sample::select(corpus(name)), changes).prop_map(|(mut text, changes)| {
        for (place, value) in changes {
            let places = values(&text);
            if !places.is_empty() {
                text.replace_range(place.get(&places).clone(), value);
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// If this fails, a number that nobody expected stops the network, or makes one that is none.
    #[test]
    fn any_number_in_a_flows_file_is_run_or_refused(text in damaged("sim_flows")) {
        targets::flows(text.as_bytes());
    }

    /// If this fails, a number that nobody expected stops the world, or breaks its rules.
    #[test]
    fn any_number_in_a_world_is_run_or_refused(text in damaged("sim_worlds")) {
        targets::worlds(text.as_bytes());
    }
}
