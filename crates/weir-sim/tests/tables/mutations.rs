//! Damaged files: whatever they hold, they are read or refused with reasons.

use std::path::Path;

use proptest::prelude::*;
use weir_model::file::Problem;
use weir_plan::{Challenge, Overrides, TEMPLATE};
use weir_sim::SimPlan;

/// A file with every table and many kinds of values.
const FULL: &str = r#"
name = "full"
seed = 7
scale = 0.5
phases = { ramp = "1 s", hold = "10 s", drain = "5 s" }
[grid]
name = "g"
vo = "v"
storage = { quota = "1 GB", durability = "full", checksums = ["md5"] }
transfer = { max_active_per_link = 5, retries = 0, retry_delay = "0 s" }
[[grid.site]]
name = "S"
tier = 0
[[grid.rse]]
name = "A"
site = "S"
read_only = true
[[grid.rse]]
name = "B"
url = "https://host:1/x"
token_issuer = { token_url = "https://i/t", client_id = "c", secret_file = "f", ca = "ca" }
[[grid.rse]]
name = "C"
url = "https://[::1]:1/x"
token_file = "t"
[[workload]]
kind = "rates"
rates = [{ source = "A", destination = "B", rate = "1 Mb/s" }, { source = "B", destination = "C", rate = "2 MB/s" }]
files_min = 3
[[workload]]
kind = "matrix"
sizes = ["1 MB"]
links = ["A->B"]
modes = ["push"]
[[workload]]
kind = "ramp"
name = "r"
parallel = [1, 2]
file_size = "1 kB"
mode = "pull"
[[threshold]]
site = "*"
metric = "egress_ratio"
min = 0.5
[[threshold]]
link = "A->B"
metric = "achieved"
min = "100 kb/s"
max = "1 Gb/s"
[sim]
tick = "1 s"
targets = ["rates"]
marker_interval = "5 s"
rtt_exponent = 0.5
store = { latency = "5 ms", freezes = [{ at = "1 m", length = "30 s" }] }
tokens = { rate = 12.5, per_attempt = 2 }
fts = { link_max = 50, mode = 3, scheduler_interval = "2 s" }
[[sim.activity]]
activity = "Data Challenge"
priority = 5
[[sim.segment]]
name = "sea"
capacity = "1 Gb/s"
background = "100 Mb/s"
background_variation = 0.25
changes = [{ at = "1 h", capacity = "0 b/s" }]
[[sim.site]]
site = "*"
in = "10 Gb/s"
spread = 0.5
[[sim.rse]]
rse = "B*"
read_curve = [{ active = 10, rate = "1 Gb/s" }, { active = 20, rate = "500 Mb/s" }]
servers = [{ count = 3, rate = "1 Gb/s", slots = 5 }]
outages = [{ at = "2 m", length = "1 m" }]
failures = { timeout = 0.1, checksum = 0.01 }
[[sim.link]]
link = "A->*"
via = ["sea"]
window = "4 MiB"
"#;

/// Replaces a piece of a text, at most `length` characters from a place, by another.
fn damaged(text: &str, place: prop::sample::Index, length: usize, piece: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let from = place.index(characters.len());
    let to = (from + length).min(characters.len());
    let (before, behind) = (&characters[..from], &characters[to..]);
    before
        .iter()
        .copied()
        .chain(piece.chars())
        .chain(behind.iter().copied())
        .collect()
}

fn piece() -> impl Strategy<Value = String> {
    let words = [
        "",
        "\n",
        "=",
        "-",
        "0",
        "99999999999999999999",
        "[",
        "]]",
        "{",
        "\"",
        "\"\"",
        "é",
        "nan",
        "true",
        "[[rse]]",
        "* ",
    ];
    prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        "\\PC{0,8}"
    ]
}

/// The text that is damaged would be refused, so that nothing behind its first fault is tested.
#[test]
fn the_full_file_is_valid() {
    crate::valid(FULL);
}

/// Each problem says what is wrong, where and what helps.
fn check(problems: &[Problem], text: &str) -> Result<(), TestCaseError> {
    prop_assert!(!problems.is_empty());
    for problem in problems {
        prop_assert!(!problem.message.is_empty() && !problem.remedy.is_empty(), "{}", problem);
        prop_assert!(
            problem.line.is_none_or(|line| line <= text.lines().count() + 1),
            "{}",
            problem
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// A damaged file would crash the reader, be refused without a reason, or resolve to what its own copy does not.
    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0_usize..2, place: prop::sample::Index, length in 0_usize..40, piece in piece(),
    ) {
        let text = damaged([TEMPLATE, FULL][which], place, length, &piece);
        match Challenge::parse(&text, Path::new("c.toml")) {
            Ok(challenge) => {
                let Ok(plan) = challenge.resolve(&Overrides::default()) else { return Ok(()) };
                let world = SimPlan::of(plan.clone());
                if let Err(problems) = &world {
                    check(problems, &text)?;
                }
                let summary = plan.summary();
                prop_assert!(summary.starts_per_second.is_finite());
                let again = Challenge::parse(&plan.resolved, Path::new("c.toml"));
                let again = again.unwrap().resolve(&Overrides::default()).unwrap();
                prop_assert_eq!(&again, &plan);
                prop_assert_eq!(SimPlan::of(again).ok(), world.ok());
            }
            Err(problems) => {
                check(&problems, &text)?;
            }
        }
    }
}
