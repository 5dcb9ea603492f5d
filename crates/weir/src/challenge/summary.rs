//! The summary on the terminal after a run: verdict first, then its figures.

use weir_challenge::RunOutcome;
use weir_measure::quantiles::Percentiles;
use weir_measure::report::{
    ChainReport, CrossCheck, Evenness, FaultReport, Report, SiteReport, ThresholdReport, Times, Verdict, WorkloadKind,
};
use weir_units::{BitRate, Bytes};

use crate::output::Output;

/// Lines shown of a long list.
const SHOWN: usize = 12;

/// Prints the end of a run.
pub(crate) fn print(outcome: &RunOutcome, output: &Output) {
    let report = &outcome.report;
    let print = |lines: Vec<String>| lines.iter().for_each(|line| output.line(line));
    output.line("");
    output.line(verdict(report, output.color()));
    print(
        report
            .verdict_reasons
            .iter()
            .take(SHOWN)
            .map(|reason| format!("  {reason}"))
            .collect(),
    );
    if report.verdict_reasons.len() > SHOWN {
        output.line(format!("  … and {} more reasons", report.verdict_reasons.len() - SHOWN));
    }
    if let Some(advice) = &report.advice {
        output.line(format!("  this machine {advice}"));
    }
    print(why(report));
    print(by_size(report));
    print(sites(report));
    print(totals(report));
    print(report.chain.as_ref().map(chain).unwrap_or_default());
    print(steps(report));
    print(thresholds(report));
    print(faults(report));
    print(errors(report));
    print(crosschecks(report));
    if let Some(audit) = &report.audit {
        let (files, failed, bytes) = (audit.files, audit.failed, Bytes(audit.bytes));
        output.line("");
        output.line(format!(
            "audit: {files} files, {bytes:.1} read back, {failed} differ from the sent ones"
        ));
        print(audit.samples.iter().map(|sample| format!("  {sample}")).collect());
    }
    output.line("");
    output.line(format!(
        "report  {}",
        outcome.report_folder.join("report.html").display()
    ));
    output.line(format!("again   {}", report.command));
}

/// The causes that held links back, in one sentence each.
pub(crate) fn why(report: &Report) -> Vec<String> {
    let said = &report.statements;
    if said.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "why".to_owned()];
    lines.extend(said.iter().take(SHOWN).map(|statement| format!("  {}", statement.text)));
    if said.len() > SHOWN {
        lines.push(format!("  … and {} more", said.len() - SHOWN));
    }
    lines
}

/// Says where files were not verified by a checksum.
fn by_size(report: &Report) -> Vec<String> {
    if report.verified_by_size.is_empty() {
        return Vec::new();
    }
    let names = report.verified_by_size.join(", ");
    vec![format!(
        "  copies to {names} are verified by size alone: no checksum is reported there"
    )]
}

fn verdict(report: &Report, color: bool) -> String {
    let word = match report.verdict {
        Verdict::None => "NO VERDICT".to_owned(),
        verdict => verdict.as_str().to_uppercase(),
    };
    let interrupted = match (report.interrupted, report.incomplete) {
        (true, _) => " (interrupted)",
        (false, true) => " (incomplete)",
        (false, false) => "",
    };
    let code = match report.verdict {
        Verdict::Pass => "1;32",
        Verdict::None => "1",
        Verdict::Unstable => "1;33",
        Verdict::Fail => "1;31",
    };
    let word = if color {
        format!("\x1b[{code}m{word}\x1b[0m")
    } else {
        word
    };
    format!("{}: {word}{interrupted}", report.challenge)
}

/// The table of the mini data challenges: asked, achieved, per cent in and out.
fn sites(report: &Report) -> Vec<String> {
    if report.totals.asked_bps.is_none() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!(
            "{:<12} {:>11} {:>11} {:>6} {:>6} {:>9} {:>7}",
            "site", "asked", "achieved", "% in", "% out", "transfers", "failed"
        ),
    ];
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.0}", ratio * 100.0));
    let rate = |rate: Option<BitRate>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.1}"));
    let row = |site: &SiteReport| {
        format!(
            "{:<12} {:>11} {:>11} {:>6} {:>6} {:>9} {:>7}",
            site.site,
            rate(site.asked_bps),
            rate(site.achieved_bps),
            percent(site.ratio),
            percent(site.egress.ratio),
            site.transfers,
            site.failed
        )
    };
    lines.extend(report.sites.iter().map(row));
    lines
}

fn totals(report: &Report) -> Vec<String> {
    let totals = &report.totals;
    let mut lines = vec![String::new()];
    if let (Some(asked), Some(achieved), Some(ratio)) = (totals.asked_bps, totals.achieved_bps, totals.ratio) {
        lines.push(format!(
            "asked {:.2}, achieved {:.2} ({:.1} %) over {:.0} s of hold",
            asked,
            achieved,
            ratio * 100.0,
            report.windows.hold.end_s - report.windows.hold.start_s
        ));
    }
    let cancelled = if totals.unanswered > 0 {
        format!(
            ", {} cancelled ({} of them unanswered)",
            totals.cancelled, totals.unanswered
        )
    } else if totals.cancelled > 0 {
        format!(", {} cancelled", totals.cancelled)
    } else {
        String::new()
    };
    let retries = if totals.retries > 0 {
        format!(", {} attempts repeated", totals.retries)
    } else {
        String::new()
    };
    lines.push(format!(
        "{} transfers, {} finished, {} failed{cancelled}{retries}; {:.2} verified",
        totals.transfers,
        totals.finished,
        totals.failed,
        Bytes(totals.verified_bytes)
    ));
    lines.extend(report.evenness.as_ref().and_then(even));
    lines.extend(times(&totals.times));
    lines.extend(totals.times.first_byte_s.as_ref().map(first_byte));
    if let Some(late) = totals.lateness_p95_s {
        let busy = report
            .host
            .cpu_busy_ratio
            .map_or_else(String::new, |busy| format!("; processors {:.0} % busy", busy * 100.0));
        lines.push(format!("95 % were submitted at most {late:.2} s late{busy}"));
    }
    lines
}

/// How even the seconds of the hold were.
fn even(evenness: &Evenness) -> Option<String> {
    let achieved = evenness.total.achieved?;
    let planned = evenness
        .total
        .planned
        .map_or_else(String::new, |planned| format!(" (as injected {planned:.2})"));
    let sites = evenness.sites.values().filter_map(|cv| cv.achieved);
    let most = sites
        .max_by(f64::total_cmp)
        .map_or_else(String::new, |most| format!(", of a site by {most:.2} at most"));
    Some(format!("the rate of a second varied by {achieved:.2}{planned}{most}"))
}

/// The catalogue's part: rules, the stages of their time, deletions.
fn chain(chain: &ChainReport) -> Vec<String> {
    let not_ok = [(chain.incomplete, "incomplete"), (chain.refused, "refused")];
    let not_ok = not_ok.iter().filter(|(count, _)| *count > 0);
    let not_ok: Vec<String> = not_ok.map(|(count, word)| format!(", {count} {word}")).collect();
    let mut lines = vec![
        String::new(),
        format!("{} rules, {} OK{}", chain.rules, chain.ok, not_ok.concat()),
    ];
    if let Some(took) = &chain.rule_to_ok_s {
        lines.push(format!(
            "rule to OK took {} (p50), {} (p95), {} (p99)",
            seconds(took.p50),
            seconds(took.p95),
            seconds(took.p99)
        ));
    }
    let rooms = &chain.rooms;
    let rooms = [
        ("evaluation", &rooms.evaluation_s),
        ("submission", &rooms.submission_s),
        ("queue", &rooms.queue_s),
        ("copy", &rooms.copy_s),
        ("completion", &rooms.completion_s),
    ];
    let rooms = rooms
        .iter()
        .filter_map(|(name, took)| Some(format!("{name} {}", seconds(took.as_ref()?.p95))));
    let rooms: Vec<String> = rooms.collect();
    if !rooms.is_empty() {
        lines.push(format!("  of that, p95 of each part: {}", rooms.join(", ")));
    }
    if let Some(deletions) = &chain.deletions {
        let delay = deletions.delay_s.as_ref();
        let delay = delay.map_or_else(String::new, |delay| {
            format!(
                "; {} (p50), {} (p95) after the end of their rules",
                seconds(delay.p50),
                seconds(delay.p95)
            )
        });
        let repeated = deletions
            .repeated
            .map_or_else(String::new, |n| format!(", {n} deleted again"));
        lines.push(format!(
            "{} copies to delete, {} deleted{repeated}, {} late{delay}",
            deletions.due, deletions.done, deletions.late
        ));
    }
    let stuck = chain.stuck.iter().take(SHOWN);
    lines.extend(stuck.map(|rule| {
        let id = if rule.rule.is_empty() {
            "not made"
        } else {
            rule.rule.as_str()
        };
        format!("  rule {id} {} → {}: {}", rule.source, rule.destination, rule.reason)
    }));
    lines
}

/// How long transfers took, and how fast they were.
fn times(times: &Times) -> Option<String> {
    let (took, rate) = times.transfer_s.zip(times.rate_bps)?;
    let bps = |bps: f64| format!("{:.1}", BitRate(bps as u64));
    Some(format!(
        "a transfer took {} (p50), {} (p95), {} (p99); at {} (p50), 95 % at {} or more",
        seconds(took.p50),
        seconds(took.p95),
        seconds(took.p99),
        bps(rate.p50),
        bps(rate.p5)
    ))
}

/// How long the first bytes took.
fn first_byte(after: &Percentiles) -> String {
    format!(
        "the first byte moved {} (p50), {} (p95), {} (p99) after the order of the copy",
        seconds(after.p50),
        seconds(after.p95),
        seconds(after.p99)
    )
}

fn seconds(seconds: f64) -> String {
    format!("{} s", three_digits(seconds))
}

/// A number with three digits, as far as they say something.
fn three_digits(number: f64) -> String {
    match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Matrix and ramp: working cells and their rates.
fn steps(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let rate = |rate: Option<BitRate>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.1}"));
    for workload in &report.workloads {
        match &workload.kind {
            WorkloadKind::Rates { .. } => {}
            WorkloadKind::Matrix { cells } => {
                let good = cells.iter().filter(|cell| cell.ok).count();
                lines.push(String::new());
                lines.push(format!("{}: {good} of {} cells work", workload.name, cells.len()));
                for cell in cells {
                    let mark = if cell.ok { '✓' } else { '✗' };
                    let link = format!("{}→{}", cell.source, cell.destination);
                    let size = format!("{:.0}", Bytes(cell.size_bytes));
                    let error = cell
                        .error
                        .as_deref()
                        .map(|error| format!("  {error}"))
                        .unwrap_or_default();
                    lines.push(format!(
                        "  {mark} {link:<24} {:<8} {size:>8} {:>11}{error}",
                        cell.mode,
                        rate(cell.rate_bps)
                    ));
                }
            }
            WorkloadKind::Ramp { steps } => {
                lines.push(String::new());
                lines.push(format!(
                    "{:<24} {:>8} {:>8} {:>11} {:>7}",
                    workload.name, "parallel", "size", "achieved", "failed"
                ));
                for step in steps {
                    let link = format!("{}→{}", step.source, step.destination);
                    let size = format!("{:.0}", Bytes(step.file_bytes));
                    lines.push(format!(
                        "  {link:<22} {:>8} {size:>8} {:>11} {:>7}",
                        step.parallel,
                        rate(step.achieved_bps),
                        step.failed
                    ));
                }
            }
        }
    }
    lines
}

fn thresholds(report: &Report) -> Vec<String> {
    if report.thresholds.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    lines.extend(report.thresholds.iter().map(threshold));
    lines
}

fn threshold(threshold: &ThresholdReport) -> String {
    let mark = if threshold.pass { '✓' } else { '✗' };
    let value = |value: f64| match threshold.unit.as_str() {
        "" => format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        "bit/s" => format!("{:.2}", BitRate(value.max(0.0) as u64)),
        unit => format!("{value:.3} {unit}"),
    };
    let measured = threshold.measured.map_or_else(|| "no data".to_owned(), value);
    format!(
        "{mark} {:<32} {measured} {} {}",
        threshold.name,
        threshold.comparison,
        value(threshold.asked)
    )
}

/// Every fault of the run, and whether any asked rate felt it.
fn faults(report: &Report) -> Vec<String> {
    if report.faults.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "faults".to_owned()];
    lines.extend(report.faults.iter().map(fault));
    lines
}

fn fault(fault: &FaultReport) -> String {
    let amount = fault
        .amount
        .as_ref()
        .map_or_else(String::new, |amount| format!(" {amount}"));
    let effect = match (fault.effect, fault.links.first()) {
        _ if fault.times.is_empty() => "was never on".to_owned(),
        (None, _) => "no rate is asked that could feel it".to_owned(),
        (Some(true), Some(link)) => {
            let percent = |ratio: f64| format!("{:.0} %", ratio.max(0.0) * 100.0);
            let rest = link
                .missed_else_ratio
                .map_or_else(String::new, |ratio| format!(", {} else", percent(ratio)));
            format!(
                "{} missed {} of what was asked of it{rest}",
                link.link,
                percent(link.missed_ratio)
            )
        }
        _ => "no effect on any asked rate".to_owned(),
    };
    format!("  {} at {}{amount}: {effect}", fault.name, fault.place)
}

fn errors(report: &Report) -> Vec<String> {
    if report.errors.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "errors".to_owned()];
    for error in &report.errors {
        let party = error
            .party
            .as_deref()
            .map(|party| format!(" ({party})"))
            .unwrap_or_default();
        lines.push(format!("  {} × {}{party}: {}", error.count, error.class, error.sample));
        lines.extend(error.remedy.as_deref().map(|remedy| format!("    {remedy}")));
    }
    lines
}

/// The sum over all storages, and every disagreement.
fn crosschecks(report: &Report) -> Vec<String> {
    let shown = |check: &&CrossCheck| check.subject == "all" || check.pass == Some(false);
    let bytes = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    let line = |check: &CrossCheck| {
        let mark = match check.pass {
            Some(true) => '✓',
            Some(false) => '✗',
            None => '–',
        };
        if check.catalogue.is_some() {
            return format!(
                "{mark} {} {}: catalogue {}, storage {}; {}",
                check.subject,
                check.quantity,
                bytes(check.catalogue),
                bytes(check.receiving_storage),
                apart(check),
            );
        }
        format!(
            "{mark} {} {}: transfer service {}, receiving {}, sending {}; {}{}",
            check.subject,
            check.quantity,
            bytes(check.transfer_service),
            bytes(check.receiving_storage),
            bytes(check.sending_storage),
            apart(check),
            carried(check),
        )
    };
    let mut lines = vec![String::new()];
    lines.extend(report.crosschecks.iter().filter(shown).map(line));
    let all = report.crosschecks.len();
    let open = || report.crosschecks.iter().filter(|check| check.pass.is_none());
    let lone = open().filter(|check| is_alone(check)).count();
    if lone > 0 {
        lines.push(format!(
            "– {lone} of {all} comparisons have fewer than two counters: nothing to compare"
        ));
    }
    let doubtful = open().count() - lone;
    if doubtful > 0 {
        lines.push(format!(
            "– {doubtful} of {all} comparisons are open: repeated, cancelled, unanswered or failed attempts may explain the difference"
        ));
    }
    let notes = report.crosschecks.iter().filter(|check| check.subject == "all");
    lines.extend(
        notes
            .filter_map(|check| check.note.as_ref())
            .map(|note| format!("  {note}")),
    );
    lines
}

/// Whether there was nothing to compare a counter with.
fn is_alone(check: &CrossCheck) -> bool {
    check.difference_ratio.is_none() && check.sockets_difference_ratio.is_none()
}

/// How far the counters are apart.
fn apart(check: &CrossCheck) -> String {
    match check.difference_ratio {
        None => "fewer than two counters".to_owned(),
        Some(ratio) => format!("difference {:.4} %", ratio * 100.0),
    }
}

/// The bytes on the sockets, and the allowed difference.
fn carried(check: &CrossCheck) -> String {
    let ratios = check.sockets_difference_ratio.zip(check.sockets_tolerance_ratio);
    let Some((bytes, (difference, tolerance))) = check.sockets.zip(ratios) else {
        return String::new();
    };
    let (difference, tolerance) = (difference * 100.0, tolerance * 100.0);
    format!("; sockets {bytes}, difference {difference:.2} % (≤ {tolerance:.2} %)")
}
