//! The rates of a comparison in the course of time, as a drawing.

use std::fmt::Write;

use super::text::rate;
use super::{Comparison, RatesOverTime};

/// Size of the drawing, and its margins: left, right, top, bottom.
const SIZE: [f64; 2] = [1000.0, 320.0];
const MARGINS: [f64; 4] = [76.0, 8.0, 10.0, 26.0];
/// Points of a curve at most: more would be thinner than a line.
const POINTS: usize = 200;

struct Axes {
    seconds: f64,
    top: f64,
}

impl Axes {
    fn x(&self, seconds: f64) -> f64 {
        MARGINS[0] + (SIZE[0] - MARGINS[0] - MARGINS[1]) * seconds / self.seconds
    }

    fn y(&self, rate: f64) -> f64 {
        SIZE[1] - MARGINS[3] - (SIZE[1] - MARGINS[2] - MARGINS[3]) * rate / self.top
    }
}

/// Draws what each policy achieves, what is asked and what is possible.
pub(super) fn rates(comparison: &Comparison) -> String {
    let curves: Vec<Vec<(f64, f64)>> = comparison
        .policies
        .iter()
        .map(|policy| merged(&policy.series))
        .collect();
    let asked = comparison
        .policies
        .first()
        .map(|policy| asked(&policy.series))
        .unwrap_or_default();
    let possible: Vec<(f64, f64)> = comparison
        .optimum_spans
        .iter()
        .flat_map(|span| {
            [
                (span.from_s, span.rate_bps as f64),
                (span.until_s, span.rate_bps as f64),
            ]
        })
        .collect();
    let all = || curves.iter().chain([&asked, &possible]).flatten();
    let highest = all().map(|point| point.1).fold(1.0, f64::max);
    let step = nice(highest / 4.0);
    let axes = Axes {
        seconds: all().map(|point| point.0).fold(1.0, f64::max),
        top: step * (highest / step).ceil(),
    };
    let mut drawing = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"rates over time\">",
        SIZE[0], SIZE[1]
    );
    grid(&mut drawing, &axes, step);
    for (class, points) in [("asked", &asked), ("possible", &possible)] {
        path(&mut drawing, &axes, class, points);
    }
    // The first policies on top.
    for (at, points) in curves.iter().enumerate().rev() {
        path(&mut drawing, &axes, &format!("l{at}"), points);
    }
    drawing.push_str("</svg>");
    drawing
}

/// 1, 2 or 5 times a power of ten: the next above.
fn nice(value: f64) -> f64 {
    let mut power = 1.0;
    while power * 10.0 <= value {
        power *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(power * 10.0)
}

fn grid(drawing: &mut String, axes: &Axes, step: f64) {
    let [left, right] = [MARGINS[0], SIZE[0] - MARGINS[1]];
    let mut level = 0.0;
    while level <= axes.top * 1.001 {
        let y = axes.y(level);
        let class = if level == 0.0 { "axis" } else { "grid" };
        let _ = write!(
            drawing,
            "<line class=\"{class}\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
        let label = if level == 0.0 {
            "0".to_owned()
        } else {
            rate(level as u64)
        };
        let _ = write!(
            drawing,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 8.0,
            y + 4.0
        );
        level += step;
    }
    let (every, unit) = ticks(axes.seconds);
    let mut at = 0.0;
    while at <= axes.seconds * 1.001 {
        let x = axes.x(at);
        let (number, bottom) = (at / unit.0, SIZE[1] - 6.0);
        let anchor = if at == 0.0 { "start" } else { "middle" };
        if x < right - 20.0 {
            let _ = write!(
                drawing,
                "<text x=\"{x:.1}\" y=\"{bottom}\" text-anchor=\"{anchor}\">{number} {}</text>",
                unit.1
            );
        }
        at += every;
    }
}

/// Seconds between two marks of the time axis, and the unit they are told in.
fn ticks(seconds: f64) -> (f64, (f64, &'static str)) {
    let unit = if seconds > 5.0 * 86_400.0 {
        (86_400.0, "d")
    } else if seconds > 5.0 * 3_600.0 {
        (3_600.0, "h")
    } else if seconds > 300.0 {
        (60.0, "min")
    } else {
        (1.0, "s")
    };
    let least = seconds / unit.0 / 8.0;
    let steps = [
        1.0, 2.0, 3.0, 5.0, 6.0, 10.0, 12.0, 20.0, 24.0, 30.0, 50.0, 60.0, 100.0, 200.0, 500.0,
    ];
    let step = steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or_else(|| nice(least));
    (step * unit.0, unit)
}

/// A curve of the middle of its bins, merged so that there are not too many.
fn merged(series: &RatesOverTime) -> Vec<(f64, f64)> {
    let each = series.achieved_bps.len().div_ceil(POINTS).max(1);
    let point = |(at, bins): (usize, &[Option<u64>])| {
        let mean = bins.iter().flatten().map(|rate| *rate as f64).sum::<f64>() / bins.len() as f64;
        let middle = (at * each) as f64 + bins.len() as f64 / 2.0;
        (middle * series.bin_s, mean)
    };
    series.achieved_bps.chunks(each).enumerate().map(point).collect()
}

/// What is asked, with its steps.
fn asked(series: &RatesOverTime) -> Vec<(f64, f64)> {
    let bins = series.asked_bps.iter().enumerate();
    let ends = |(at, rate): (usize, &Option<u64>)| {
        let rate = rate.map(|rate| rate as f64)?;
        Some([(at as f64 * series.bin_s, rate), ((at + 1) as f64 * series.bin_s, rate)])
    };
    let mut points: Vec<(f64, f64)> = bins.filter_map(ends).flatten().collect();
    // Of a level stretch only its ends.
    let mut at = 1;
    while at + 1 < points.len() {
        if points[at - 1].1.total_cmp(&points[at].1).is_eq() && points[at].1.total_cmp(&points[at + 1].1).is_eq() {
            points.remove(at);
        } else {
            at += 1;
        }
    }
    points
}

fn path(drawing: &mut String, axes: &Axes, class: &str, points: &[(f64, f64)]) {
    let Some((first, rest)) = points.split_first() else {
        return;
    };
    let _ = write!(
        drawing,
        "<path class=\"{class}\" d=\"M{:.1} {:.1}",
        axes.x(first.0),
        axes.y(first.1)
    );
    for (seconds, rate) in rest {
        let _ = write!(drawing, "L{:.1} {:.1}", axes.x(*seconds), axes.y(*rate));
    }
    drawing.push_str("\"/>");
}
