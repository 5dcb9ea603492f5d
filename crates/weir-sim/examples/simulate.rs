//! Runs a challenge file in the simulated world and prints its figures: `simulate FILE [POLICY] [--duration D] [--seed N]`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

use std::time::Instant;

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, run};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let challenge = match Challenge::load(args[1].as_ref()) {
        Ok(challenge) => challenge,
        Err(problems) => {
            problems.iter().for_each(|problem| println!("{problem}"));
            std::process::exit(2);
        }
    };
    let overrides = Overrides {
        scale: option("--scale").map(|scale| scale.parse().unwrap()),
        duration: option("--duration").map(|time| weir_units::duration::parse(time).unwrap()),
        seed: option("--seed").map(|seed| seed.parse().unwrap()),
    };
    let plan = SimPlan::of(challenge.resolve(&overrides).unwrap()).unwrap();
    let scene = weir_sim::scene::Scene::new(&plan);
    let begun = Instant::now();
    if let Some(best) = weir_sim::optimum::optimum(&plan, &scene) {
        println!(
            "optimum {:.1} Gb/s ({:.2} s); full: {:?}",
            best.total.as_f64() / 1e9,
            begun.elapsed().as_secs_f64(),
            best.full
        );
    }
    let word = args.get(2).map_or("all", String::as_str);
    for policy in Policy::ALL
        .into_iter()
        .filter(|policy| word == "all" || policy.as_str() == word)
    {
        let begun = Instant::now();
        let mut listeners = Listeners {
            rows: &mut |_, _| {},
            rules: &mut |_| {},
            ledger: &mut |_| {},
        };
        let outcome = run(&plan, policy, &mut listeners);
        let took = begun.elapsed();
        let totals = &outcome.measured.figures.totals;
        println!(
            "{policy}: asked {:.1} Gb/s, achieved {:.1} Gb/s, ratio {:.3}; {} transfers, {} failed, {} cancelled, {} retries, {} given up; {:.2} s, {:.2} us each; ended {:.0} s",
            totals.asked_bps.unwrap_or_default().as_f64() / 1e9,
            totals.achieved_bps.unwrap_or_default().as_f64() / 1e9,
            totals.ratio.unwrap_or(0.0),
            totals.transfers,
            totals.failed,
            totals.cancelled,
            totals.retries,
            outcome.given_up,
            took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / totals.transfers.max(1) as f64,
            outcome.ended.as_secs_f64(),
        );
        for workload in &outcome.measured.figures.workloads {
            if let weir_measure::report::WorkloadKind::Rates {
                asked_bps,
                achieved_bps,
                ratio,
                ..
            } = &workload.kind
            {
                println!(
                    "   {:24} {:8.1} {:8.1} {:.3}",
                    workload.name,
                    asked_bps.as_f64() / 1e9,
                    achieved_bps.unwrap_or_default().as_f64() / 1e9,
                    ratio.unwrap_or(0.0)
                );
            }
        }
        if args.iter().any(|arg| arg == "--links") {
            for link in &outcome.measured.figures.links {
                println!(
                    "   {:20} {:20} {:8.2} {:8.2} {:.3}",
                    link.source,
                    link.destination,
                    link.asked_bps.unwrap_or_default().as_f64() / 1e9,
                    link.achieved_bps.unwrap_or_default().as_f64() / 1e9,
                    link.ratio.unwrap_or(0.0)
                );
            }
        }
        if args.iter().any(|arg| arg == "--series") {
            let series = &outcome.measured.figures.series.total;
            for bin in (0..series.active.len()).step_by(series.active.len().div_ceil(24)) {
                println!(
                    "   {:6} active {:?} queued {:?} achieved {:?}",
                    bin,
                    series.active[bin],
                    series.queued[bin],
                    series.achieved_bps[bin].map(|rate| rate.0 / 1_000_000_000)
                );
            }
        }
        outcome
            .checks
            .violations()
            .iter()
            .for_each(|violation| println!("   VIOLATION {violation}"));
    }
}
