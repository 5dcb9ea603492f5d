//! `weir incident vary`

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use weir_measure::diagnosis::{Case, CaseKind, Cases};
use weir_plan::vary::{Draft, Purpose, Template, draw};
use weir_plan::{Incident, WorkloadSpec};
use weir_sim::case::{Tried, Unfit, try_draft};

use super::library;
use super::parallel::parallel;
use crate::cli::IncidentVaryArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The file of a folder that lists its cases.
pub(super) const CASES: &str = "cases.json";
/// Drafts of one case before it is given up.
const ATTEMPTS: u32 = 12;

/// A case that is to be drawn.
struct Wanted<'t> {
    id: String,
    template: &'t Template,
    purpose: Purpose,
}

/// Draws cases, tries each, and writes those that are clear.
pub(super) fn run(arguments: &IncidentVaryArguments, output: &Output) -> Result<Exit, Failure> {
    let templates = templates(arguments)?;
    let wanted = wanted(&templates, arguments);
    let drawn = parallel(&wanted, |wanted| made(wanted, arguments.seed));
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("could not make the folder {}", arguments.out.display()))
        .map_err(Failure::bad_input)?;
    let mut cases = Cases {
        seed: arguments.seed,
        dropped: BTreeMap::new(),
        cases: Vec::new(),
    };
    for (wanted, (dropped, made)) in wanted.iter().zip(drawn) {
        for reason in dropped {
            *cases.dropped.entry(reason.to_owned()).or_default() += 1;
        }
        let Some((draft, tried)) = made else {
            *cases
                .dropped
                .entry(format!("no {} after {ATTEMPTS} drafts", wanted.purpose.as_str()))
                .or_default() += 1;
            continue;
        };
        write(&arguments.out.join(format!("{}.toml", wanted.id)), &draft.text)?;
        cases.cases.push(Case {
            id: wanted.id.clone(),
            kind: tried.kind,
            template: wanted.template.incident.id.clone(),
            axes: draft.axes,
            truths: tried.truths,
        });
    }
    let text = serde_json::to_string_pretty(&cases)
        .context("could not write the cases")
        .map_err(Failure::could_not_run)?;
    write(&arguments.out.join(CASES), &text)?;
    let count = |kind: CaseKind| cases.cases.iter().filter(|case| case.kind == kind).count();
    let counts = [CaseKind::One, CaseKind::Two, CaseKind::Healthy].map(count);
    output.line(format!(
        "{} cases in {}: {} with one cause, {} with two, {} healthy",
        cases.cases.len(),
        arguments.out.display(),
        counts[0],
        counts[1],
        counts[2]
    ));
    for (reason, number) in &cases.dropped {
        output.line(format!("  drafts dropped: {number}, {reason}"));
    }
    output.done(&json!({
        "dir": arguments.out, "seed": arguments.seed, "one": counts[0], "two": counts[1], "healthy": counts[2],
        "dropped": cases.dropped,
    }));
    Ok(Exit::Done)
}

fn templates(arguments: &IncidentVaryArguments) -> Result<Vec<Template>, Failure> {
    let ids: Vec<String> = if arguments.templates.is_empty() {
        library::FILES.iter().map(|(id, _)| (*id).to_owned()).collect()
    } else {
        arguments.templates.clone()
    };
    let of = |id: &String| {
        let incident = library::find(id)?;
        let (_, text) = library::text(id)?;
        Ok(Template { incident, text })
    };
    ids.iter().map(of).collect()
}

/// The cases of every template: variants, every fourth of them with a fault that looks alike where there is one. Then pairs and healthy
/// runs in turn.
fn wanted<'t>(templates: &'t [Template], arguments: &IncidentVaryArguments) -> Vec<Wanted<'t>> {
    let case = |template: &'t Template, purpose: Purpose, number: u32| Wanted {
        id: format!("{}-{}-{number}", template.incident.id.to_lowercase(), purpose.as_str()),
        template,
        purpose,
    };
    let mut wanted = Vec::new();
    for template in templates {
        for number in 1..=arguments.variants {
            let purpose = if number % 4 == 0 {
                Purpose::Twin
            } else {
                Purpose::Variant
            };
            wanted.push(case(template, purpose, number));
        }
    }
    let with_rates: Vec<&Template> = templates
        .iter()
        .filter(|template| has_rates(&template.incident))
        .collect();
    let told: Vec<&Template> = with_rates
        .iter()
        .copied()
        .filter(|template| !template.incident.expect.is_silent)
        .collect();
    let n_variants = arguments
        .variants
        .saturating_mul(u32::try_from(templates.len()).unwrap_or(u32::MAX));
    let pairs = arguments.pairs.unwrap_or(n_variants / 8 * 3);
    let healthy = arguments.healthy.unwrap_or(n_variants / 4 * 3);
    for (of, purpose, count) in [(&told, Purpose::Pair, pairs), (&with_rates, Purpose::Healthy, healthy)] {
        wanted.extend(
            of.iter()
                .cycle()
                .zip(1..=count)
                .map(|(template, number)| case(template, purpose, number)),
        );
    }
    wanted
}

fn has_rates(incident: &Incident) -> bool {
    incident
        .challenge
        .workloads
        .iter()
        .all(|workload| matches!(workload, WorkloadSpec::Rates(_)))
}

/// Draws a case until it is clear; gives why each draft before was not.
fn made(wanted: &Wanted<'_>, seed: u64) -> (Vec<&'static str>, Option<(Draft, Tried)>) {
    let mut dropped = Vec::new();
    for attempt in 0..ATTEMPTS {
        let draft = draw(wanted.template, wanted.purpose, seed, &wanted.id, attempt);
        let is_pair = wanted.purpose == Purpose::Pair;
        let tried = if is_pair && draft.causes.len() < 2 {
            Err(Unfit::Single)
        } else {
            try_draft(&draft, Path::new(&wanted.id))
        };
        match tried {
            Ok(tried) => return (dropped, Some((draft, tried))),
            Err(unfit) => {
                if let Unfit::Invalid(problems) = &unfit {
                    tracing::debug!(case = wanted.id, ?problems, "a draft is invalid");
                }
                dropped.push(unfit.as_str());
            }
        }
    }
    (dropped, None)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .with_context(|| format!("could not write {}", path.display()))
        .map_err(Failure::could_not_run)
}
