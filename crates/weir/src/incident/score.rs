//! `weir incident score`

use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::json;
use weir_measure::diagnosis::baselines::{BASELINES, Rule};
use weir_measure::diagnosis::score::{Judged, Score, Share, judge, score};
use weir_measure::diagnosis::{Case, CaseKind, Cases, Statement, blind, diagnose};
use weir_measure::report::Report;
use weir_model::file::Document;
use weir_plan::Challenge;
use weir_sim::case::report;

use super::parallel::parallel;
use super::vary::CASES;
use crate::cli::IncidentScoreArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs every case of a folder and judges each diagnosis of it.
pub(super) fn run(arguments: &IncidentScoreArguments, output: &Output) -> Result<Exit, Failure> {
    let cases = read(&arguments.dir)?;
    if cases.cases.is_empty() {
        let error = anyhow!("{} has no cases", arguments.dir.display());
        return Err(Failure::bad_input(error).with_remedy("weir incident vary draws some"));
    }
    let wrong = arguments.wrong.as_deref().map(number).transpose()?;
    let judged = parallel(&cases.cases, |case| of_case(case, &arguments.dir));
    let judged: Vec<Vec<Judged>> = judged.into_iter().collect::<Result<_, _>>()?;
    let mut told = Vec::new();
    output.line(head(&cases));
    output.line(TITLES);
    for (at, (name, _)) in rules().enumerate() {
        let of: Vec<Judged> = judged.iter().map(|case| case[at].clone()).collect();
        let score = score(&of);
        output.line(row(name, &score));
        told.push(json!({ "name": name, "score": score, "cases": of }));
    }
    if let Some(at) = wrong {
        for one in judged.iter().map(|case| &case[at]).filter(|one| !one.is_right) {
            output.line(format!(
                "  {:<24} {}",
                one.case,
                one.wrong.as_deref().unwrap_or_default()
            ));
        }
    }
    output.done(&json!({ "seed": cases.seed, "diagnoses": told }));
    Ok(Exit::Done)
}

const TITLES: &str =
    "                 strict             class  place  precision  macro-F1  two    false alarms  Brier";

/// Weir's own diagnosis, and the simple rules beside it.
fn rules() -> impl Iterator<Item = Rule> {
    std::iter::once(Rule::from(("weir", own as fn(&_) -> _))).chain(BASELINES)
}

fn own(report: &Report) -> Vec<Statement> {
    diagnose(report).statements
}

/// The number of a diagnosis by its name.
fn number(name: &str) -> Result<usize, Failure> {
    let at = rules().position(|(known, _)| known == name);
    let names: Vec<&str> = rules().map(|(name, _)| name).collect();
    at.ok_or_else(|| {
        Failure::bad_input(anyhow!("there is no diagnosis {name}")).with_remedy(format!("one of {}", names.join(", ")))
    })
}

fn head(cases: &Cases) -> String {
    let count = |kind: CaseKind| cases.cases.iter().filter(|case| case.kind == kind).count();
    format!(
        "{} cases with one cause, {} with two, {} healthy; seed {}",
        count(CaseKind::One),
        count(CaseKind::Two),
        count(CaseKind::Healthy),
        cases.seed
    )
}

fn row(name: &str, score: &Score) -> String {
    let share = |share: &Share| {
        share
            .share
            .map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"))
    };
    let strict = &score.strict;
    format!(
        "{name:<15}  {:<4} ({:.2}–{:.2})   {:<5}  {:<5}  {:<9}  {:<8.2}  {:<5}  {:<12}  {:.2}",
        share(strict),
        strict.low,
        strict.high,
        share(&score.class_only),
        share(&score.place_only),
        share(&score.precision),
        score.macro_f1,
        share(&score.two),
        share(&score.false_alarms),
        score.brier
    )
}

fn read(dir: &Path) -> Result<Cases, Failure> {
    let path = dir.join(CASES);
    let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()));
    let text = text.map_err(|error| Failure::bad_input(error).with_remedy("weir incident vary --out DIR writes it"))?;
    let cases = serde_json::from_str(&text)
        .with_context(|| format!("{} has no cases as this build writes them", path.display()));
    cases.map_err(Failure::bad_input)
}

/// The judgement on each diagnosis of a case.
fn of_case(case: &Case, dir: &Path) -> Result<Vec<Judged>, Failure> {
    let path = dir.join(format!("{}.toml", case.id));
    let wrong = |problems: &[_]| Failure::problems(&format!("the case {}", case.id), problems);
    let document = Document::read(&path).map_err(|problem| wrong(&[problem]))?;
    let challenge = Challenge::parse(document.text(), &path).map_err(|problems| wrong(&problems))?;
    let report = blind(&report(&challenge).map_err(|problems| wrong(&problems))?);
    Ok(rules()
        .map(|(_, rule)| judge(case, &rule(&report), report.series.bin_s))
        .collect())
}
