//! `weir sim compare`: every policy beside the optimum, on one page.

use weir_measure::advice::rate;
use weir_sim::compare::{Comparison, SiteResult, compare, workload_ratio};

use crate::cli::SimCompareArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Sites shown one by one: those that fell shortest under any policy.
const SITES: usize = 14;

/// Runs every policy on the challenge of a file and prints them side by side.
pub(super) fn run(arguments: &SimCompareArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = super::plan(&arguments.file, &arguments.overrides)?;
    let comparison = compare(&plan, |_| {});
    page(&comparison).iter().for_each(|line| output.line(line));
    output.done(&comparison);
    let sound = comparison.policies.iter().all(|policy| policy.violations.is_empty());
    Ok(if sound { Exit::Done } else { Exit::VerdictFail })
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn page(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} asked, {} possible (seed {}, scale {})",
        comparison.challenge,
        rate(comparison.asked_bps),
        comparison.optimum_bps.map_or_else(|| "?".to_owned(), rate),
        comparison.seed,
        comparison.scale
    )];
    let full: Vec<&str> = comparison.full.iter().take(6).map(|(name, _)| name.as_str()).collect();
    if !full.is_empty() {
        lines.push(format!("  even the optimum is held back by {}", full.join("; ")));
    }
    lines.push(String::new());
    let heads: Vec<String> = comparison
        .policies
        .iter()
        .map(|policy| format!("{:>13}", policy.policy))
        .collect();
    lines.push(format!("{:<28}{}", "", heads.concat()));
    let row = |name: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>13}")).collect();
        format!("{name:<28}{}", cells.concat())
    };
    let of = |pick: &dyn Fn(&weir_sim::compare::PolicyResult) -> String| comparison.policies.iter().map(pick).collect();
    lines.push(row(
        "achieved",
        of(&|policy| rate(policy.totals.achieved_bps.unwrap_or(0))),
    ));
    lines.push(row("achieved ÷ asked", of(&|policy| percent(policy.totals.ratio))));
    lines.push(row("achieved ÷ optimum", of(&|policy| percent(policy.of_optimum))));
    lines.push(row("transfers failed", of(&|policy| policy.totals.failed.to_string())));
    lines.push(row("attempts again", of(&|policy| policy.totals.retries.to_string())));
    workloads(comparison, &row, &mut lines);
    sites(comparison, &row, &mut lines);
    for policy in comparison
        .policies
        .iter()
        .filter(|policy| !policy.violations.is_empty())
    {
        lines.push(format!(
            "{} broke a rule of the world: {}",
            policy.policy, policy.violations[0]
        ));
    }
    lines
}

type Row<'r> = &'r dyn Fn(&str, Vec<String>) -> String;

fn workloads(comparison: &Comparison, row: Row<'_>, lines: &mut Vec<String>) {
    let Some(first) = comparison.policies.first().filter(|first| first.workloads.len() > 1) else {
        return;
    };
    lines.extend([String::new(), "achieved ÷ asked, by workload".to_owned()]);
    for (at, workload) in first.workloads.iter().enumerate() {
        let Some((asked, _)) = workload_ratio(workload) else {
            continue;
        };
        let cells = comparison.policies.iter().map(|policy| {
            let ratio = policy.workloads.get(at).and_then(workload_ratio);
            percent(ratio.map(|(_, ratio)| ratio))
        });
        lines.push(row(&format!("{} ({})", workload.name, rate(asked)), cells.collect()));
    }
}

fn sites(comparison: &Comparison, row: Row<'_>, lines: &mut Vec<String>) {
    let worst = |site: &SiteResult| {
        let ratios = site.policies.iter().filter_map(|policy| policy.ratio);
        ratios.fold(f64::INFINITY, f64::min)
    };
    let mut shown: Vec<&SiteResult> = comparison.sites.iter().collect();
    shown.sort_by(|one, other| worst(one).total_cmp(&worst(other)));
    let hidden = shown.len().saturating_sub(SITES);
    shown.truncate(SITES);
    lines.extend([String::new(), "achieved ÷ asked into each site (÷ optimum)".to_owned()]);
    for site in &shown {
        let cell = |policy: &weir_sim::compare::SitePolicy| {
            format!("{} ({})", percent(policy.ratio), percent(policy.of_optimum))
        };
        let name = format!("{} ({})", site.site, rate(site.asked_bps));
        lines.push(row(&name, site.policies.iter().map(cell).collect()));
    }
    if hidden > 0 {
        lines.push(format!("… and {hidden} sites that came closer to what was asked"));
    }
    lines.extend([String::new(), "what held the sites back".to_owned()]);
    for (at, policy) in comparison.policies.iter().enumerate() {
        let reason = |site: &&SiteResult| {
            let held = site.policies.get(at)?.held_back.clone()?;
            Some(format!("{}: {held}", site.site))
        };
        let reasons: Vec<String> = shown.iter().filter_map(reason).take(5).collect();
        let text = if reasons.is_empty() {
            "nothing".to_owned()
        } else {
            reasons.join("; ")
        };
        lines.push(format!("{:<14}{text}", policy.policy));
    }
}
