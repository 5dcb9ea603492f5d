//! Incident files: three tables beside a challenge.

use std::time::Duration;

use weir_plan::Incident;

use crate::{RATES, with};

const TABLES: &str = r#"
[[fault]]
kind = "slow-read"
rse = "A"
rate = "1 Mb/s"
at = "20 s"
[[fault]]
kind = "outage"
name = "trigger"
rse = "B"
at = "30 s"
for = "5 s"
[incident]
title = "A: slow"
story = "It was slow."
source = "a report"
[expect]
class = ["storage-data-path"]
wait = "disk"
place = "rse-out:A"
[remedy]
text = "faster disks"
without = ["slow-read"]
[remedy.change.grid.transfer]
max_active_per_link = 3
"#;

fn file(tables: &str) -> String {
    format!("{}{tables}", with(RATES))
}

#[test]
fn the_remedy_is_laid_over_the_challenge() {
    let incident = Incident::parse(&file(TABLES), "INC-1.toml".as_ref()).unwrap();
    assert_eq!((incident.id.as_str(), incident.title.as_str()), ("c", "A: slow"));
    let expect = &incident.expect;
    assert_eq!(
        (expect.begins, expect.from, expect.until),
        (
            Duration::from_secs(20),
            Duration::from_secs(20),
            Duration::from_secs(70)
        )
    );
    let names = |faults: &[weir_plan::Fault]| faults.iter().map(|fault| fault.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&incident.challenge.faults), ["slow-read", "trigger"]);
    assert_eq!(names(&incident.mended.faults), ["trigger"]);
    assert_eq!(incident.mended.grid.transfer.max_active_per_link, 3);
    assert_ne!(incident.challenge.grid.transfer.max_active_per_link, 3);
    assert_eq!(incident.mended.workloads, incident.challenge.workloads);
}

#[test]
fn incomplete_incidents_are_refused() {
    let problems = |from: &str, to: &str| {
        assert!(TABLES.contains(from), "{from}");
        let list = Incident::parse(&file(&TABLES.replace(from, to)), "INC-1.toml".as_ref()).expect_err(to);
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (from, to, said) in [
        ("class = [\"storage-data-path\"]", "", "expect.class: is missing"),
        (
            "wait = \"disk\"",
            "",
            "expect.wait: is missing; add wait, error or finding",
        ),
        (
            "wait = \"disk\"",
            "wait = \"disk\"\nfinding = \"rumour\"",
            "\"rumour\" is not known here; use one of crosscheck, audit, unstable",
        ),
        (
            "wait = \"disk\"",
            "wait = \"disk\"\nuntil = \"10 s\"",
            "expect.until: is not after from",
        ),
        (
            "without = [\"slow-read\"]",
            "without = [\"slow-reed\"]",
            "there is no fault \"slow-reed\"",
        ),
        ("max_active_per_link = 3", "max_active_per_link = 0", "with its remedy:"),
        (
            "title = \"A: slow\"",
            "titel = \"A: slow\"",
            "incident.titel: unknown key; did you mean \"title\"?",
        ),
    ] {
        let found = problems(from, to);
        assert!(found.contains(said), "{found}\nis not\n{said}");
    }
    let list = Incident::parse(&with(RATES), "INC-1.toml".as_ref()).unwrap_err();
    assert!(
        list[0].to_string().contains("incident: is missing; add [incident]"),
        "{}",
        list[0]
    );
}
