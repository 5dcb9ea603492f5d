#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use super::*;
use crate::spec::{Challenge, Overrides};

const TEXT: &str = r#"
name = "INC-T1"
[incident]
title = "t"
story = "s"
source = "r"
[grid]
name = "g"
[[grid.rse]]
name = "CERN"
[[grid.rse]]
name = "RAL"
[phases]
ramp = "1 m"
hold = "10 m"
drain = "2 m"
[[workload]]
kind = "rates"
rates = [{ source = "CERN", destination = "RAL", rate = "5 Gb/s" }]
[[fault]]
kind = "slow-write"
rse = "RAL"
rate = "1 Gb/s"
at = "4 m"
[sim]
[[sim.segment]]
name = "sea"
capacity = "20 Gb/s"
[[sim.link]]
link = "CERN->RAL"
via = ["sea"]
[expect]
class = ["storage-data-path"]
wait = "disk"
place = "rse-in:RAL"
[remedy]
text = "r"
"#;

fn template() -> Template {
    Template {
        incident: Incident::parse(TEXT, Path::new("t.toml")).unwrap(),
        text: TEXT.to_owned(),
    }
}

fn challenge(draft: &Draft) -> Challenge {
    let challenge = Challenge::parse(&draft.text, Path::new("d.toml"))
        .unwrap_or_else(|problems| panic!("{problems:?}\n{}", draft.text));
    challenge.resolve(&Overrides::default()).unwrap();
    challenge
}

/// A score could not be repeated.
#[test]
fn a_seed_draws_the_same_again() {
    let of = |seed, attempt| draw(&template(), Purpose::Pair, seed, "case", attempt);
    assert_eq!(of(1, 0), of(1, 0));
    assert_ne!(of(1, 0), of(2, 0));
    assert_ne!(of(1, 0), of(1, 1));
}

/// A diagnosis would know a place by the name that it had in the template.
#[test]
fn no_name_is_left_of_the_template() {
    for seed in 0..50 {
        for purpose in [Purpose::Variant, Purpose::Twin, Purpose::Pair, Purpose::Healthy] {
            let draft = draw(&template(), purpose, seed, "case", 0);
            for name in ["CERN", "RAL", "sea", "MORE0"] {
                let has_word = |text: &str| {
                    text.split(|letter: char| !letter.is_alphanumeric())
                        .any(|word| word == name)
                };
                assert!(!has_word(&draft.text), "{name}:\n{}", draft.text);
                let mut places = draft.causes.iter().flat_map(|cause| &cause.places);
                assert!(places.all(|place| !has_word(place)), "{:?}", draft.causes);
            }
            let challenge = challenge(&draft);
            let faults = challenge.faults.len();
            let known = match purpose {
                Purpose::Healthy => (0, 0),
                Purpose::Variant | Purpose::Twin => (1, 1),
                // The second may come to nothing.
                Purpose::Pair => (faults, faults),
            };
            assert_eq!((draft.causes.len(), faults), known, "{}", draft.text);
        }
    }
}

/// A truth would name the place of before, or another fault.
#[test]
fn causes_follow_their_faults() {
    let draft = draw(&template(), Purpose::Variant, 7, "case", 0);
    let destination = match &challenge(&draft).faults[0].place {
        crate::FaultPlace::Rse(rse, _) => rse.to_string(),
        other => panic!("{other:?}"),
    };
    let cause = &draft.causes[0];
    assert_eq!(cause.classes, ["storage-data-path"]);
    assert_eq!(cause.places, [format!("rse-in:{destination}")]);
    let twin = draw(&template(), Purpose::Twin, 7, "case", 0);
    assert_eq!(twin.axes["twin"], "capacity for slow-write");
    assert_eq!(twin.causes[0].classes, ["shared-capacity"]);
    assert!(twin.causes[0].places[0].starts_with("site-in:"), "{:?}", twin.causes);
}

#[test]
fn whole_words_have_new_names() {
    let names = BTreeMap::from([("RAL".to_owned(), "KOBA".to_owned())]);
    assert_eq!(
        names::renamed("path:RAL→RALPP, RAL->X_RAL", &names),
        "path:KOBA→RALPP, KOBA->X_RAL"
    );
}
