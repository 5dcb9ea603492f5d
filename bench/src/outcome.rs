//! The outcome of a row: lines of a table for people, and JSON for programs (docs/benchmarks.md has its shape).

use std::fmt;

use serde_json::{Value, json};

use crate::{limits::Limit, stats::median};

/// The unit that a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Requests,
}

/// One contender's work in one round.
pub(crate) struct Round {
    /// Units per second, as the client saw it.
    pub(crate) rate: f64,
    /// CPU seconds of the serving processes for each unit.
    pub(crate) cpu: f64,
    /// Sum of the high-water marks of the serving processes' memory, in bytes.
    pub(crate) peak: f64,
    /// Of the client's requests, in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// A row's rounds: Weir's first, the peers' in the same order of rounds.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) unit: Unit,
    pub(crate) limit: Option<Limit>,
    pub(crate) contenders: Vec<(&'static str, Vec<Round>)>,
}

/// Medians of one contender. Ratios are the first one's figure over this contender's, paired by round before the median is taken.
struct Medians {
    rate: f64,
    cpu: f64,
    peak: f64,
    p50: f64,
    p99: f64,
    max: f64,
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
            cpu: of(|round| round.cpu),
            peak: of(|round| round.peak),
            p50: of(|round| round.p50),
            p99: of(|round| round.p99),
            max: of(|round| round.max),
            ratio_rate: ratio(|round| round.rate),
            ratio_cpu: ratio(|round| round.cpu),
        }
    }

    /// The part of the machine's own limit that a rate reaches.
    fn share(&self, rate: f64) -> Option<f64> {
        let limit = self.limit.filter(|limit| limit.per_second > 0.0)?;
        Some(rate / limit.per_second)
    }

    /// The row in the JSON file.
    pub(crate) fn to_json(&self) -> Value {
        let contender = |(name, rounds): &(&str, Vec<Round>)| {
            let medians = self.medians(rounds);
            json!({
                "name": name,
                "per_s": medians.rate,
                "cpu_s": medians.cpu,
                "peak_memory_bytes": medians.peak,
                "share_of_limit": self.share(medians.rate),
                "p50_s": medians.p50,
                "p99_s": medians.p99,
                "max_s": medians.max,
                "first_over_this": { "rate": medians.ratio_rate, "cpu": medians.ratio_cpu },
                "rounds_per_s": rounds.iter().map(|round| round.rate).collect::<Vec<_>>(),
            })
        };
        json!({
            "name": self.name,
            "unit": match self.unit { Unit::Bytes => "byte", Unit::Requests => "request" },
            "to_reach": self.mark,
            "limit": self.limit.map(|limit| limit.name),
            "contenders": self.contenders.iter().map(contender).collect::<Vec<_>>(),
        })
    }
}

/// Head of the table whose lines an [`Outcome`] prints.
pub(crate) fn head(rounds: usize) -> String {
    format!(
        "{:<22} {:<7} {:>9} {:>7} {:>9} {:>7} {:>8} {:>8} {:>8}   {:>16}   the first ÷ this one, medians of {rounds} rounds",
        "row", "who", "s/GB, µs", "CPU ÷", "MB/s, 1/s", "rate ÷", "peak MB", "p99 ms", "max ms", "of limit"
    )
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per_second, per_unit) = match self.unit {
            Unit::Bytes => (1e-6, 1e9),
            Unit::Requests => (1.0, 1e6),
        };
        for (name, rounds) in &self.contenders {
            let medians = self.medians(rounds);
            let share = self.limit.and_then(|limit| {
                let share = self.share(medians.rate)?;
                Some(format!("{share:.2} {}", limit.name))
            });
            writeln!(
                f,
                "{:<22} {name:<7} {:>9.2} {:>7.2} {:>9.0} {:>7.2} {:>8.0} {:>8.1} {:>8.1}   {:>16}",
                self.name,
                medians.cpu * per_unit,
                medians.ratio_cpu,
                medians.rate * per_second,
                medians.ratio_rate,
                medians.peak / 1e6,
                medians.p99 * 1e3,
                medians.max * 1e3,
                share.unwrap_or_default()
            )?;
        }
        write!(f, "{:22} to reach: {}", "", self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rate: f64, cpu: f64) -> Round {
        Round {
            rate,
            cpu,
            peak: 5e6,
            p50: 0.1,
            p99: 0.2,
            max: 0.3,
        }
    }

    /// A noisy round would decide who is faster, or the ratio would be upside down.
    #[test]
    fn ratios_are_paired_by_round() {
        let outcome = Outcome {
            name: "GET",
            mark: "rate >= 1",
            unit: Unit::Bytes,
            limit: Some(Limit {
                name: "loopback",
                per_second: 4e9,
            }),
            contenders: vec![
                ("weir", vec![round(2e9, 0.5), round(1e9, 0.5), round(4e9, 0.5)]),
                ("nginx", vec![round(1e9, 1.0), round(0.5e9, 0.25), round(2e9, 1.0)]),
            ],
        };
        let json = outcome.to_json();
        let nginx = &json["contenders"][1];
        assert_eq!(nginx["per_s"], 1e9);
        assert_eq!(nginx["first_over_this"], json!({ "rate": 2.0, "cpu": 0.5 }));
        assert_eq!(
            json["contenders"][0]["first_over_this"],
            json!({ "rate": 1.0, "cpu": 1.0 })
        );
        assert_eq!(nginx["rounds_per_s"], json!([1e9, 0.5e9, 2e9]));
        let lines = outcome.to_string();
        let of_nginx = lines.lines().find(|line| line.contains("nginx")).unwrap_or_default();
        let words: Vec<_> = of_nginx.split_whitespace().collect();
        // Processor first: per unit, ratio; then rates.
        assert_eq!(words[3..6], ["0.50", "1000", "2.00"], "{lines}");
        assert!(of_nginx.contains("0.25 loopback"), "{lines}");
    }
}
