//! A comparison as a page of text, 80 columns wide.

use std::collections::BTreeSet;

use weir_measure::chain_report::{ChainReport, DeletionReport};
use weir_measure::report::{WorkloadKind, WorkloadReport};
use weir_sim::compare::{Comparison, PolicyResult, SiteCause, SiteResult};
use weir_units::BitRate;

/// Sites shown one by one: those where most is lost.
const SITES: usize = 12;
/// Sites of which the reason is told, of each policy.
const REASONS: usize = 2;
/// Width of the page.
const WIDTH: usize = 80;
/// Width of the first column, and of the others.
const NAME: usize = 28;
const CELL: usize = 10;

fn rate(rate: BitRate) -> String {
    rate.three_digits()
}

/// Writes the page, line by line.
pub(super) fn text(comparison: &Comparison) -> Vec<String> {
    let mut page = Page::default();
    head(comparison, &mut page);
    totals(comparison, &mut page);
    workloads(comparison, &mut page);
    if comparison.asked_bps > BitRate::ZERO {
        sites(comparison, &mut page);
        causes(comparison, &mut page);
    }
    for policy in comparison
        .policies
        .iter()
        .filter(|policy| !policy.violations.is_empty())
    {
        page.line(&format!(
            "{} broke a rule of the world: {}",
            policy.policy, policy.violations[0]
        ));
    }
    page.0
}

/// Lines, none wider than the page unless a single word is.
#[derive(Default)]
struct Page(Vec<String>);

impl Page {
    /// Adds a paragraph; its lines after the first are indented.
    fn line(&mut self, text: &str) {
        self.paragraph("", text);
    }

    /// Adds a paragraph of which every line is indented.
    fn indented(&mut self, text: &str) {
        self.paragraph("  ", text);
    }

    fn paragraph(&mut self, indent: &str, text: &str) {
        let (mut line, mut is_empty) = (indent.to_owned(), true);
        for word in text.split(' ') {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.0.push(std::mem::replace(&mut line, "  ".to_owned()));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.0.push(line);
    }

    fn heading(&mut self, text: &str) {
        self.0.push(String::new());
        self.line(text);
    }

    fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let name = shortened(name, NAME);
        let cells: String = cells.into_iter().map(|cell| format!("{cell:>CELL$}")).collect();
        self.0.push(format!("{name:<NAME$}{cells}").trim_end().to_owned());
    }
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// A share in per cent, never rounded up to the whole: 99.97 % is not all.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || "–".to_owned(),
        |share| {
            let rounded = (share * 100.0).round();
            let whole = if share < 1.0 { rounded.min(99.0) } else { rounded };
            format!("{whole:.0} %")
        },
    )
}

fn duration(seconds: f64) -> String {
    weir_units::duration::format(std::time::Duration::from_secs(seconds.round() as u64))
}

/// The two lines over a policy's column: `fts-imitation` is cut at the hyphen; of a scheduler and a catalogue each has a line.
fn heads_of(policy: &str) -> (&str, &str) {
    match policy.split_once(" + ") {
        Some((scheduler, catalog)) => (scheduler.split_once('-').map_or(scheduler, |(first, _)| first), catalog),
        None => policy.split_once('-').unwrap_or(("", policy)),
    }
}

/// A time in three digits or so, for a column.
fn coarse(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.2} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// The asked rate, the estimated optimum, and its bottlenecks.
pub(super) fn situation(comparison: &Comparison) -> String {
    let n_sites = comparison.sites.len();
    let asked = if comparison.asked_bps > BitRate::ZERO {
        format!(
            "Asked: {} over {} links into {n_sites} site{}.",
            rate(comparison.asked_bps),
            comparison.n_links,
            if n_sites == 1 { "" } else { "s" }
        )
    } else {
        format!("Steps over {} links, one after the other.", comparison.n_links)
    };
    let possible = comparison.optimum_bps.map_or_else(String::new, |possible| {
        format!(" Estimated optimum: {}.", rate(possible))
    });
    let full: Vec<&str> = comparison.full.iter().take(4).map(|(name, _)| name.as_str()).collect();
    let more = match comparison.full.len().saturating_sub(full.len()) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let held = if full.is_empty() {
        String::new()
    } else {
        format!(" What would be full then: {}{more}.", full.join("; "))
    };
    format!("{asked}{possible}{held}")
}

/// The result in words: the best and the worst, and where they are furthest apart.
pub(super) fn result(comparison: &Comparison) -> Option<String> {
    let achieved = |policy: &PolicyResult| policy.totals.achieved_bps.unwrap_or_default();
    let best = comparison.policies.iter().rev().max_by_key(|policy| achieved(policy))?;
    let worst = comparison.policies.iter().min_by_key(|policy| achieved(policy))?;
    let of = match (best.totals.ratio, best.of_optimum) {
        (Some(asked), Some(possible)) => {
            let (asked, possible) = (percent(Some(asked)), percent(Some(possible)));
            format!(", {asked} of the asked rate and {possible} of the estimated optimum")
        }
        (None, Some(possible)) => format!(", {} of the estimated optimum", percent(Some(possible))),
        _ => String::new(),
    };
    let (most, least) = (rate(achieved(best)), rate(achieved(worst)));
    let apart = furthest_apart(comparison).unwrap_or_default();
    if achieved(best).as_f64() <= achieved(worst).as_f64() * 1.02 {
        return Some(format!("All policies bring about {most}{of}.{apart}"));
    }
    let (best, worst) = (&best.policy, &worst.policy);
    Some(format!(
        "Most is brought by {best}: {most}{of}. Least by {worst}: {least}.{apart}"
    ))
}

/// The workload in which policies differ most, where there are several.
fn furthest_apart(comparison: &Comparison) -> Option<String> {
    let tables = of_workloads(comparison);
    let lines = || {
        tables
            .iter()
            .flat_map(|(_, lines)| lines)
            .filter(|line| !line.shares.is_empty())
    };
    let ends = |line: &TableRow| {
        let known = || {
            line.shares
                .iter()
                .enumerate()
                .filter_map(|(at, share)| Some((at, (*share)?)))
        };
        let least = known().min_by(|one, other| one.1.total_cmp(&other.1))?;
        let most = known().rev().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((least, most))
    };
    let gap = |line: &TableRow| ends(line).map_or(0.0, |(least, most)| most.1 - least.1);
    let line = lines().max_by(|one, other| gap(one).total_cmp(&gap(other)))?;
    if lines().count() < 2 || gap(line) < 0.05 {
        return None;
    }
    let ((worst, least), (best, most)) = ends(line)?;
    let name = |at: usize| &comparison.policies[at].policy;
    let (least, most) = (percent(Some(least)), percent(Some(most)));
    let (worst, best) = (name(worst), name(best));
    Some(format!(
        " Furthest apart in {}: {most} under {best}, {least} under {worst}.",
        line.name
    ))
}

fn head(comparison: &Comparison, page: &mut Page) {
    page.line(&format!("{}: which scheduler brings how much", comparison.challenge));
    if !comparison.description.is_empty() {
        page.line(&comparison.description);
    }
    page.heading(&situation(comparison));
    result(comparison).iter().for_each(|result| page.line(result));
    page.line(&comparison.limits);
    for assumed in &comparison.assumed {
        page.line(&format!("Not measured, but set for this world: {assumed}."));
    }
    page.0.push(String::new());
}

fn totals(comparison: &Comparison, page: &mut Page) {
    let heads: Vec<(&str, &str)> = comparison
        .policies
        .iter()
        .map(|policy| heads_of(&policy.policy))
        .chain([("estimated", "optimum")])
        .collect();
    let has_catalogs = comparison.policies.iter().any(|policy| policy.chain.is_some());
    let names = if has_catalogs {
        ["scheduler", "catalogue"]
    } else {
        ["", ""]
    };
    page.row(names[0], heads.iter().map(|(above, _)| (*above).to_owned()));
    page.row(names[1], heads.iter().map(|(_, below)| (*below).to_owned()));
    let of = |pick: &dyn Fn(&PolicyResult) -> String| comparison.policies.iter().map(pick).collect::<Vec<_>>();
    let possible = comparison.optimum_bps;
    let brought = of(&|policy| rate(policy.totals.achieved_bps.unwrap_or_default()));
    page.row("brought", brought.into_iter().chain(possible.map(rate)));
    if comparison.asked_bps > BitRate::ZERO {
        let ratio = possible.map(|possible| possible.as_f64() / comparison.asked_bps.as_f64());
        let ratios = of(&|policy| percent(policy.totals.ratio));
        page.row("of what is asked", ratios.into_iter().chain([percent(ratio)]));
    } else {
        page.row("time for all steps", of(&|policy| duration(policy.hold_s)));
    }
    page.row("of the optimum", of(&|policy| percent(policy.of_optimum)));
    if comparison.policies.iter().any(|policy| !policy.thresholds.is_empty()) {
        page.row("thresholds kept", of(&kept));
    }
    if has_catalogs {
        chains(comparison, page);
    }
    if comparison
        .policies
        .iter()
        .any(|policy| policy.totals.failed + policy.totals.retries > 0)
    {
        page.row("transfers that failed", of(&|policy| policy.totals.failed.to_string()));
        page.row("attempts made again", of(&|policy| policy.totals.retries.to_string()));
    }
}

/// Rows about rules, and about copies whose rules had ended.
fn chains(comparison: &Comparison, page: &mut Page) {
    let of = |pick: &dyn Fn(&ChainReport) -> Option<String>| {
        let cell = |policy: &PolicyResult| policy.chain.as_ref().and_then(pick).unwrap_or_else(|| "–".to_owned());
        comparison.policies.iter().map(cell).collect::<Vec<_>>()
    };
    let share = |part: u64, whole: u64| (whole > 0).then(|| percent(Some(part as f64 / whole as f64)));
    page.row("rules that became OK", of(&|chain| share(chain.ok, chain.rules)));
    page.row(
        "rule to OK, 95 % within",
        of(&|chain| Some(coarse(chain.rule_to_ok_s.as_ref()?.p95))),
    );
    let deletions = |pick: &dyn Fn(&DeletionReport) -> Option<String>| of(&|chain| pick(chain.deletions.as_ref()?));
    page.row("copies deleted", deletions(&|found| share(found.done, found.due)));
    page.row(
        "deletion, 95 % within",
        deletions(&|found| Some(coarse(found.delay_s.as_ref()?.p95))),
    );
    if comparison.policies.iter().any(|policy| repeated(policy) > 0) {
        page.row(
            "deletions of missing copies",
            comparison.policies.iter().map(|policy| repeated(policy).to_string()),
        );
    }
}

fn repeated(policy: &PolicyResult) -> u64 {
    let deletions = policy.chain.as_ref().and_then(|chain| chain.deletions.as_ref());
    deletions.and_then(|found| found.repeated).unwrap_or(0)
}

fn kept(policy: &PolicyResult) -> String {
    let kept = policy.thresholds.iter().filter(|threshold| threshold.pass).count();
    format!("{kept} of {}", policy.thresholds.len())
}

/// One line of a table over the policies: its label, and each policy's figure.
struct TableRow {
    name: String,
    cells: Vec<String>,
    /// The figures, where they are shares.
    shares: Vec<Option<f64>>,
}

/// The results of each workload: shares of the asked rates, working cells, rates of a ramp's steps. Heading and lines.
fn of_workloads(comparison: &Comparison) -> Vec<(String, Vec<TableRow>)> {
    let Some(first) = comparison.policies.first() else {
        return Vec::new();
    };
    let mut tables: Vec<(String, Vec<TableRow>)> = Vec::new();
    for (at, workload) in first.workloads.iter().enumerate() {
        let reports: Vec<&WorkloadReport> = comparison
            .policies
            .iter()
            .filter_map(|policy| policy.workloads.get(at))
            .collect();
        match &workload.kind {
            WorkloadKind::Rates { asked_bps, .. } => {
                let heading = "Achieved ÷ asked, by workload, each in its own time".to_owned();
                let line = of_rates(&workload.name, *asked_bps, &reports);
                match tables.iter_mut().find(|(other, _)| *other == heading) {
                    Some((_, lines)) => lines.push(line),
                    None => tables.push((heading, vec![line])),
                }
            }
            WorkloadKind::Matrix { cells } => {
                let heading = format!("{}: cells that worked, of {}", workload.name, cells.len());
                tables.push((heading, of_matrix(&reports)));
            }
            WorkloadKind::Ramp { steps } => {
                let heading = format!("{}: rate with so many transfers at once", workload.name);
                let line = |step: usize| of_step(step, &reports);
                tables.push((heading, (0..steps.len()).map(line).collect()));
            }
        }
    }
    tables
}

fn of_rates(name: &str, asked: BitRate, reports: &[&WorkloadReport]) -> TableRow {
    let ratio = |report: &&WorkloadReport| match &report.kind {
        WorkloadKind::Rates { ratio, .. } => *ratio,
        WorkloadKind::Matrix { .. } | WorkloadKind::Ramp { .. } => None,
    };
    let shares: Vec<Option<f64>> = reports.iter().map(ratio).collect();
    TableRow {
        name: format!("{name}, {}", rate(asked)),
        cells: shares.iter().map(|share| percent(*share)).collect(),
        shares,
    }
}

fn of_matrix(reports: &[&WorkloadReport]) -> Vec<TableRow> {
    let count = |report: &&WorkloadReport| match &report.kind {
        WorkloadKind::Matrix { cells } => cells.iter().filter(|cell| cell.ok).count().to_string(),
        WorkloadKind::Rates { .. } | WorkloadKind::Ramp { .. } => String::new(),
    };
    vec![TableRow {
        name: "all modes and sizes".to_owned(),
        cells: reports.iter().map(count).collect(),
        shares: Vec::new(),
    }]
}

fn of_step(step: usize, reports: &[&WorkloadReport]) -> TableRow {
    let steps = reports.iter().filter_map(|report| match &report.kind {
        WorkloadKind::Ramp { steps } => steps.get(step),
        WorkloadKind::Rates { .. } | WorkloadKind::Matrix { .. } => None,
    });
    let steps: Vec<_> = steps.collect();
    let name = steps.first().map_or_else(String::new, |step| {
        format!("{}→{} × {}", step.source, step.destination, step.parallel)
    });
    TableRow {
        name,
        cells: steps
            .iter()
            .map(|step| step.achieved_bps.map_or_else(|| "–".to_owned(), rate))
            .collect(),
        shares: Vec::new(),
    }
}

fn workloads(comparison: &Comparison, page: &mut Page) {
    for (heading, lines) in of_workloads(comparison) {
        page.heading(&heading);
        for line in lines {
            page.row(&line.name, line.cells);
        }
    }
}

/// The sites with the largest loss under any policy, relative to their possible rate.
fn most_lost(comparison: &Comparison) -> Vec<&SiteResult> {
    let lost = |site: &&SiteResult| {
        let possible = site.optimum_bps.unwrap_or(site.asked_bps).min(site.asked_bps);
        let least = site
            .policies
            .iter()
            .map(|policy| policy.achieved_bps)
            .min()
            .unwrap_or_default();
        possible - least
    };
    let mut sites: Vec<&SiteResult> = comparison.sites.iter().collect();
    sites.sort_by_key(|site| std::cmp::Reverse(lost(site)));
    sites
}

fn sites(comparison: &Comparison, page: &mut Page) {
    page.heading("Achieved ÷ asked into each site; first those where most is lost");
    page.indented("(possible while the whole grid gets most; one site may get more)");
    let sites = most_lost(comparison);
    for site in sites.iter().take(SITES) {
        let asked = rate(site.asked_bps);
        let name = shortened(&site.site, NAME - asked.len() - 2);
        let possible = site
            .optimum_bps
            .map(|possible| possible.as_f64() / site.asked_bps.as_f64());
        let cells = site.policies.iter().map(|policy| percent(policy.ratio));
        page.row(&format!("{name}, {asked}"), cells.chain([percent(possible)]));
    }
    if let Some(hidden) = sites.len().checked_sub(SITES).filter(|hidden| *hidden > 0) {
        page.line(&format!("and {hidden} more sites; --html and --json show them all"));
    }
}

/// The causes that held any policy back at any site.
pub(super) fn found(comparison: &Comparison) -> BTreeSet<SiteCause> {
    let policies = comparison.sites.iter().flat_map(|site| &site.policies);
    policies.filter_map(|policy| policy.cause).collect()
}

/// A cause in words that follow "so many sites".
pub(super) fn sentence(cause: SiteCause) -> String {
    match cause {
        SiteCause::Possible => "got all of the estimated optimum".to_owned(),
        SiteCause::Class(class) => format!("lost most to {class}"),
        SiteCause::Unexplained => "lost most to causes unknown".to_owned(),
    }
}

/// At how many sites a cause held a policy back.
pub(super) fn count(comparison: &Comparison, policy: usize, cause: SiteCause) -> usize {
    let is = |site: &&SiteResult| site.policies[policy].cause == Some(cause);
    comparison.sites.iter().filter(is).count()
}

fn causes(comparison: &Comparison, page: &mut Page) {
    page.heading("Why sites got less than 95 % of the asked rate");
    let ranked = most_lost(comparison);
    for (at, policy) in comparison.policies.iter().enumerate() {
        let counts = found(comparison)
            .into_iter()
            .map(|cause| (cause, count(comparison, at, cause)));
        let parts: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| format!("{count} {}", sentence(cause)))
            .collect();
        let text = if parts.is_empty() {
            "none did".to_owned()
        } else {
            parts.join("; ")
        };
        page.line(&format!("{}: {text}", policy.policy));
        let told = |site: &&SiteResult| {
            let site_policy = &site.policies[at];
            let held = site_policy
                .held_back
                .as_ref()
                .filter(|_| site_policy.cause != Some(SiteCause::Possible))?;
            Some(format!("{}: {held}", site.site))
        };
        let told: Vec<String> = ranked.iter().filter_map(told).take(REASONS).collect();
        if !told.is_empty() {
            page.indented(&told.join("; "));
        }
    }
}
