#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

use weir_world::Place;

use super::super::statement::Alternative;
use super::*;

fn truth() -> Truth {
    Truth {
        classes: vec!["storage-data-path".to_owned()],
        places: vec!["rse-in:B".to_owned()],
        faults: vec!["f".to_owned()],
        links: vec!["A→B".to_owned()],
        from_s: 240.0,
        until_s: 600.0,
        asked_bps: 5e9,
        held_bps: 2e9,
        is_open: false,
    }
}

fn case(truths: Vec<Truth>) -> Case {
    let kind = [CaseKind::Healthy, CaseKind::One, CaseKind::Two][truths.len()];
    Case {
        id: "c".to_owned(),
        kind,
        template: "INC-T1".to_owned(),
        axes: BTreeMap::new(),
        truths,
    }
}

fn statement() -> Statement {
    Statement {
        class: CauseClass::StorageDataPath,
        place: Place::parse("rse-in:B"),
        links: vec!["A→B".to_owned()],
        from_s: 250.0,
        until_s: 600.0,
        asked_bps: 5e9,
        held_bps: 2.1e9,
        probability: 0.8,
        others: Vec::new(),
        is_open: false,
        said_s: None,
        text: String::new(),
        evidence: Vec::new(),
        via: Vec::new(),
        advice: String::new(),
        settle: String::new(),
    }
}

/// Half an answer would count as a whole one.
#[test]
fn every_part_of_a_statement_counts() {
    let right = |statement: Statement| judge(&case(vec![truth()]), &[statement], 10.0).is_right;
    assert!(right(statement()));
    let other = Statement {
        class: CauseClass::Admission,
        ..statement()
    };
    assert!(!right(other));
    for place in [None, Place::parse("rse-out:B")] {
        assert!(!right(Statement { place, ..statement() }));
    }
    for (from_s, until_s) in [(310.0, 600.0), (240.0, 380.0), (170.0, 600.0)] {
        assert!(
            !right(Statement {
                from_s,
                until_s,
                ..statement()
            }),
            "{from_s} to {until_s}"
        );
    }
    assert!(!right(Statement {
        held_bps: 2.4e9,
        ..statement()
    }));
    // The surest counts.
    let sure = Statement {
        class: CauseClass::Admission,
        probability: 0.9,
        ..statement()
    };
    let both = judge(&case(vec![truth()]), &[statement(), sure], 10.0);
    assert_eq!((both.is_right, both.named, both.correct), (false, 2, 1));
    assert!(both.wrong.unwrap().contains("admission"));
}

/// An answer that leaves two open would be a way to be always right.
#[test]
fn an_open_answer_counts_where_the_sources_are_open() {
    let open = Statement {
        class: CauseClass::Admission,
        is_open: true,
        others: vec![Alternative {
            class: CauseClass::StorageDataPath,
            place: Place::parse("rse-in:B"),
            probability: 0.4,
        }],
        ..statement()
    };
    let judged = judge(&case(vec![truth()]), std::slice::from_ref(&open), 10.0);
    assert_eq!((judged.is_right, judged.named), (false, 0));
    let truth = Truth {
        is_open: true,
        ..truth()
    };
    assert!(judge(&case(vec![truth]), &[open], 10.0).is_right);
}

#[test]
fn silence_is_right_where_nothing_is_wrong() {
    let healthy = case(Vec::new());
    let silent = judge(&healthy, &[], 10.0);
    assert!(silent.is_right && silent.brier == 0.0);
    let alarm = judge(&healthy, &[statement()], 10.0);
    assert!(!alarm.is_right && alarm.brier > 1.0);
    let missed = judge(&case(vec![truth()]), &[], 10.0);
    assert!(!missed.is_right && missed.brier == 2.0);
    let of = score(&[silent, alarm, missed]);
    assert_eq!(
        (of.false_alarms.hits, of.false_alarms.of, of.strict.hits, of.n_one),
        (1, 2, 0, 1)
    );
}

#[test]
fn two_causes_are_found_or_not() {
    let other = Truth {
        classes: vec!["admission".to_owned()],
        places: vec!["rse-in:*".to_owned()],
        ..truth()
    };
    let both = case(vec![truth(), other]);
    let admission = Statement {
        class: CauseClass::Admission,
        place: Place::parse("rse-in:C"),
        ..statement()
    };
    assert!(judge(&both, &[statement(), admission.clone()], 10.0).is_right);
    assert!(!judge(&both, &[statement()], 10.0).is_right);
    assert!(!judge(&both, &[statement(), admission.clone(), admission], 10.0).is_right);
}

#[test]
fn shares_have_the_interval_of_wilson() {
    let share = Share::of(8, 10);
    // Newcombe, Statistics in Medicine 17 (1998), method 3, computed by hand.
    assert!(
        (share.low - 0.4902).abs() < 1e-3 && (share.high - 0.9433).abs() < 1e-3,
        "{share:?}"
    );
    assert_eq!(Share::of(0, 0).share, None);
    assert!(Share::of(0, 300).high < 0.013);
}

#[test]
fn probabilities_are_held_against_what_is_right() {
    let of = |probability: f64, is_right: bool| Judged {
        sure: vec![(probability, is_right)],
        ..judge(&case(Vec::new()), &[], 10.0)
    };
    let score = score(&[of(0.91, true), of(0.95, false), of(1.0, true), of(0.2, false)]);
    assert_eq!(score.reliability.len(), 2);
    let (mean, right, number) = score.reliability[1];
    assert!((mean - 0.9533).abs() < 1e-3 && (right - 2.0 / 3.0).abs() < 1e-9 && number == 3);
}
