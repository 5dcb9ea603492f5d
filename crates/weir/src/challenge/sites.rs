//! Shows the findings at storage before a run.

use weir_challenge::sites::{Outcome, SiteChecks, SitesReport};

/// Formats the findings; unless `all`, the working parts of a storage are one line.
pub(super) fn lines(report: &SitesReport, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for site in &report.sites {
        lines.push(format!("  {} {:<12} {}", mark_of(site), site.rse, site.url));
        for check in &site.checks {
            let is_worth_it = all || !matches!(check.outcome, Outcome::Ok { .. } | Outcome::Skipped { .. });
            if is_worth_it {
                lines.extend(finding(&format!("{:<12}", check.name), &check.outcome));
            }
        }
    }
    let works = report
        .copies
        .iter()
        .filter(|copy| matches!(copy.outcome, Outcome::Ok { .. }))
        .count();
    lines.push(format!(
        "  {works} of {} copies that were tried work",
        report.copies.len()
    ));
    for copy in &report.copies {
        if all || !matches!(copy.outcome, Outcome::Ok { .. }) {
            let mode = copy.mode.map_or_else(String::new, |mode| format!(" ({mode})"));
            let name = format!("{} -> {}{mode}", copy.source, copy.destination);
            lines.extend(finding(&format!("{name:<24}"), &copy.outcome));
        }
    }
    lines.extend(report.ways.iter().map(|way| format!("  {way}")));
    if report.copies_left_out > 0 {
        let left_out = report.copies_left_out;
        lines.push(format!("  {left_out} more copies of the plan were not tried: those above were drawn, each storage in each role first"));
    }
    lines
}

/// The worst of a storage's findings.
fn mark_of(site: &SiteChecks) -> &'static str {
    let has = |pick: fn(&Outcome) -> bool| site.checks.iter().any(|check| pick(&check.outcome));
    if has(Outcome::has_failed) {
        "✗"
    } else if has(|outcome| matches!(outcome, Outcome::Warning { .. })) {
        "!"
    } else {
        "✓"
    }
}

/// One finding, with its remedy on a line of its own.
pub(crate) fn finding(name: &str, outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Ok { detail } => vec![format!("    ✓ {name} {detail}")],
        Outcome::Skipped { why } => vec![format!("    – {name} not tried: {why}")],
        Outcome::Warning { detail, remedy } => {
            vec![format!("    ! {name} {detail}"), format!("      → {remedy}")]
        }
        Outcome::Failed { cause, remedy } => {
            vec![format!("    ✗ {name} {cause}"), format!("      → {remedy}")]
        }
    }
}
