//! Shared resources and the calendar of the simulated world.

use weir_model::RseName;
use weir_units::{BitRate, Timestamp};

use crate::{RATES, problems, valid, with};

/// `[[sim.group]]` is on line 13.
fn group(lines: &str) -> String {
    with(&format!("{RATES}[[sim.group]]\n{lines}"))
}

/// A group would hold others than it names, or something else than it says.
#[test]
fn a_group_is_read() {
    let text = "[[sim.segment]]\nname = \"sea\"\ncapacity = \"1 Gb/s\"\n";
    let challenge = valid(&format!(
        "{}{text}",
        group(
            "name = \"g\"\nrses = [\"A\", \"C*\"]\ndirection = \"out\"\ncapacity = \"5 Gb/s\"\nmax_active = 7\nmax_rate = \"4 Gb/s\"\n"
        )
    ));
    let [group] = &challenge.sim.groups[..] else { panic!() };
    let has = ["A", "B", "C"].map(|rse| group.has(&RseName::new(rse).unwrap()));
    assert_eq!((has, group.directions), ([true, false, true], [false, true]));
    assert_eq!(
        (group.max_active, group.max_rate),
        (Some(7), Some(BitRate(4_000_000_000)))
    );
    let names: Vec<&str> = challenge
        .sim
        .all_segments()
        .map(|segment| segment.name.as_str())
        .collect();
    assert_eq!(names, ["sea", "g"]);
}

/// A slip in a group would pass, or be told without its place and its remedy.
#[test]
fn faults_of_groups() {
    let check = |lines: &str, expected: &str| assert_eq!(problems(&group(lines)), expected, "for\n{lines}");
    check(
        "rses = [\"A\"]\ncapacity = \"1 Gb/s\"",
        "c.toml:13: sim.group.name: is missing; add name (name)",
    );
    check(
        "name = \"g\"\nmax_active = 1",
        "c.toml:13: sim.group.rses: is missing; add rses = [\"…\"]: the RSEs that share it",
    );
    check(
        "name = \"g\"\nrses = []\nmax_active = 1",
        "c.toml:15: sim.group.rses: names nobody; write the RSEs that share it",
    );
    check(
        "name = \"g\"\nrses = [\"A\", \"D-*\"]\nmax_active = 1",
        "c.toml:15: sim.group.rses: no RSE of the grid fits \"D-*\"; use the RSEs of the grid, or *",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]",
        "c.toml:14: sim.group.name: the group \"g\" holds nothing back; add capacity, max_active or max_rate",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]\ndirection = \"inn\"\nmax_active = 1",
        "c.toml:16: sim.group.direction: \"inn\" is not known here; did you mean \"in\"?",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]\nmax_active = 0",
        "c.toml:16: sim.group.max_active: must be above zero; write 1 or more",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]\nmax_rate = \"1 Gb/s\"\nbackground = \"1 Mb/s\"",
        "c.toml:17: sim.group.background: there is no capacity that this could be a part of; add capacity",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]\nmax_active = 1\n[[sim.segment]]\nname = \"g\"\ncapacity = \"1 Gb/s\"",
        "c.toml:14: sim.group.name: a segment has the name \"g\" too; give each its own name",
    );
    check(
        "name = \"g\"\nrses = [\"A\"]\nmax_active = 1\n[[sim.group]]\nname = \"g\"\nrses = [\"B\"]\nmax_active = 1",
        "c.toml:18: sim.group.name: another group has the name \"g\" too; give each its own name",
    );
}

/// The calendar of the simulated world would be another than the file's.
#[test]
fn the_start_is_a_moment() {
    let start = |text: &str| with(&format!("{RATES}[sim]\nstart = {text}\n"));
    let challenge = valid(&start("\"2024-02-12T00:00:00Z\""));
    assert_eq!(challenge.sim.start, Some(Timestamp::from_secs(1_707_696_000)));
    assert_eq!(
        problems(&start("\"2024-02-30T00:00:00Z\"")),
        "c.toml:14: sim.start: \"2024-02-30T00:00:00Z\" is no moment; write date and time in UTC, such as \"2024-02-12T00:00:00Z\""
    );
}
