//! A round of measurements of catalogues.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_tests::RunningGrid;

use super::lab;
use crate::stats::median;

/// One contender's work in one round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// Units each second.
    pub(super) rate: f64,
    /// Processor time of server and database for each unit, in microseconds.
    pub(super) cpu_us: f64,
    /// Latencies that a row is about, in seconds.
    pub(super) latencies: Vec<f64>,
    /// The most memory that the process held, in bytes; 0 where the row is not about it.
    pub(super) memory: u64,
}

/// A row: for each contender its rounds.
pub(super) struct Found {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) contenders: Vec<(&'static str, Vec<Round>)>,
}

impl Found {
    /// A row of rounds on grids of this file, each a new one, with the catalogue that starts with a grid.
    pub(super) async fn on_grids(
        (name, unit): (&'static str, &'static str),
        rounds: usize,
        grid_file: &str,
        round: impl AsyncFn(&RunningGrid) -> Result<Round>,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for _ in 0..rounds {
            let grid = RunningGrid::up(grid_file)?;
            found.push(round(&grid).await.with_context(|| grid.log())?);
        }
        Ok(Self {
            name,
            unit,
            contenders: vec![("Weir, SQLite", found)],
        })
    }

    fn figures(&self) -> Vec<(&'static str, f64, f64, f64, f64)> {
        let of = |(name, rounds): &(&'static str, Vec<Round>)| {
            let middle = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
            let all = rounds
                .iter()
                .flat_map(|round| round.latencies.clone())
                .collect::<Vec<_>>();
            (
                *name,
                middle(|round| round.rate),
                middle(|round| round.cpu_us),
                quantile(&all, 0.5),
                quantile(&all, 0.99),
            )
        };
        self.contenders.iter().map(of).collect()
    }

    pub(super) fn print(&self) {
        println!("{}", self.name);
        let figures = self.figures();
        let rucio = figures
            .iter()
            .find(|(name, ..)| *name == lab::RUCIO)
            .map(|figures| (figures.1, figures.2));
        for (name, rate, cpu, p50, p99) in &figures {
            let beside = rucio
                .filter(|_| *name != lab::RUCIO)
                .map_or_else(String::new, |(their_rate, their_cpu)| {
                    format!(
                        "; Rucio's rate × {:.1}, Rucio's processor time × {:.3}",
                        rate / their_rate,
                        cpu / their_cpu
                    )
                });
            let latencies = if *p50 > 0.0 {
                format!("; p50 {:.1} ms, p99 {:.1} ms", p50 * 1e3, p99 * 1e3)
            } else {
                String::new()
            };
            let cpu = if *cpu > 0.0 {
                format!(", {cpu:9.0} us each")
            } else {
                String::new()
            };
            let memory = self.memory(name);
            let memory = if memory > 0 {
                format!("; {} MiB at most", memory >> 20)
            } else {
                String::new()
            };
            println!(
                "  {name:17} {rate:10.3} {}/s{cpu}{latencies}{memory}{beside}",
                self.unit
            );
        }
    }

    /// The most memory that a contender held in a round, in bytes.
    fn memory(&self, name: &str) -> u64 {
        let rounds = self
            .contenders
            .iter()
            .filter(|(one, _)| *one == name)
            .flat_map(|(_, rounds)| rounds);
        rounds.map(|round| round.memory).max().unwrap_or(0)
    }

    pub(super) fn json(&self) -> Value {
        let row = |(name, rate, cpu, p50, p99): &(&str, f64, f64, f64, f64)| json!({ "name": name, "per_s": rate, "cpu_us": cpu, "p50_s": p50, "p99_s": p99, "memory_bytes": self.memory(name) });
        json!({ "name": self.name, "unit": self.unit, "contenders": self.figures().iter().map(row).collect::<Vec<_>>() })
    }
}

/// The value below which this share of figures lies; 0 of none.
pub(crate) fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}
