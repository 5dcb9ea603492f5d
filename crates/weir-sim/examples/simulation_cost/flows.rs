//! The network alone, as `weir sim flows` runs it: from the text of the file to the text of the answer.

use std::fmt::Write as _;

use weir_sim::flows::{Model, Scenario};

use crate::measure::{Figure, timed};
use crate::scenes::Numbers;

/// Flows between 50 sites over the sites' doors and one of ten WAN links; a third has a limit of its own.
fn file(flows: u64, seconds: f64) -> String {
    let mut numbers = Numbers(3);
    let mut text = "{\"links\": [".to_owned();
    for site in 0..50 {
        for way in ["out", "in"] {
            let gigabits = 10.0 + 90.0 * numbers.unit();
            let latency = 0.001 + 0.02 * numbers.unit();
            write!(
                text,
                "{{\"name\": \"{site}.{way}\", \"bandwidth_bps\": {:.0}, \"latency_s\": {latency:.4}}},",
                gigabits * 1e9
            )
            .unwrap();
        }
    }
    for wan in 0..10 {
        let comma = if wan == 9 { "" } else { "," };
        let latency = 0.005 + 0.05 * numbers.unit();
        write!(
            text,
            "{{\"name\": \"wan{wan}\", \"bandwidth_bps\": 400000000000, \"latency_s\": {latency:.4}}}{comma}"
        )
        .unwrap();
    }
    text += "],\n\"flows\": [\n";
    for id in 0..flows {
        let comma = if id + 1 == flows { "" } else { "," };
        let source = numbers.below(50);
        let destination = (source + 1 + numbers.below(49)) % 50;
        let limit = if numbers.below(3) == 0 {
            50_000_000 + numbers.below(1_000_000_000)
        } else {
            0
        };
        writeln!(
            text,
            "{{\"id\": {id}, \"start_s\": {:.6}, \"size_bytes\": {}, \"path\": [\"{source}.out\", \"wan{}\", \
             \"{destination}.in\"], \"streams\": {}, \"rate_limit_bps\": {limit}}}{comma}",
            seconds * numbers.unit(),
            1_000_000_000 + numbers.below(4_000_000_000),
            (source * 7 + destination) % 10,
            1 + numbers.below(4),
        )
        .unwrap();
    }
    text + "]}"
}

fn figures(name: &str, flows: u64, seconds: f64, limit: f64) -> Vec<Figure> {
    let text = file(flows, seconds);
    let mut figures = Vec::new();
    for (model, word) in [(Model::MaxMin, "maxmin"), (Model::Rtt { window: Model::WINDOW }, "rtt")] {
        let (time, live) = timed(|| {
            let outcome = Scenario::parse(&text).unwrap().run(model).unwrap();
            assert!(!serde_json::to_string(&outcome).unwrap().is_empty());
            outcome.stats.live_max
        });
        figures.push(Figure::new(
            format!("{name}, {word}: most at once"),
            live as f64,
            "",
            None,
        ));
        figures.push(Figure::new(format!("{name}, {word}: time"), time, "s", Some(limit)));
    }
    figures
}

pub(crate) fn ten_thousand() -> Vec<Figure> {
    figures("10,000 flows on 50 sites", 10_000, 105.0, 0.5)
}

pub(crate) fn hundred_thousand() -> Vec<Figure> {
    figures("100,000 flows on 50 sites", 100_000, 865.0, 6.0)
}
