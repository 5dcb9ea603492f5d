//! `[[fault]]`: what is broken on purpose.

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use weir_plan::fault::{FaultKind, Gauge, PlaceKey};
use weir_plan::{Challenge, Overrides, Plan};

use crate::{RATES, plan, problems, valid, with};

fn broken(fault: &str) -> String {
    format!("{}[[fault]]\n{fault}", with(RATES))
}

fn seconds(course: &[(Duration, f64)]) -> Vec<(f64, f64)> {
    course.iter().map(|(at, level)| (at.as_secs_f64(), *level)).collect()
}

/// The smallest table of a kind at one of its places.
fn smallest(kind: FaultKind, place: PlaceKey) -> String {
    let row = kind.row();
    let mut text = format!("kind = \"{kind}\"\n");
    let at = match place {
        PlaceKey::Rse => "rse = \"B\"\n".to_owned(),
        PlaceKey::Site => "site = \"*\"\n".to_owned(),
        PlaceKey::Link => "link = \"A->*\"\n".to_owned(),
        PlaceKey::Segment => "segment = \"uplink\"\n".to_owned(),
        PlaceKey::Service(service) => format!("service = \"{}\"\n", service.as_str()),
        PlaceKey::Workload => "workload = \"rates\"\n".to_owned(),
    };
    text.push_str(&at);
    let value = |key: &str| match key {
        "rate" => "\"8 Mb/s\"",
        // A skewed clock has an effect from a minute on.
        "delay" => "\"80 s\"",
        "share" => "0.25",
        "size" => "\"2 MB\"",
        "factor" => "0.5",
        "error" => "\"timeout\"",
        "mode" => "\"pull\"",
        "above" => "\"1 MB\"",
        "to" => "\"other\"",
        _ => "7",
    };
    let keys = row
        .gauge
        .key()
        .into_iter()
        .chain(row.details.iter().map(|key| key.trim_end_matches('!')));
    for key in keys {
        writeln!(text, "{key} = {}", value(key)).unwrap();
    }
    text
}

/// A kind could be listed and not be written, or a run folder would hold another fault than was asked for.
#[test]
fn every_kind_reads_and_reads_back() {
    for kind in FaultKind::ALL {
        for place in kind.row().places {
            let planned = plan(&broken(&smallest(*kind, *place)), &Overrides::default());
            let [fault] = planned.faults.as_slice() else {
                panic!("{kind}")
            };
            assert_eq!(fault.kind, *kind);
            assert_eq!(fault.amount_text().is_none(), kind.row().gauge == Gauge::Whole);
            let again = valid(&planned.resolved);
            assert_eq!(again.faults[0], *fault, "{}", planned.resolved);
        }
    }
}

/// A fault without effect would be taken for one that does nothing.
#[test]
fn amounts_of_nothing_are_refused() {
    for (fault, said) in [
        (
            "kind = \"slow-read\"\nrse = \"A\"\nrate = \"0 b/s\"",
            "must be above zero; write a rate above zero; to stop everything use the kind \"outage\"",
        ),
        ("kind = \"slow-read\"\nrse = \"A\"\nrate = \"-1 Mb/s\"", "fault.rate"),
        (
            "kind = \"slow-close\"\nrse = \"A\"\ndelay = \"0 s\"",
            "must be above zero",
        ),
        (
            "kind = \"uneven\"\nrse = \"A\"\nshare = 0.0",
            "0 is no share of anything",
        ),
        (
            "kind = \"uneven\"\nrse = \"A\"\nshare = 1.5",
            "1.5 is no share of anything",
        ),
        ("kind = \"connections\"\nrse = \"A\"\nlimit = 0", "must be above zero"),
        (
            "kind = \"volume\"\nworkload = \"rates\"\nfactor = 1",
            "1 changes nothing",
        ),
        (
            "kind = \"volume\"\nworkload = \"rates\"\nfactor = -1",
            "-1 is out of range",
        ),
        ("kind = \"outage\"\nrse = \"A\"\nfor = \"0 s\"", "must be above zero"),
    ] {
        let found = problems(&broken(fault));
        assert!(found.contains(said), "{found}");
    }
    valid(&broken("kind = \"wrong-counters\"\nrse = \"A\"\nfactor = -1"));
}

/// A mistyped place, or one of another kind, would break nothing.
#[test]
fn places_that_are_not_there_are_refused() {
    for (fault, said) in [
        (
            "kind = \"outage\"\nrse = \"D\"",
            "there is no RSE \"D\" to break; use one of A, B, C",
        ),
        ("kind = \"outage\"\nlink = \"A->D*\"", "there is no RSE \"D*\" to break"),
        ("kind = \"outage\"\nlink = \"A\"", "\"A\" is not a link"),
        (
            "kind = \"pause\"\nworkload = \"rate\"",
            "there is no workload \"rate\" to break; did you mean \"rates\"?",
        ),
        ("kind = \"outage\"\nservice = \"disk\"", "\"disk\" is not known here"),
        (
            "kind = \"slow-read\"\nsite = \"A\"\nrate = \"1 Mb/s\"",
            "slow-read does not act at a site; name its place by rse",
        ),
        (
            "kind = \"slow-read\"\nrate = \"1 Mb/s\"",
            "is missing; slow-read acts at a place: add rse",
        ),
        ("kind = \"outage\"\nrse = \"A\"\nsite = \"A\"", "stands beside rse"),
        (
            "kind = \"slow-read\"\nrse = \"A\"\nway = \"in\"\nrate = \"1 Mb/s\"",
            "slow-read has no direction at a rse",
        ),
        (
            "kind = \"slow-read\"\nrse = \"A\"\nrate = \"1 Mb/s\"\nshare = 0.5",
            "slow-read takes no share",
        ),
        ("kind = \"failures\"\nrse = \"A\"\nshare = 0.5", "failures needs it"),
        (
            "kind = \"failures\"\nrse = \"A\"\nshare = 0.5\nerror = \"rain\"",
            "\"rain\" is not known here",
        ),
        ("kind = \"slow-reed\"\nrse = \"A\"", "did you mean \"slow-read\"?"),
        (
            "kind = \"tape-buffer\"\nrse = \"A\"",
            "cannot be made yet: it comes with tape",
        ),
        (
            "kind = \"outage\"\nrse = \"A\"\nshape = \"periodic\"",
            "is missing; add period",
        ),
        (
            "kind = \"outage\"\nrse = \"A\"\nperiod = \"1 s\"",
            "the shape \"step\" has no period",
        ),
        (
            "kind = \"outage\"\nrse = \"A\"\nshape = \"ramp\"",
            "is missing; add rise",
        ),
        (
            "kind = \"outage\"\nrse = \"A\"\nshape = \"periodic\"\nperiod = \"1 s\"\non = 1.0",
            "1 of a period is no part of it",
        ),
    ] {
        let found = problems(&broken(fault));
        assert!(found.contains(said), "{found}\nis not\n{said}");
    }
}

/// The later of two would win without a word.
#[test]
fn contradictions_are_refused() {
    let two = |one: &str, other: &str| {
        broken(&format!(
            "kind = \"slow-read\"\nname = \"one\"\nrate = \"1 Mb/s\"\n{one}\n[[fault]]\nkind = \"slow-read\"\nname = \"two\"\nrate = \"2 Mb/s\"\n{other}"
        ))
    };
    let found = problems(&two("rse = \"A\"\nat = \"10 s\"", "rse = \"*\"\nat = \"20 s\""));
    assert!(
        found.contains("c.toml:24: fault.at: it contradicts the fault \"one\""),
        "{found}"
    );
    valid(&two(
        "rse = \"A\"\nat = \"10 s\"\nfor = \"10 s\"",
        "rse = \"*\"\nat = \"20 s\"",
    ));
    valid(&two("rse = \"A\"", "rse = \"B\""));
    let found = problems(&broken(
        "kind = \"outage\"\nrse = \"A\"\n[[fault]]\nkind = \"outage\"\nsite = \"A\"",
    ));
    assert!(found.contains("two faults are called \"outage\""), "{found}");
}

#[test]
fn courses_are_those_of_their_shapes() {
    let course = |text: &str| {
        let plan = plan(
            &broken(&format!("kind = \"outage\"\nrse = \"A\"\n{text}")),
            &Overrides::default(),
        );
        seconds(&plan.faults[0].course(plan.seed, Duration::from_secs(100)))
    };
    assert_eq!(course("at = \"10 s\"\nfor = \"5 s\""), [(10.0, 1.0), (15.0, 0.0)]);
    assert_eq!(course("at = \"10 s\""), [(10.0, 1.0)]);
    assert_eq!(course("at = \"200 s\""), []);
    let ramp = course("at = \"10 s\"\nfor = \"30 s\"\nshape = \"ramp\"\nrise = \"20 s\"");
    assert_eq!(
        (ramp[0], ramp[1], ramp[19], ramp[20]),
        ((10.0, 0.05), (11.0, 0.1), (29.0, 1.0), (40.0, 0.0))
    );
    assert_eq!(
        course("at = \"10 s\"\nfor = \"25 s\"\nshape = \"periodic\"\nperiod = \"10 s\"\non = 0.2"),
        [
            (10.0, 1.0),
            (12.0, 0.0),
            (20.0, 1.0),
            (22.0, 0.0),
            (30.0, 1.0),
            (32.0, 0.0)
        ]
    );
    assert_eq!(
        course("at = \"10 s\"\nfor = \"6 s\"\nshape = \"periodic\"\nperiod = \"10 s\"\non = 0.9"),
        [(10.0, 1.0), (16.0, 0.0)]
    );
}

proptest! {
    /// A run would end with a fault that its file had ended, or the same file would break at other times.
    #[test]
    fn a_course_ends_and_repeats(at in 0..50_u64, length in 1..60_u64, period in 1..20_u64, seed in 0..9_u64, shape in 0..3_usize) {
        let shape = ["periodic", "flapping", "ramp"][shape];
        let own = if shape == "ramp" { String::new() } else { format!("period = \"{period} s\"") };
        let text = broken(&format!("kind = \"outage\"\nrse = \"A\"\nat = \"{at} s\"\nfor = \"{length} s\"\nshape = \"{shape}\"\n{own}"));
        let fault = valid(&text).faults[0].clone();
        let end = Duration::from_secs(200);
        let course = fault.course(seed, end);
        prop_assert_eq!(&course, &fault.course(seed, end));
        prop_assert!(course.windows(2).all(|pair| pair[0].0 < pair[1].0));
        prop_assert_eq!(course[0], (fault.at, if shape == "ramp" { 0.05 } else { 1.0 }));
        let last = course.last().unwrap();
        prop_assert!(last.1 == 0.0 && last.0 <= fault.until().unwrap());
    }

    /// Any table is read or refused.
    #[test]
    fn any_fault_is_read_or_refused(key in "[a-z]{2,8}", value in "[0-9]{1,4}|\"[a-zA-Z0-9/ .>-]{0,12}\"|true") {
        let _ = Challenge::parse(&broken(&format!("kind = \"outage\"\n{key} = {value}\n")), "c.toml".as_ref());
    }
}

#[test]
fn a_plan_tells_its_faults() {
    let plan: Plan = plan(
        &broken("kind = \"slow-read\"\nrse = \"A\"\nrate = \"8 Mb/s\"\nat = \"1 m\""),
        &Overrides::default(),
    );
    let fault = &plan.faults[0];
    assert_eq!(
        (fault.place.to_string(), fault.amount_text().unwrap()),
        ("rse A".to_owned(), "8 Mb/s".to_owned())
    );
    assert_eq!(fault.name, "slow-read");
}
