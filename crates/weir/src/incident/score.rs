//! `weir incident score`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use serde_json::json;
use weir_measure::diagnosis::baselines::{BASELINES, Rule};
use weir_measure::diagnosis::score::{Judged, Score, Share, judge, score};
use weir_measure::diagnosis::{Case, CaseKind, Cases, Statement, blind, diagnose, time_to_diagnosis, unexplained};
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
    let judged: Vec<(Vec<Judged>, Own)> = judged.into_iter().collect::<Result<_, _>>()?;
    let (judged, own): (Vec<Vec<Judged>>, Vec<Own>) = judged.into_iter().unzip();
    let mut told = Vec::new();
    output.line(head(&cases));
    output.line(TITLES);
    for (at, (name, _)) in rules().enumerate() {
        let of: Vec<Judged> = judged.iter().map(|case| case[at].clone()).collect();
        let score = score(&of);
        output.line(row(name, &score));
        told.push(json!({ "name": name, "score": score, "cases": of }));
    }
    let sum = OwnSum::of(&own);
    let first = judged.iter().map(|case| case[0].clone());
    sum.lines(&score(&first.collect::<Vec<_>>()))
        .iter()
        .for_each(|line| output.line(line));
    let first = judged.iter().map(|case| &case[0]);
    let by = arguments
        .by
        .as_deref()
        .map(|axis| by_axis(&cases, first, axis))
        .transpose()?;
    for (value, share) in by.iter().flatten() {
        let part = share.share.unwrap_or_default();
        output.line(format!(
            "  {value:<16} {part:.2} ({:.2}–{:.2}), {} of {}",
            share.low, share.high, share.hits, share.of
        ));
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
    output.done(&json!({ "seed": cases.seed, "diagnoses": told, "own": sum, "by": by }));
    Ok(Exit::Done)
}

/// Values of an axis with fewer cases are put together, in the order of the values.
const FEWEST: usize = 10;

/// The strict share of the cases with one cause, by the values of an axis. Numbers with few cases each are put into ranges.
fn by_axis<'j>(
    cases: &Cases,
    judged: impl Iterator<Item = &'j Judged>,
    axis: &str,
) -> Result<Vec<(String, Share)>, Failure> {
    let mut values: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (case, judged) in cases
        .cases
        .iter()
        .zip(judged)
        .filter(|(case, _)| case.kind == CaseKind::One)
    {
        if let Some(value) = case.axes.get(axis) {
            let sum = values.entry(value).or_default();
            *sum = (sum.0 + usize::from(judged.is_right), sum.1 + 1);
        }
    }
    if values.is_empty() {
        let known: BTreeSet<&String> = cases.cases.iter().flat_map(|case| case.axes.keys()).collect();
        let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
        let error = anyhow!("no case has an axis {axis}");
        return Err(Failure::bad_input(error).with_remedy(format!("one of {}", known.join(", "))));
    }
    let mut rows: Vec<(&str, &str, (usize, usize))> = Vec::new();
    for (value, sum) in values {
        match rows.last_mut().filter(|(.., before)| before.1 < FEWEST) {
            Some((_, last, before)) => (*last, *before) = (value, (before.0 + sum.0, before.1 + sum.1)),
            None => rows.push((value, value, sum)),
        }
    }
    let name = |first: &str, last: &str| {
        if first == last {
            first.to_owned()
        } else {
            format!("{first} to {last}")
        }
    };
    let row = |(first, last, (hits, of)): (&str, &str, (usize, usize))| (name(first, last), Share::of(hits, of));
    Ok(rows.into_iter().map(row).collect())
}

/// Figures of Weir's own diagnosis of a case, which simple rules do not have.
struct Own {
    /// Seconds from the begin of the cause until it was named for good. Only of a case with one cause that was rightly named; infinite if the
    /// end of the run names it first.
    named_after_s: Option<f64>,
    /// The part of the missing bits that nothing explains.
    unexplained: Option<f64>,
}

/// The figures of all cases.
#[derive(Debug, Serialize)]
struct OwnSum {
    /// Cases with one cause that was rightly named.
    named: usize,
    /// The number of them that only the end of the run names.
    named_at_the_end: usize,
    /// Seconds from the begin of a cause until it was named for good: half, and nine tenths of the rightly named.
    named_after_s: [Option<f64>; 2],
    /// The part of the missing bits that nothing explains: half, and nine tenths of the cases with missing bits.
    unexplained: [Option<f64>; 2],
}

impl OwnSum {
    fn of(all: &[Own]) -> Self {
        let times: Vec<f64> = all.iter().filter_map(|own| own.named_after_s).collect();
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let at = |share: f64| values.get((values.len() as f64 * share) as usize).copied();
            [at(0.5), at(0.9)].map(|value| value.filter(|value| value.is_finite()))
        };
        Self {
            named: times.len(),
            named_at_the_end: times.iter().filter(|time| time.is_infinite()).count(),
            named_after_s: sorted(times),
            unexplained: sorted(all.iter().filter_map(|own| own.unexplained).collect()),
        }
    }

    /// The figures that have no column in the table: when, how much, how sure.
    fn lines(&self, score: &Score) -> Vec<String> {
        let seconds = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0} s"));
        let percent =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{:.1} %", value * 100.0));
        let [half, most] = self.named_after_s;
        let mut lines = vec![
            String::new(),
            format!(
                "weir names a cause for good {} after its begin (p50; p90 {}), {} of {} only at the end of the run",
                seconds(half),
                seconds(most),
                self.named_at_the_end,
                self.named
            ),
            format!(
                "missing bits that nothing explains: {} of a case (p50; p90 {})",
                percent(self.unexplained[0]),
                percent(self.unexplained[1])
            ),
            "probability   right   statements".to_owned(),
        ];
        for (sure, right, n) in &score.reliability {
            let bar = "█".repeat((right * 20.0).round() as usize);
            lines.push(format!("{sure:>11.2}   {right:>5.2}   {n:>10}   {bar}"));
        }
        lines
    }
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
fn of_case(case: &Case, dir: &Path) -> Result<(Vec<Judged>, Own), Failure> {
    let path = dir.join(format!("{}.toml", case.id));
    let wrong = |problems: &[_]| Failure::problems(&format!("the case {}", case.id), problems);
    let document = Document::read(&path).map_err(|problem| wrong(&[problem]))?;
    let challenge = Challenge::parse(document.text(), &path).map_err(|problems| wrong(&problems))?;
    let report = blind(&report(&challenge).map_err(|problems| wrong(&problems))?);
    let judged: Vec<Judged> = rules()
        .map(|(_, rule)| judge(case, &rule(&report), report.series.bin_s))
        .collect();
    let is_named = case.kind == CaseKind::One && judged[0].is_right;
    let own = Own {
        named_after_s: is_named.then(|| time_to_diagnosis(case, &report).unwrap_or(f64::INFINITY)),
        unexplained: unexplained(&diagnose(&report).ledger),
    };
    Ok((judged, own))
}
