//! What a row told: lines of a table for people, and JSON for programs (docs/benchmarks.md has its shape).

use std::fmt;

use serde_json::{Value, json};

use crate::stats::median;

/// One contender's work in one round.
pub(crate) struct Round {
    /// Bytes per second, as the client saw it.
    pub(crate) rate: f64,
    /// CPU seconds of the serving processes for each GB moved.
    pub(crate) cpu_per_gb: f64,
    /// Sum of the high-water marks of the serving processes' memory, in bytes.
    pub(crate) peak: f64,
}

/// A row's rounds: Weir's first, the peers' in the same order of rounds.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    pub(crate) contenders: Vec<(&'static str, Vec<Round>)>,
}

/// Medians of one contender. Ratios are Weir's figure over this contender's, paired by round before the median is taken.
struct Medians {
    rate: f64,
    cpu_per_gb: f64,
    peak: f64,
    ratio_rate: f64,
    ratio_cpu: f64,
}

impl Outcome {
    fn medians(&self, rounds: &[Round]) -> Medians {
        let ours = self.contenders.first().map_or(&[][..], |(_, ours)| ours);
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let ratio = |figure: fn(&Round) -> f64| {
            let pairs = ours.iter().zip(rounds);
            median(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
        };
        Medians {
            rate: of(|round| round.rate),
            cpu_per_gb: of(|round| round.cpu_per_gb),
            peak: of(|round| round.peak),
            ratio_rate: ratio(|round| round.rate),
            ratio_cpu: ratio(|round| round.cpu_per_gb),
        }
    }

    /// The row in the JSON file.
    pub(crate) fn to_json(&self) -> Value {
        let contender = |(name, rounds): &(&str, Vec<Round>)| {
            let medians = self.medians(rounds);
            json!({
                "name": name,
                "bytes_per_s": medians.rate,
                "cpu_s_per_gb": medians.cpu_per_gb,
                "peak_memory_bytes": medians.peak,
                "weir_over_this": { "rate": medians.ratio_rate, "cpu": medians.ratio_cpu },
                "rounds_bytes_per_s": rounds.iter().map(|round| round.rate).collect::<Vec<_>>(),
            })
        };
        json!({
            "name": self.name,
            "bytes": self.bytes,
            "files": self.files,
            "contenders": self.contenders.iter().map(contender).collect::<Vec<_>>(),
        })
    }
}

/// Head of the table whose lines an [`Outcome`] prints.
pub(crate) fn head(rounds: usize) -> String {
    format!(
        "{:<22} {:<7} {:>9} {:>9} {:>9} {:>8} {:>8}   Weir ÷ peer, medians of {rounds} rounds",
        "row", "who", "MB/s", "CPU s/GB", "peak MB", "rate ÷", "CPU ÷"
    )
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, rounds)) in self.contenders.iter().enumerate() {
            let medians = self.medians(rounds);
            if place > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "{:<22} {name:<7} {:>9.0} {:>9.2} {:>9.0} {:>8.2} {:>8.2}",
                self.name,
                medians.rate / 1e6,
                medians.cpu_per_gb,
                medians.peak / 1e6,
                medians.ratio_rate,
                medians.ratio_cpu
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rate: f64, cpu_per_gb: f64) -> Round {
        Round {
            rate,
            cpu_per_gb,
            peak: 5e6,
        }
    }

    /// A noisy round would decide who is faster, or the ratio would be upside down.
    #[test]
    fn ratios_are_paired_by_round() {
        let outcome = Outcome {
            name: "GET",
            bytes: 10,
            files: 1,
            contenders: vec![
                ("weir", vec![round(2e9, 0.5), round(1e9, 0.5), round(4e9, 0.5)]),
                ("nginx", vec![round(1e9, 1.0), round(0.5e9, 0.25), round(2e9, 1.0)]),
            ],
        };
        let json = outcome.to_json();
        let nginx = &json["contenders"][1];
        assert_eq!(nginx["bytes_per_s"], 1e9);
        assert_eq!(nginx["weir_over_this"], json!({ "rate": 2.0, "cpu": 0.5 }));
        assert_eq!(
            json["contenders"][0]["weir_over_this"],
            json!({ "rate": 1.0, "cpu": 1.0 })
        );
        assert_eq!(nginx["rounds_bytes_per_s"], json!([1e9, 0.5e9, 2e9]));
        let lines = outcome.to_string();
        let last = lines.lines().last().unwrap_or_default();
        assert!(
            last.contains("nginx") && last.contains("1000") && last.ends_with("2.00     0.50"),
            "{lines}"
        );
    }
}
