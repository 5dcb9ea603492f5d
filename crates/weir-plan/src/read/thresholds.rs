//! The `[[threshold]]` tables.

use std::collections::BTreeSet;
use std::time::Duration;

use toml::de::DeValue;
use weir_model::file::{FromValue, Refusal, Section, nearest, one_of};
use weir_model::{Grid, Link, SiteName};
use weir_units::{BitRate, duration};

use crate::keys::THRESHOLD;
use crate::spec::{Inject, RateSpec, WorkloadSpec};
use crate::threshold::{Comparison, Metric, Subject, Threshold, Unit};

/// The possible subjects of a threshold: the grid, and the rates asked by the workloads.
struct Asked<'a> {
    grid: &'a Grid,
    workloads: &'a [WorkloadSpec],
}

pub(super) fn read(section: &Section<'_>, grid: &Grid, workloads: &[WorkloadSpec]) -> Vec<Threshold> {
    let asked = Asked { grid, workloads };
    let mut list: Vec<Threshold> = Vec::new();
    for table in section.tables("threshold", &THRESHOLD) {
        let (metric, subjects) = (table.required::<Metric>("metric"), asked.subjects(&table));
        let (Some(metric), Some((key, subjects))) = (metric, subjects) else {
            continue;
        };
        let bounds = bounds(&table, metric);
        let has_metric = |subject: &Subject| asked.check(subject, metric).is_ok();
        // A pattern is refused once for a problem that all its subjects share.
        let mut refused = BTreeSet::new();
        let some_have = subjects.len() > 1 && subjects.iter().any(has_metric);
        for subject in subjects {
            if let Err(refusal) = asked.check(&subject, metric) {
                if !some_have {
                    table.refuse(key, refusal);
                }
                continue;
            }
            for (bound, comparison, value) in &bounds {
                if let Err(refusal) = asked.reachable(&subject, metric, *comparison, *value)
                    && refused.insert((*bound, refusal.message.clone()))
                {
                    table.refuse(bound, refusal);
                }
                let new = Threshold::new(subject.clone(), metric, *comparison, *value);
                if list
                    .iter()
                    .any(|old| old.name == new.name && old.comparison == new.comparison)
                {
                    let message = format!("there are two thresholds {} {}", new.name, comparison.sign());
                    table.refuse(bound, Refusal::new(message, "remove one of them"));
                }
                list.push(new);
            }
        }
    }
    list
}

fn bounds(table: &Section<'_>, metric: Metric) -> Vec<(&'static str, Comparison, f64)> {
    if !table.has("min") && !table.has("max") {
        table.miss("min", "add min or max");
    }
    let mut bounds = Vec::new();
    for (key, comparison) in [("min", Comparison::AtLeast), ("max", Comparison::AtMost)] {
        let Some(amount) = table.optional::<Amount>(key) else {
            continue;
        };
        match amount.of(metric) {
            Ok(value) => bounds.push((key, comparison, value)),
            Err(refusal) => table.refuse(key, refusal),
        }
    }
    if let [(_, _, min), (_, _, max)] = bounds[..]
        && min > max
    {
        table.refuse(
            "min",
            Refusal::new("impossible: min is above max", "correct one of the two"),
        );
    }
    bounds
}

impl Asked<'_> {
    /// The key that names the subject, and the subjects that it stands for.
    fn subjects(&self, table: &Section<'_>) -> Option<(&'static str, Vec<Subject>)> {
        let given: Vec<&'static str> = ["total", "site", "link", "workload"]
            .into_iter()
            .filter(|key| table.has(key))
            .collect();
        let [key] = given[..] else {
            match given.last() {
                None => table.miss("total", "add total = true, or site, link or workload"),
                Some(key) => {
                    let message = format!("stands beside {}", given[0]);
                    table.refuse(key, Refusal::new(message, "keep one subject per threshold"));
                }
            }
            return None;
        };
        let subjects = match key {
            "total" => {
                let is_true = |total: &bool| {
                    if *total {
                        Ok(())
                    } else {
                        Err(Refusal::new("is false", "write true, or remove it"))
                    }
                };
                table.checked("total", is_true).map(|_| vec![Subject::Total])
            }
            "site" => pick_text(table, key, &self.sites(), |site| Subject::Site(site.clone())),
            "link" => {
                let links: Vec<Link> = self.rates().map(|spec| spec.link.clone()).collect();
                let text: String = table.optional("link")?;
                let text = text.parse::<Link>().map_or(text, |link| link.to_string());
                pick(table, key, &text, &links, |link| Subject::Link(link.clone()))
            }
            _ => {
                let names: Vec<&str> = self.workloads.iter().map(WorkloadSpec::name).collect();
                pick_text(table, key, &names, |name| Subject::Workload((*name).to_owned()))
            }
        };
        Some((key, subjects?))
    }

    fn makes_rules(&self) -> bool {
        let makes =
            |workload: &WorkloadSpec| matches!(workload, WorkloadSpec::Rates(spec) if spec.inject == Inject::Rules);
        self.workloads.iter().any(makes)
    }

    fn rates(&self) -> impl Iterator<Item = &RateSpec> {
        self.workloads.iter().flat_map(|workload| match workload {
            WorkloadSpec::Rates(spec) => spec.rates.as_slice(),
            WorkloadSpec::Matrix(_) | WorkloadSpec::Ramp(_) => &[],
        })
    }

    /// The sites that a `rates` workload asks something of, in the order of the grid.
    fn sites(&self) -> Vec<SiteName> {
        let ends = |spec: &RateSpec| [spec.link.source.clone(), spec.link.destination.clone()];
        let sites: BTreeSet<_> = self
            .rates()
            .flat_map(ends)
            .filter_map(|rse| self.grid.site_of(&rse))
            .collect();
        self.grid
            .sites
            .iter()
            .map(|site| &site.name)
            .filter(|name| sites.contains(name))
            .cloned()
            .collect()
    }

    /// The total rate asked of a subject at scale 1; zero if no workload asks for it.
    fn rate(&self, subject: &Subject, egress: bool) -> BitRate {
        let of = |spec: &&RateSpec| match subject {
            Subject::Total => true,
            Subject::Site(site) => {
                let end = if egress {
                    &spec.link.source
                } else {
                    &spec.link.destination
                };
                self.grid.site_of(end) == Some(site)
            }
            Subject::Link(link) => spec.link == *link,
            Subject::Workload(_) => false,
        };
        if let Subject::Workload(name) = subject {
            let workload = self.workloads.iter().filter(|workload| workload.name() == name);
            return Asked {
                grid: self.grid,
                workloads: &workload.cloned().collect::<Vec<_>>(),
            }
            .rate(&Subject::Total, egress);
        }
        self.rates().filter(of).map(|spec| spec.rate).sum()
    }

    /// Refuses metrics that a subject does not have.
    fn check(&self, subject: &Subject, metric: Metric) -> Result<(), Refusal> {
        let refuse = |message: String, remedy: &str| Err(Refusal::new(message, remedy));
        let egress = metric == Metric::EgressRatio;
        let whole = matches!(subject, Subject::Total);
        match metric {
            Metric::EgressRatio if !matches!(subject, Subject::Site(_)) => refuse(
                format!("egress_ratio is a figure of sites, not of {subject}"),
                "use site, or metric = \"ratio\"",
            ),
            Metric::CrosscheckDifference if !whole => {
                refuse(format!("cross-checks are not taken of {subject}"), "use total = true")
            }
            Metric::RuleToOkP95 | Metric::DeletionP95 if !whole => refuse(
                format!("{} is not taken of {subject}", metric.as_str()),
                "use total = true",
            ),
            Metric::RuleToOkP95 | Metric::DeletionP95 if !self.makes_rules() => refuse(
                "impossible: no workload makes rules".to_owned(),
                "add a table [catalog] to the grid file, or remove the threshold",
            ),
            Metric::Variation if !matches!(subject, Subject::Total | Subject::Site(_)) => {
                refuse(format!("variation is not taken of {subject}"), "use total or site")
            }
            Metric::LatenessP95 | Metric::LatenessMax if !whole => {
                refuse(format!("lateness is not taken of {subject}"), "use total = true")
            }
            Metric::LatenessP95
            | Metric::LatenessMax
            | Metric::Ratio
            | Metric::EgressRatio
            | Metric::Achieved
            | Metric::Variation
                if self.rate(subject, egress) == BitRate::ZERO =>
            {
                let way = if egress { "out of" } else { "into" };
                let what = if matches!(subject, Subject::Site(_)) {
                    format!("{way} {subject}")
                } else {
                    subject.to_string()
                };
                refuse(
                    format!("impossible: no rate is asked of {what}"),
                    "use failed_ratio, or ask a rate",
                )
            }
            _ => Ok(()),
        }
    }

    /// Refuses thresholds that no run can reach.
    fn reachable(&self, subject: &Subject, metric: Metric, comparison: Comparison, value: f64) -> Result<(), Refusal> {
        let at_least = comparison == Comparison::AtLeast;
        match metric.measure() {
            Unit::Share if value > 1.0 => Err(Refusal::new(
                format!("impossible: {} is at most 1", metric.as_str()),
                "write a number from 0 to 1",
            )),
            Unit::Ratio if at_least && value > 1.0 => Err(Refusal::new(
                "impossible: injection stops at the asked rate, so more than 1 comes by chance alone",
                "write a number from 0 to 1, or ask a higher rate",
            )),
            Unit::Rate if at_least && value > self.rate(subject, false).as_f64() => Err(Refusal::new(
                format!("impossible: only {} is asked of {subject}", self.rate(subject, false)),
                "write at most that, or ask a higher rate",
            )),
            _ => Ok(()),
        }
    }
}

/// Subjects of the text under a key: the one of that name, or all for `*`.
fn pick_text<T: ToString>(
    table: &Section<'_>,
    key: &str,
    known: &[T],
    subject: impl Fn(&T) -> Subject,
) -> Option<Vec<Subject>> {
    let text: String = table.optional(key)?;
    pick(table, key, &text, known, subject)
}

fn pick<T: ToString>(
    table: &Section<'_>,
    key: &str,
    text: &str,
    known: &[T],
    subject: impl Fn(&T) -> Subject,
) -> Option<Vec<Subject>> {
    if text == "*" && !known.is_empty() {
        return Some(known.iter().map(subject).collect());
    }
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    if let Some(at) = names.iter().position(|name| name == text) {
        return Some(vec![subject(&known[at])]);
    }
    let remedy = match nearest(text, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None if names.is_empty() => "use total or workload".to_owned(),
        None => format!("use one of *, {}", names.join(", ")),
    };
    table.refuse(
        key,
        Refusal::new(format!("no workload asks anything of {key} \"{text}\""), remedy),
    );
    None
}

/// A bound as written; its meaning depends on the metric.
enum Amount {
    Number(f64),
    Text(String),
}

impl FromValue for Amount {
    fn from_value(value: &DeValue<'_>) -> Result<Amount, Refusal> {
        match value {
            DeValue::String(text) => Ok(Amount::Text(text.to_string())),
            _ => f64::from_value(value).map(Amount::Number),
        }
    }
}

impl Amount {
    fn of(&self, metric: Metric) -> Result<f64, Refusal> {
        let unit_error = |error: weir_units::ParseError| Refusal::new(error.to_string(), error.remedy());
        let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
        match (metric.measure(), self) {
            (Unit::Rate, Amount::Text(text)) => text.parse().map(|rate: BitRate| rate.as_f64()).map_err(unit_error),
            (Unit::Time, Amount::Text(text)) => duration::parse(text).map(seconds).map_err(unit_error),
            (Unit::Rate, Amount::Number(number)) => Err(Refusal::new(
                format!("rate {number} has no unit"),
                format!("add a unit, such as \"{number} Gb/s\""),
            )),
            (Unit::Time, Amount::Number(number)) => Err(Refusal::new(
                format!("duration {number} has no unit"),
                format!("add a unit, such as \"{number} s\""),
            )),
            (_, Amount::Text(text)) => Err(Refusal::new(
                format!("must be a number, not the text \"{text}\""),
                "write a number such as 0.9",
            )),
            (_, Amount::Number(number)) if *number < 0.0 => Err(Refusal::new(
                format!("impossible: {number} is negative"),
                "write 0 or more",
            )),
            (_, Amount::Number(number)) => Ok(*number),
        }
    }
}

impl FromValue for Metric {
    fn from_value(value: &DeValue<'_>) -> Result<Metric, Refusal> {
        one_of(
            &String::from_value(value)?,
            &Metric::ALL.map(|metric| (metric.as_str(), metric)),
        )
    }
}
