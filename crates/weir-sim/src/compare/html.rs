//! A comparison as one page for a browser: no script, nothing from elsewhere.

use std::fmt::Write;

use super::text::{counts, duration, kept, most_lost, of_workloads, percent, rate, situation, verdict};
use super::{Cause, Comparison, PolicyResult, SiteResult, chart};

const STYLE: &str = include_str!("style.css");

/// Writes the page; `command` is the one that makes it again.
pub fn html(comparison: &Comparison, command: &str) -> String {
    let mut page = String::new();
    let title = escape(&comparison.challenge);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: schedulers compared</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    if !comparison.description.is_empty() {
        paragraph(&mut page, "", &comparison.description);
    }
    paragraph(&mut page, "hint", &situation(comparison));
    verdict(comparison)
        .iter()
        .for_each(|text| paragraph(&mut page, "verdict", text));
    totals(&mut page, comparison);
    over_time(&mut page, comparison);
    workloads(&mut page, comparison);
    if comparison.asked_bps > 0 {
        causes(&mut page, comparison);
        sites(&mut page, comparison);
    }
    again(&mut page, comparison, command);
    page.push_str("</body>\n</html>\n");
    page
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn paragraph(page: &mut String, class: &str, text: &str) {
    let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escape(text));
}

fn heading(page: &mut String, text: &str) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(text));
}

/// The names of the policies as heads of columns, with their colours.
fn heads(comparison: &Comparison) -> String {
    let head = |(at, policy): (usize, &PolicyResult)| {
        format!(
            "<th class=\"num\"><span class=\"key k{at}\"></span>{}</th>",
            escape(&policy.policy)
        )
    };
    comparison.policies.iter().enumerate().map(head).collect()
}

/// Heads over bars, which begin at the left.
fn left(heads: &str) -> String {
    heads.replace("<th class=\"num\">", "<th>")
}

fn numbers(cells: impl IntoIterator<Item = String>) -> String {
    let cell = |text: String| format!("<td class=\"num\">{}</td>", escape(&text));
    cells.into_iter().map(cell).collect()
}

fn totals(page: &mut String, comparison: &Comparison) {
    let of = |pick: &dyn Fn(&PolicyResult) -> String| comparison.policies.iter().map(pick).collect::<Vec<_>>();
    let possible = comparison.optimum_bps;
    let mut rows = vec![(
        "brought",
        of(&|policy| rate(policy.totals.achieved_bps.unwrap_or(0))),
        possible.map(rate),
    )];
    if comparison.asked_bps > 0 {
        let ratio = possible.map(|possible| possible as f64 / comparison.asked_bps as f64);
        rows.push((
            "of what is asked",
            of(&|policy| percent(policy.totals.ratio)),
            Some(percent(ratio)),
        ));
    } else {
        rows.push(("time for all steps", of(&|policy| duration(policy.hold_s)), None));
    }
    rows.push(("of what is possible", of(&|policy| percent(policy.of_optimum)), None));
    if comparison.policies.iter().any(|policy| !policy.thresholds.is_empty()) {
        rows.push(("thresholds kept", of(&kept), None));
    }
    rows.push((
        "transfers that failed",
        of(&|policy| policy.totals.failed.to_string()),
        None,
    ));
    rows.push((
        "attempts made again",
        of(&|policy| policy.totals.retries.to_string()),
        None,
    ));
    let head = heads(comparison);
    let _ = writeln!(
        page,
        "<table class=\"big\"><thead><tr><th></th>{head}<th class=\"num\">at most possible</th></tr></thead><tbody>"
    );
    for (name, cells, most) in rows {
        let cells = numbers(cells.into_iter().chain([most.unwrap_or_default()]));
        let _ = writeln!(page, "<tr><th class=\"name\">{name}</th>{cells}</tr>");
    }
    page.push_str("</tbody></table>\n");
    missed(page, comparison);
}

/// The thresholds that policies miss.
fn missed(page: &mut String, comparison: &Comparison) {
    for policy in &comparison.policies {
        let missed = policy.thresholds.iter().filter(|threshold| !threshold.pass);
        let names: Vec<&str> = missed.map(|threshold| threshold.name.as_str()).collect();
        if !names.is_empty() {
            paragraph(page, "hint", &format!("{} misses: {}", policy.policy, names.join("; ")));
        }
        if let Some(violation) = policy.violations.first() {
            paragraph(
                page,
                "bad",
                &format!("{} broke a rule of the world: {violation}", policy.policy),
            );
        }
    }
}

fn over_time(page: &mut String, comparison: &Comparison) {
    heading(page, "All links together in the course of time");
    page.push_str("<div class=\"legend\">");
    let sample = |class: &str, name: &str| {
        format!(
            "<span><svg viewBox=\"0 0 28 12\"><path class=\"{class}\" d=\"M0 6H28\"/></svg>{}</span>",
            escape(name)
        )
    };
    for (at, policy) in comparison.policies.iter().enumerate() {
        page.push_str(&sample(&format!("l{at}"), &policy.policy));
    }
    if comparison.asked_bps > 0 {
        page.push_str(&sample("asked", "asked"));
        page.push_str(&sample("possible", "possible at most"));
    }
    page.push_str("</div>\n<figure>");
    page.push_str(&chart::rates(comparison));
    page.push_str("</figure>\n");
}

/// A bar as wide as a share, with a mark where the most that is possible lies.
fn bar(policy: usize, share: Option<f64>, possible: Option<f64>, title: &str) -> String {
    let Some(share) = share else {
        return "<td class=\"bars\">–</td>".to_owned();
    };
    let width = |share: f64| format!("{:.1}%", share.clamp(0.0, 1.0) * 100.0);
    let mark = possible.map_or_else(String::new, |possible| {
        format!("<b style=\"left:calc({} - 1px)\"></b>", width(possible))
    });
    format!(
        "<td class=\"bars\" title=\"{}\"><span>{}</span><div class=\"bar\"><i class=\"k{policy}\" style=\"width:{}\"></i>{mark}</div></td>",
        escape(title),
        percent(Some(share)),
        width(share)
    )
}

fn workloads(page: &mut String, comparison: &Comparison) {
    for (name, lines) in of_workloads(comparison) {
        heading(page, &name);
        let has_bars = lines.iter().any(|line| !line.shares.is_empty());
        let (class, heads) = if has_bars {
            ("even", left(&heads(comparison)))
        } else {
            ("", heads(comparison))
        };
        let _ = writeln!(
            page,
            "<table class=\"{class}\"><thead><tr><th></th>{heads}</tr></thead><tbody>"
        );
        for line in lines {
            let cells = if line.shares.is_empty() {
                numbers(line.cells)
            } else {
                let shares = line.shares.iter().enumerate();
                shares.map(|(at, share)| bar(at, *share, None, "")).collect()
            };
            let _ = writeln!(page, "<tr><th class=\"name\">{}</th>{cells}</tr>", escape(&line.name));
        }
        page.push_str("</tbody></table>\n");
    }
}

fn causes(page: &mut String, comparison: &Comparison) {
    heading(page, "Why sites got less than 95 % of what is asked");
    let all: Vec<_> = (0..comparison.policies.len())
        .map(|at| counts(comparison, at))
        .collect();
    let _ = writeln!(
        page,
        "<table><thead><tr><th>sites where</th>{}</tr></thead><tbody>",
        heads(comparison)
    );
    for cause in Cause::ALL {
        let count = |counts: &Vec<(Cause, usize)>| {
            counts
                .iter()
                .find(|(other, _)| *other == cause)
                .map_or(0, |found| found.1)
        };
        if all.iter().all(|counts| count(counts) == 0) {
            continue;
        }
        let cells = numbers(all.iter().map(|counts| count(counts).to_string()));
        let _ = writeln!(page, "<tr><th>{}</th>{cells}</tr>", escape(cause.sentence()));
    }
    page.push_str("</tbody></table>\n");
}

fn sites(page: &mut String, comparison: &Comparison) {
    heading(page, "Achieved ÷ asked into each site");
    paragraph(
        page,
        "hint",
        "First the sites where most is lost. The mark is what is possible at most while the whole grid gets most; a policy may \
         bring one site more at the expense of others. Hover a bar for what held it back.",
    );
    let head = left(&heads(comparison));
    let _ = writeln!(
        page,
        "<table class=\"even\"><thead><tr><th>site</th><th class=\"num\">asked</th>{head}</tr></thead><tbody>"
    );
    for site in most_lost(comparison) {
        site_row(page, site);
    }
    page.push_str("</tbody></table>\n");
}

fn site_row(page: &mut String, site: &SiteResult) {
    let possible = site
        .optimum_bps
        .map(|possible| possible as f64 / site.asked_bps.max(1) as f64);
    let cell = |(at, policy): (usize, &super::SitePolicy)| {
        let held = policy
            .held_back
            .as_ref()
            .map_or_else(String::new, |held| format!(": {held}"));
        bar(
            at,
            policy.ratio,
            possible,
            &format!("{}{held}", rate(policy.achieved_bps)),
        )
    };
    let cells: String = site.policies.iter().enumerate().map(cell).collect();
    let (name, asked) = (escape(&site.site), rate(site.asked_bps));
    let _ = writeln!(
        page,
        "<tr><th class=\"name\">{name}</th><td class=\"num\">{asked}</td>{cells}</tr>"
    );
}

fn again(page: &mut String, comparison: &Comparison, command: &str) {
    heading(page, "How to read this");
    paragraph(
        page,
        "",
        "The same challenge ran in the simulated world under each policy, with the same seed, limits and failures. Rates are verified \
         bytes within the hold. What is possible is the optimum of a linear programme that knows everything beforehand and to which \
         failures cost nothing: no scheduler reaches all of it.",
    );
    let _ = writeln!(
        page,
        "<p>Seed {}, scale {}. Again: <code>{}</code></p>",
        comparison.seed,
        comparison.scale,
        escape(command)
    );
}
