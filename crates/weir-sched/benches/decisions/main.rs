//! Measures what decisions cost: `cargo bench -p weir-sched`.
//!
//! A *round* is what happens in a second: 200 transfers end in one step, and the records of that step become durable in the
//! next; so the core records the ends, learns from them, and starts as many others. Machines are noisy: figures are CPU time
//! of the core's thread; what is compared is measured in turn, round by round, in one run. `-- --short` leaves out what
//! needs 30 million transfers.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an instrument reads the clock and prints"
)]

mod load;
mod plain;

use std::time::Duration;

use load::{Load, Scale};
use plain::Plain;
use weir_units::Bytes;

const COMPLETIONS: usize = 200;
const ROUNDS: usize = 1_000;

const DC24: Scale = Scale {
    queued: 3_000_000,
    links: 2_000,
    ses: 120,
    active: 20_000,
};
const DEEP: Scale = Scale {
    queued: 30_000_000,
    ..DC24
};
const WIDE: Scale = Scale { links: 10_000, ..DEEP };

fn main() {
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    let rounds = if asked("--test") { 3 } else { ROUNDS };
    println!(
        "{:<62} {:>10} {:>10}",
        "one round: 200 ends, what follows, 200 starts", "p50", "p99"
    );
    let (mut dc24, _) = measured(DC24);
    row(DC24, (0..rounds).map(|_| dc24.round(COMPLETIONS)));
    if asked("--short") || asked("--test") {
        plain(&mut dc24, rounds);
        return optimiser(&mut dc24, rounds);
    }
    let (mut deep, bytes) = measured(DEEP);
    row(DEEP, (0..rounds).map(|_| deep.round(COMPLETIONS)));
    let pairs: Vec<[Duration; 2]> = (0..rounds)
        .map(|_| [dc24.round(COMPLETIONS), deep.round(COMPLETIONS)])
        .collect();
    let ratios = pairs.iter().map(|[few, many]| many.as_secs_f64() / few.as_secs_f64());
    println!(
        "{:<62} {:>9.2}x",
        "30 million / 3 million queued, median of paired rounds",
        median(ratios)
    );
    drop(deep);
    plain(&mut dc24, rounds);
    optimiser(&mut dc24, rounds);
    println!("{:<62} {bytes:>8} B", "memory per queued transfer, 30 million queued");
    let (mut wide, _) = measured(WIDE);
    row(WIDE, (0..rounds).map(|_| wide.round(COMPLETIONS)));
}

/// The load, and the memory that each of its transfers takes.
fn measured(scale: Scale) -> (Load, u64) {
    let before = resident();
    let load = Load::new(scale);
    let bytes = resident().saturating_sub(before) / scale.queued;
    (load, bytes)
}

fn row(scale: Scale, times: impl Iterator<Item = Duration>) {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let name = format!(
        "{} million queued, {} links, {} RSEs, {} active",
        scale.queued / 1_000_000,
        scale.links,
        scale.ses,
        scale.active
    );
    println!("{name:<62} {:>7.3} ms {:>7.3} ms", millis(p50), millis(p99));
}

/// The same rounds, decided by a scan over an ordered map.
fn plain(dc24: &mut Load, rounds: usize) {
    let mut plain = Plain::new(DC24);
    let rounds = rounds.min(5);
    let pairs = (0..rounds).map(|turn| [dc24.round(COMPLETIONS), plain.round(COMPLETIONS, turn)]);
    let pairs: Vec<[Duration; 2]> = pairs.collect();
    let name = "the same by a scan over a BTreeMap, 3 million queued";
    println!(
        "{name:<62} {:>7.1} ms",
        median(pairs.iter().map(|pair| millis(pair[1])))
    );
    let ratios = pairs
        .iter()
        .map(|[weir, plain]| plain.as_secs_f64() / weir.as_secs_f64());
    println!(
        "{:<62} {:>9.0}x",
        "BTreeMap / Weir, median of paired rounds",
        median(ratios)
    );
}

/// A report of every tenth transfer, five seconds after the last: all links and storage elements learn and decide.
fn optimiser(dc24: &mut Load, rounds: usize) {
    let times = (1..=rounds.min(100) as u64).map(|n| dc24.markers(DC24.links as usize, Bytes(250_000_000 * n)));
    let median = median(times.map(millis));
    println!(
        "{:<62} {median:>7.3} ms",
        "optimiser: 2,000 reports, over all of 2,000 links"
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split_whitespace().nth(1);
    let resident = resident.and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}
