//! Simulated worlds that cannot be, or that would never end: each is refused with its line, its key and what to do.

use super::{RATES, problems, with};

/// The tables of `world` begin on line 13.
#[track_caller]
fn refused(world: &str, expected: &str) {
    assert_eq!(
        problems(&format!("{}{world}", with(RATES))),
        format!("c.toml:{expected}")
    );
}

const NO_RATE: &str = "write a number and a unit, such as \"5 Gb/s\"";

/// If this fails, a world without end is run, or one that does not move at all.
#[test]
fn steps_and_ticks_have_bounds() {
    let too_short = "is too short; write at least \"100ms\"";
    let long = "is so long that transfers begin and end in one tick; write at most \"1m\"";
    for (line, expected) in [
        (
            "marker_interval = \"1 ns\"",
            format!("14: sim.marker_interval: {too_short}"),
        ),
        (
            "fts.scheduler_interval = \"99 ms\"",
            format!("14: sim.fts.scheduler_interval: {too_short}"),
        ),
        (
            "fts.scheduler_interval = \"0 s\"",
            format!("14: sim.fts.scheduler_interval: {too_short}"),
        ),
        (
            "fts.optimizer_interval = \"1 us\"",
            format!("14: sim.fts.optimizer_interval: {too_short}"),
        ),
        (
            "fts.restart_interval = \"1 ms\"",
            format!("14: sim.fts.restart_interval: {too_short}"),
        ),
        ("tick = \"61 s\"", format!("14: sim.tick: {long}")),
        (
            "store.latency = \"2 h\"",
            "14: sim.store.latency: is no time for a commit; write at most \"1h\"; freezes may last longer".to_owned(),
        ),
        (
            "startup = \"9000 d\"",
            "14: sim.startup: is longer than a year; write at most \"366 d\"".to_owned(),
        ),
    ] {
        refused(&format!("[sim]\n{line}\n"), &expected);
    }
}

/// If this fails, a capacity of nothing, of everything or in another unit reaches the network.
#[test]
fn capacities_are_rates_above_zero() {
    let nothing = "carries nothing; write a rate above zero; for a time without bytes use outages or changes";
    for (value, expected) in [
        ("\"0 b/s\"", nothing.to_owned()),
        ("\"inf Gb/s\"", format!("rate \"inf Gb/s\" does not start with a number; {NO_RATE}")),
        ("\"nan b/s\"", format!("rate \"nan b/s\" does not start with a number; {NO_RATE}")),
        ("\"-1 Gb/s\"", format!("rate \"-1 Gb/s\" is negative; {NO_RATE}")),
        ("inf", format!("rate inf has no unit; {NO_RATE}, in quotes")),
        ("10", "rate 10 has no unit; add a unit, such as \"10 Gb/s\", in quotes".to_owned()),
        (
            "\"10 Gb\"",
            "rate \"10 Gb\" has an unknown unit \"Gb\"; use one of b/s, kb/s, Mb/s, Gb/s, Tb/s (bits) or MB/s, GB/s (bytes)"
                .to_owned(),
        ),
        ("\"2 Pb/s\"", "2 Pb/s is too large; write at most 1 Pb/s".to_owned()),
    ] {
        refused(
            &format!("[[sim.link]]\nlink = \"A->B\"\ncapacity = {value}\n"),
            &format!("15: sim.link.capacity: {expected}"),
        );
    }
}

/// If this fails, a slip in a name changes the world without a word.
#[test]
fn names_are_known() {
    for (world, expected) in [
        (
            "[sim]\ntargets = [\"rate\"]\n",
            "14: sim.targets: there is no workload \"rate\"; did you mean \"rates\"?",
        ),
        (
            "[[sim.activity]]\nactivity = \"Production\"\npriority = 5\n",
            "14: sim.activity.activity: there is no activity \"Production\"; use one of Data Challenge",
        ),
        (
            "[[sim.rse]]\nrse = \"Z\"\n",
            "14: sim.rse.rse: no rse of the grid fits \"Z\"; use one of A, B, C",
        ),
        (
            "[[sim.link]]\nlink = \"A->B\"\nvia = [\"sea\"]\n",
            "15: sim.link.via: there is no segment \"sea\"; add a [[sim.segment]] of that name",
        ),
        (
            "[[sim.rse]]\nrse = \"A\"\nreed = 1\n",
            "15: sim.rse.reed: unknown key; did you mean \"read\"?",
        ),
        (
            "[[sim.rse]]\nrse = \"A\"\nrse = \"B\"\n",
            "15: duplicate key; keep one of the two",
        ),
    ] {
        refused(world, expected);
    }
}

/// If this fails, a share or a count reaches the world that is none.
#[test]
fn shares_and_counts_have_bounds() {
    for (line, expected) in [
        (
            "stalls = nan",
            "15: sim.link.stalls: is not a finite number; write a number",
        ),
        (
            "stalls = 1.5",
            "15: sim.link.stalls: 1.5 is not a share; write a number from 0 to 1",
        ),
        (
            "spread = inf",
            "15: sim.link.spread: is not a finite number; write a number",
        ),
        (
            "streams = 0",
            "15: sim.link.streams: must be above zero; write 1 or more",
        ),
        ("streams = -4", "15: sim.link.streams: -4 is negative; write 0 or more"),
        (
            "window = \"0 B\"",
            "15: sim.link.window: must be above zero; write a size such as \"16 MiB\"",
        ),
        (
            "window = \"9223372036854775808 B\"",
            "15: sim.link.window: 9.223372036854775808 EB is too large; write at most 1 TB",
        ),
        (
            "failures = { timeout = 0.6, tls = 0.6 }",
            "15: sim.link.failures: the shares add up to more than 1; make them smaller",
        ),
    ] {
        refused(&format!("[[sim.link]]\nlink = \"*->*\"\n{line}\n"), expected);
    }
    let servers = "{ count = 1000000, rate = \"1 Gb/s\" },".repeat(5000);
    refused(
        &format!("[[sim.rse]]\nrse = \"A\"\nservers = [{servers}]\n"),
        "15: sim.rse.servers: 4294967295 servers are too many; write at most 64; join those of one kind into fewer, faster ones",
    );
}

/// If this fails, a device without end fills the memory.
#[test]
fn files_without_end_are_refused() {
    let found = problems(&format!("sim = \"/dev/zero\"\n{}", with(RATES)));
    assert_eq!(
        found,
        "c.toml:1: sim: the file /dev/zero does not end; name a file of at most 16 MiB"
    );
}
