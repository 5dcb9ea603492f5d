//! The score of a diagnosis over many cases.
//!
//! A statement is *strictly* right if class and place are those of a truth, and time and rate agree. It begins within a minute or three
//! bins of the truth, half of the time in either is in both, and the rate is within 15 %. Of several statements about a case with one cause the surest
//! counts. An answer that leaves two open counts where the sources leave it open, and is an abstention elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_world::CauseClass;

use super::case::{Case, CaseKind};
use super::statement::Statement;
use super::truth::Truth;

/// A statement may begin so much earlier or later than the truth, seconds.
const ONSET_S: f64 = 60.0;
/// The least part of the time in either that is in both.
const OVERLAP: f64 = 0.5;
/// The rate is right within this share.
const RATE: f64 = 0.15;
/// Bins of probability in the diagram of reliability.
const BINS: usize = 10;

/// How a diagnosis did on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The case.
    pub case: String,
    /// Its kind.
    pub kind: CaseKind,
    /// The surest statement is strictly right; of a case with two causes: the statements are exactly these.
    pub is_right: bool,
    /// The class of the surest is right.
    pub is_class_right: bool,
    /// The place of the surest is right.
    pub is_place_right: bool,
    /// Statements that name a cause, and those of them that are strictly right.
    pub named: usize,
    /// See `named`.
    pub correct: usize,
    /// The class that was said first, and the one that is true.
    pub said: Option<String>,
    /// See `said`; `none` of a healthy case.
    pub truth: String,
    /// Multi-class Brier score.
    pub brier: f64,
    /// Probability and rightness of each statement.
    pub sure: Vec<(f64, bool)>,
    /// The error, in words.
    pub wrong: Option<String>,
}

/// The sums over cases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Cases with one cause.
    pub n_one: usize,
    /// Share with the surest statement strictly right, with the interval of Wilson at 95 %.
    pub strict: Share,
    /// Class alone.
    pub class_only: Share,
    /// Place alone.
    pub place_only: Share,
    /// Statements strictly right among those that name a cause.
    pub precision: Share,
    /// Mean over classes of the harmonic mean of precision and recall.
    pub macro_f1: f64,
    /// Cases with two causes whose statements are exactly these.
    pub two: Share,
    /// Healthy cases with a statement.
    pub false_alarms: Share,
    /// Mean Brier score: 0 is best, 2 is worst.
    pub brier: f64,
    /// Statements by their probability: mean probability, share that is right, number.
    pub reliability: Vec<(f64, f64, usize)>,
    /// Strictly right, by the true class.
    pub by_class: BTreeMap<String, Share>,
}

/// A share of cases, with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Cases that count.
    pub hits: usize,
    /// All cases.
    pub of: usize,
    /// The share; `null` of none.
    pub share: Option<f64>,
    /// Interval of Wilson at 95 %.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

impl Share {
    /// The share of so many, with its interval (Wilson, 1927).
    pub fn of(hits: usize, of: usize) -> Self {
        const Z: f64 = 1.96;
        if of == 0 {
            return Self::default();
        }
        let (n, share) = (of as f64, hits as f64 / of as f64);
        let middle = share + Z * Z / (2.0 * n);
        let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let whole = 1.0 + Z * Z / n;
        Self {
            hits,
            of,
            share: Some(share),
            low: ((middle - half) / whole).max(0.0),
            high: ((middle + half) / whole).min(1.0),
        }
    }
}

/// Judges the statements about a case. `bin_s` is the width of the bins of its report.
pub fn judge(case: &Case, statements: &[Statement], bin_s: f64) -> Judged {
    let mut sorted: Vec<&Statement> = statements.iter().collect();
    sorted.sort_by(|one, other| other.probability.total_cmp(&one.probability));
    let first = sorted.first().copied();
    let right = |statement: &Statement| case.truths.iter().any(|truth| wrong(truth, statement, bin_s).is_none());
    let named: Vec<&Statement> = sorted
        .iter()
        .copied()
        .filter(|statement| is_named(case, statement))
        .collect();
    let correct = named.iter().filter(|statement| right(statement)).count();
    let found = |truth: &Truth| named.iter().any(|statement| wrong(truth, statement, bin_s).is_none());
    let is_right = match case.kind {
        CaseKind::Healthy => statements.is_empty(),
        CaseKind::One => first.is_some_and(|first| is_named(case, first) && right(first)),
        CaseKind::Two => named.len() == case.truths.len() && case.truths.iter().all(found),
    };
    let any = |is: &dyn Fn(&Truth, &Statement) -> bool| {
        first.is_some_and(|first| case.truths.iter().any(|truth| is(truth, first)))
    };
    Judged {
        case: case.id.clone(),
        kind: case.kind,
        is_right,
        is_class_right: any(&has_class),
        is_place_right: any(&has_place),
        named: named.len(),
        correct,
        said: first.map(|first| first.class.as_str().to_owned()),
        truth: case
            .truths
            .first()
            .map_or("none", |truth| truth.classes[0].as_str())
            .to_owned(),
        brier: brier(case, first),
        sure: named
            .iter()
            .map(|statement| (statement.probability, right(statement)))
            .collect(),
        wrong: (!is_right).then(|| why(case, first, bin_s)),
    }
}

/// Whether a statement names one cause, or leaves two open where no more can be told.
fn is_named(case: &Case, statement: &Statement) -> bool {
    !statement.is_open || case.truths.iter().any(|truth| truth.is_open)
}

fn why(case: &Case, first: Option<&Statement>, bin_s: f64) -> String {
    match (first, case.truths.first()) {
        (None, _) => "nothing was said".to_owned(),
        (Some(first), None) => format!("{} was said, and nothing was wrong", cause(first)),
        (Some(first), Some(truth)) => {
            let wrongs = case.truths.iter().map(|truth| wrong(truth, first, bin_s));
            match wrongs.min_by_key(|wrong| wrong.as_ref().map_or(0, |_| 1)).flatten() {
                None => "one of two causes was said".to_owned(),
                Some(text) => format!(
                    "{text}: {} was said, not {} {}",
                    cause(first),
                    truth.classes.join(" or "),
                    truth.places.join(" or ")
                ),
            }
        }
    }
}

fn cause(statement: &Statement) -> String {
    let place = statement
        .place
        .as_ref()
        .map_or_else(String::new, |place| format!(" {place}"));
    format!("{}{place}", statement.class)
}

fn has_class(truth: &Truth, statement: &Statement) -> bool {
    let is = |class: CauseClass| truth.classes.iter().any(|known| known == class.as_str());
    is(statement.class) || statement.is_open && statement.others.first().is_some_and(|other| is(other.class))
}

fn has_place(truth: &Truth, statement: &Statement) -> bool {
    let places = [
        statement.place.as_ref(),
        statement
            .others
            .first()
            .filter(|_| statement.is_open)
            .and_then(|other| other.place.as_ref()),
    ];
    let is = |said: String| truth.places.iter().any(|known| *known == said || is_any(known, &said));
    places.into_iter().flatten().any(|place| is(place.to_string()))
}

/// Whether class and place of a statement are those of a truth.
pub(super) fn is_named_as(truth: &Truth, statement: &Statement) -> bool {
    has_class(truth, statement) && has_place(truth, statement)
}

/// Whether a place stands for all of its kind.
fn is_any(known: &str, said: &str) -> bool {
    let kind = known.strip_suffix(":*");
    kind.is_some_and(|kind| said.strip_prefix(kind).is_some_and(|rest| rest.starts_with(':')))
}

/// The part of a statement that differs from the truth; `None` if it is strictly right.
fn wrong(truth: &Truth, statement: &Statement, bin_s: f64) -> Option<&'static str> {
    if !has_class(truth, statement) {
        return Some("class");
    }
    if !has_place(truth, statement) {
        return Some("place");
    }
    if truth.links.is_empty() {
        return None;
    }
    if (statement.from_s - truth.from_s).abs() > ONSET_S.max(3.0 * bin_s) {
        return Some("begin");
    }
    let both = (statement.until_s.min(truth.until_s) - statement.from_s.max(truth.from_s)).max(0.0);
    let either = statement.until_s.max(truth.until_s) - statement.from_s.min(truth.from_s);
    if both < OVERLAP * either {
        return Some("time");
    }
    let differs = (statement.held_bps - truth.held_bps).abs() > RATE * truth.held_bps.max(RATE * truth.asked_bps);
    differs.then_some("rate")
}

/// The sum of the squared errors of all classes' probabilities. The rest of a statement is for other causes; silence is for none.
fn brier(case: &Case, first: Option<&Statement>) -> f64 {
    let mut said: BTreeMap<CauseClass, f64> = BTreeMap::new();
    match first {
        None => {
            said.insert(CauseClass::None, 1.0);
        }
        Some(first) => {
            *said.entry(first.class).or_default() += first.probability;
            for other in &first.others {
                *said.entry(other.class).or_default() += other.probability;
            }
            let rest = (1.0 - said.values().sum::<f64>()).max(0.0);
            *said.entry(CauseClass::Other).or_default() += rest;
        }
    }
    let is_true = |class: CauseClass| match case.truths.as_slice() {
        [] => class == CauseClass::None,
        truths => truths
            .iter()
            .any(|truth| truth.classes.iter().any(|known| known == class.as_str())),
    };
    // Of several classes that are right, the surest is meant.
    let of = |class: CauseClass| said.get(&class).copied().unwrap_or_default();
    let right = CauseClass::ALL.iter().copied().filter(|class| is_true(*class));
    let meant = right.max_by(|one, other| of(*one).total_cmp(&of(*other)));
    let misses = CauseClass::ALL
        .iter()
        .map(|class| of(*class) - f64::from(u8::from(Some(*class) == meant)));
    misses.map(|miss| miss * miss).sum()
}

/// Adds judgements up.
pub fn score(judged: &[Judged]) -> Score {
    let of = |kind: CaseKind| judged.iter().filter(move |one| one.kind == kind);
    let share =
        |kind: CaseKind, is: fn(&Judged) -> bool| Share::of(of(kind).filter(|one| is(one)).count(), of(kind).count());
    let (correct, named) = judged
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.correct, sum.1 + one.named));
    let classes: BTreeSet<&str> = of(CaseKind::One).map(|one| one.truth.as_str()).collect();
    let by_class = |class: &str| {
        let cases = || of(CaseKind::One).filter(move |one| one.truth == class);
        Share::of(cases().filter(|one| one.is_right).count(), cases().count())
    };
    Score {
        n_one: of(CaseKind::One).count(),
        strict: share(CaseKind::One, |one| one.is_right),
        class_only: share(CaseKind::One, |one| one.is_class_right),
        place_only: share(CaseKind::One, |one| one.is_place_right),
        precision: Share::of(correct, named),
        macro_f1: macro_f1(judged, &classes),
        two: share(CaseKind::Two, |one| one.is_right),
        false_alarms: share(CaseKind::Healthy, |one| !one.is_right),
        brier: judged.iter().map(|one| one.brier).sum::<f64>() / (judged.len() as f64).max(1.0),
        reliability: reliability(judged),
        by_class: classes
            .iter()
            .map(|class| ((*class).to_owned(), by_class(class)))
            .collect(),
    }
}

/// Of each class: how many that were said to be of it are strictly right, and how many of it were found.
fn macro_f1(judged: &[Judged], classes: &BTreeSet<&str>) -> f64 {
    let f1 = |class: &&str| {
        let right = judged
            .iter()
            .filter(|one| one.kind == CaseKind::One && one.truth == **class && one.is_right)
            .count();
        let said = judged
            .iter()
            .filter(|one| one.kind != CaseKind::Two && one.said.as_deref() == Some(*class))
            .count();
        let there = judged
            .iter()
            .filter(|one| one.kind == CaseKind::One && one.truth == **class)
            .count();
        2.0 * right as f64 / ((said + there) as f64).max(1.0)
    };
    classes.iter().map(f1).sum::<f64>() / (classes.len() as f64).max(1.0)
}

fn reliability(judged: &[Judged]) -> Vec<(f64, f64, usize)> {
    let mut bins = vec![(0.0, 0, 0); BINS];
    for (probability, is_right) in judged.iter().flat_map(|one| &one.sure) {
        let bin = &mut bins[((probability * BINS as f64) as usize).min(BINS - 1)];
        *bin = (bin.0 + probability, bin.1 + usize::from(*is_right), bin.2 + 1);
    }
    let of = |(sum, right, n): (f64, usize, usize)| (sum / n as f64, right as f64 / n as f64, n);
    bins.into_iter().filter(|(.., n)| *n > 0).map(of).collect()
}

#[cfg(test)]
mod tests;
