//! Measures the simulator: `cargo run --release -p weir-sim --example simulation_cost -- [--rounds N] [--only TEXT]
//! [--json FILE]`.
//!
//! Time is CPU time of the simulating thread, which other programs on the machine lengthen little; on a quiet machine it is
//! the time that passes. Every round runs in a process of its own, whose high-water mark is the peak of its memory. Figures
//! are medians over the rounds, except that the row that takes minutes is run once.
//!
//! What takes how much of it is sampled: the simulation shows what it works at ([`weir_sim::world::Probe`]), and another
//! thread looks each millisecond.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "an instrument prints and samples from another thread, and a panic is how it fails"
)]

mod flows;
mod measure;
mod scenes;

use std::process::Command;

use measure::Figure;
use serde_json::{Value, json};

/// What is measured together, in one process.
struct Group {
    name: &'static str,
    measure: fn() -> Vec<Figure>,
    /// It takes minutes.
    once: bool,
}

const GROUPS: [Group; 4] = [
    Group {
        name: "12 hours",
        measure: scenes::twelve_hours,
        once: false,
    },
    Group {
        name: "12 days",
        measure: scenes::twelve_days,
        once: true,
    },
    Group {
        name: "10,000 flows",
        measure: flows::ten_thousand,
        once: false,
    },
    Group {
        name: "100,000 flows",
        measure: flows::hundred_thousand,
        once: false,
    },
];

fn main() {
    let (mut rounds, mut only, mut file, mut child) = (3, String::new(), None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => rounds = value.parse().expect("--rounds takes a number"),
            "--only" => only = value,
            "--json" => file = Some(value),
            "--child" => child = Some(value),
            other => panic!("unknown argument {other}; there are --rounds N, --only TEXT and --json FILE"),
        }
    }
    if let Some(name) = child {
        let group = GROUPS.iter().find(|group| group.name == name).unwrap();
        println!("{}", serde_json::to_string(&(group.measure)()).unwrap());
        return;
    }
    println!(
        "{:<68} {:>10} {:>10} {:>6}",
        "the simulator; medians", "measured", "to reach", "share"
    );
    let mut rows = Vec::new();
    for group in GROUPS.iter().filter(|group| group.name.contains(&only)) {
        let rounds = if group.once { 1 } else { rounds };
        let measured: Vec<Vec<Figure>> = (0..rounds).map(|_| in_a_process(group.name)).collect();
        for place in 0..measured[0].len() {
            let figure = measure::median(measured.iter().map(|round| &round[place]));
            println!("{figure}");
            rows.push(figure.to_json());
        }
    }
    if let Some(file) = file {
        let document: Value = json!({ "schema": "weir-simulation-bench/1", "rounds": rounds, "rows": rows });
        std::fs::write(&file, serde_json::to_string_pretty(&document).unwrap() + "\n").unwrap();
    }
}

fn in_a_process(group: &str) -> Vec<Figure> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--child", group])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{group}: {error}\n{text}\n{said}"))
}
