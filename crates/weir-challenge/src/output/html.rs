//! Makes `report.html` and other pages: the front end's page with their data frozen in.

use serde::Serialize;
use weir_measure::advice;
use weir_measure::report::{Report, SiteReport, ThresholdReport};

/// The front end's page, or the small fallback of a build without one. See `build.rs`.
const TEMPLATE: &str = include_str!(concat!(env!("OUT_DIR"), "/report.html"));

/// Where the data go: the content of this element is replaced.
const OPENING: &str = "<script type=\"application/json\" id=\"weir-report\">";

/// The mark of a figure's place in the fallback page; the front end's page has none.
const MARK: &str = "<!--weir:";

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("the page this build was made with has no place for a report's data")]
pub struct NoPlace;

/// Renders a report as one page that opens offline.
///
/// # Errors
/// When the page that this build was made with has no element for the data.
pub fn render(report: &Report) -> Result<String, NoPlace> {
    fill(TEMPLATE, report, |part| without_script(part, report))
}

/// Renders other data that the front end supports; a build without a front end shows `lines` instead.
///
/// # Errors
/// As [`render`].
pub fn render_data(data: &impl Serialize, lines: &[String]) -> Result<String, NoPlace> {
    if TEMPLATE.contains(MARK) {
        let title = lines.first().map_or_else(String::new, |line| escape(line));
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Weir: {title}</title>\n</head>\n<body>\n\
             <pre>{}</pre>\n{OPENING}null</script>\n</body>\n</html>\n",
            escape(&lines.join("\n"))
        );
        return fill(&page, data, str::to_owned);
    }
    fill(TEMPLATE, data, str::to_owned)
}

fn fill(template: &str, data: &impl Serialize, frame: impl Fn(&str) -> String) -> Result<String, NoPlace> {
    let start = template.find(OPENING).ok_or(NoPlace)? + OPENING.len();
    let end = start + template[start..].find("</script>").ok_or(NoPlace)?;
    let data = serde_json::to_string(data).expect("what is shown has only string keys and finite numbers");
    let mut page = String::with_capacity(template.len() + data.len());
    page.push_str(&frame(&template[..start]));
    page.push_str(&data.replace('<', "\\u003c"));
    page.push_str(&frame(&template[end..]));
    Ok(page)
}

/// Fills in the figures of the fallback page, which needs no script.
fn without_script(part: &str, report: &Report) -> String {
    if !part.contains(MARK) {
        return part.to_owned();
    }
    let list = |items: Vec<String>| match items.join("</li><li>") {
        items if items.is_empty() => items,
        items => format!("<li>{items}</li>"),
    };
    let reasons = list(report.verdict_reasons.iter().map(|reason| escape(reason)).collect());
    let thresholds = list(report.thresholds.iter().map(threshold).collect());
    let row = |site: &SiteReport| {
        let asked = site.asked_bps.map_or_else(|| "–".to_owned(), advice::rate);
        let ratio = site
            .ratio
            .map_or_else(|| "–".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0));
        let achieved = site.achieved_bps.map_or_else(|| "–".to_owned(), advice::rate);
        format!(
            "<tr><td>{}</td><td>{asked}</td><td>{achieved}</td><td>{ratio}</td></tr>",
            escape(&site.site)
        )
    };
    let sites = report.sites.iter().map(row).collect::<Vec<_>>().concat();
    part.replace("<!--weir:challenge-->", &escape(&report.challenge))
        .replace("<!--weir:verdict-->", report.verdict.as_str())
        .replace("<!--weir:reasons-->", &reasons)
        .replace("<!--weir:thresholds-->", &thresholds)
        .replace("<!--weir:sites-->", &sites)
        .replace("<!--weir:command-->", &escape(&report.command))
}

fn threshold(threshold: &ThresholdReport) -> String {
    let mark = if threshold.pass { "✓" } else { "✗" };
    let measured = threshold
        .measured
        .map_or_else(|| "no data".to_owned(), |value| format!("{value:.3}"));
    format!(
        "{mark} {} {} {}: {measured}",
        escape(&threshold.name),
        escape(&threshold.comparison),
        threshold.asked
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
