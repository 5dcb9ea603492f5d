//! From a challenge and the command line's overrides to a plan.

use weir_model::file::{Problem, Refusal};
use weir_units::{BitRate, Bytes, duration};

use crate::inject::BACKLOG_FILES;
use crate::phases::Phases;
use crate::plan::{Plan, RatedLink, RatesPlan, StepsPlan, Workload};
use crate::spec::{Challenge, Inject, Overrides, RatesSpec, WorkloadSpec};
use crate::threshold::{Metric, Threshold};
use crate::{read, steps, write};

pub(crate) fn plan(challenge: &Challenge, overrides: &Overrides) -> Result<Plan, Vec<Problem>> {
    let refuse = |key: String, refusal: Refusal| {
        let Refusal { message, remedy } = refusal;
        Problem {
            file: challenge.file.clone(),
            line: None,
            key,
            message,
            remedy,
        }
    };
    let scale = overrides.scale.unwrap_or(challenge.scale);
    let hold = overrides.duration.unwrap_or(challenge.phases.hold);
    let seed = overrides.seed.unwrap_or(challenge.seed);
    let checks = [
        ("--scale", read::check_scale(scale)),
        ("--duration", overrides.duration.map_or(Ok(()), read::check_hold)),
        ("--seed", check_seed(seed)),
    ];
    let refused = checks
        .into_iter()
        .filter_map(|(key, check)| Some(refuse(key.to_owned(), check.err()?)));
    let mut problems: Vec<_> = refused.collect();
    let mut workloads = Vec::new();
    let phases = Phases {
        hold,
        ..challenge.phases
    };
    if problems.is_empty() {
        for spec in &challenge.workloads {
            match workload(spec, scale, &phases) {
                Ok(workload) => workloads.push(workload),
                Err(refusal) => problems.push(refuse(format!("workload {}", spec.name()), refusal)),
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let set = Challenge {
        seed,
        scale,
        phases,
        ..challenge.clone()
    };
    Ok(Plan {
        name: challenge.name.clone(),
        description: challenge.description.clone(),
        seed,
        scale,
        grid: challenge.grid.clone(),
        phases,
        workloads,
        thresholds: challenge
            .thresholds
            .iter()
            .map(|threshold| scaled(threshold, scale))
            .collect(),
        faults: challenge.faults.clone(),
        resolved: write::challenge(&set),
        sim: challenge.sim.clone(),
    })
}

fn check_seed(seed: u64) -> Result<(), Refusal> {
    if i64::try_from(seed).is_ok() {
        return Ok(());
    }
    let remedy = "write at most 9223372036854775807, the largest number of a challenge file";
    Err(Refusal::new(format!("{seed} is too large"), remedy))
}

fn scaled(threshold: &Threshold, scale: f64) -> Threshold {
    let factor = if threshold.metric == Metric::Achieved {
        scale
    } else {
        1.0
    };
    Threshold {
        asked: threshold.asked * factor,
        ..threshold.clone()
    }
}

fn workload(spec: &WorkloadSpec, scale: f64, phases: &Phases) -> Result<Workload, Refusal> {
    match spec {
        WorkloadSpec::Rates(spec) => rates(spec, scale, phases).map(Workload::Rates),
        WorkloadSpec::Matrix(spec) => Ok(Workload::Matrix(StepsPlan {
            name: spec.name.clone(),
            activity: spec.activity.clone(),
            steps: steps::matrix(spec, scale),
            timeout: spec.timeout,
        })),
        WorkloadSpec::Ramp(spec) => Ok(Workload::Ramp(StepsPlan {
            name: spec.name.clone(),
            activity: spec.activity.clone(),
            steps: steps::ramp(spec, scale),
            timeout: spec.timeout,
        })),
    }
}

/// Largest scaled rate of one link; see the bounds on phases in `read`.
const RATE_MAX: BitRate = BitRate(1_000_000_000_000_000);

/// The phases of a workload that has a time of its own, counted from its begin.
fn own_phases(spec: &RatesSpec, phases: &Phases) -> Result<Phases, Refusal> {
    let rest = phases.end().saturating_sub(spec.start);
    let length = spec.length.unwrap_or(rest);
    if rest.is_zero() || length > rest {
        let end = duration::format(phases.end());
        let message = format!("it would last beyond the hold, which ends {end} after the start of the run");
        return Err(Refusal::new(message, "correct start and length, or hold for longer"));
    }
    let ramp = phases.ramp.min(length);
    Ok(Phases {
        ramp,
        hold: length.saturating_sub(ramp),
        ..*phases
    })
}

/// Different files of a link that its source holds, unless the challenge says, where transfers are submitted: content that was read
/// just now and content that was not.
const SOURCE_FILES: u32 = 2;

/// Number of different files at the source of a link.
///
/// A file whose copy is still at the destination cannot take part. So a rule needs the files of its lifetime and of the time until deletion
/// (or of the whole run if that is shorter), and a third more.
fn source_files(spec: &RatesSpec, rate: BitRate, size: Bytes, phases: &Phases) -> u32 {
    if let Some(files) = spec.source_files {
        return files;
    }
    if spec.inject == Inject::Transfers {
        return SOURCE_FILES;
    }
    let away = (spec.lifetime + spec.deletion + spec.cycle).min(phases.end());
    let away = rate.bytes_in(away).0.div_ceil(size.0) + BACKLOG_FILES;
    // A quarter of all may stay at the destination until the audit.
    let files = away + away.div_ceil(3);
    u32::try_from(files).unwrap_or(u32::MAX)
}

fn rates(spec: &RatesSpec, scale: f64, phases: &Phases) -> Result<RatesPlan, Refusal> {
    let phases = own_phases(spec, phases)?;
    let mut links = Vec::new();
    for asked in &spec.rates {
        let rate = asked.rate.scale(scale);
        let volume = rate.bytes_in(phases.hold);
        let link = asked.link.clone();
        if rate > RATE_MAX {
            let message = format!("{link} would be asked for {rate} at scale {scale}");
            return Err(Refusal::new(message, "choose a smaller scale"));
        }
        let Some(sizing) = spec.sizes.choose(volume) else {
            let message = format!("{link} would be asked for nothing: {} at scale {scale}", asked.rate);
            return Err(Refusal::new(message, "choose a larger scale or a longer hold"));
        };
        links.push(RatedLink {
            link,
            rate,
            volume,
            file_size: sizing.size,
            n_files: sizing.n_files,
            source_files: source_files(spec, rate, sizing.size, &phases),
        });
    }
    Ok(RatesPlan {
        name: spec.name.clone(),
        activity: spec.activity.clone(),
        links,
        inject: spec.inject,
        is_loop: spec.is_loop,
        lifetime: spec.lifetime,
        deletion: spec.deletion,
        cycle: spec.cycle,
        start: spec.start,
        phases,
    })
}
