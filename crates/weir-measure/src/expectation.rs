//! Whether the report of a run shows the signs of an incident.
//!
//! The deficit is taken from the series of asked and achieved rates, its causes from the oracle's account of a simulated
//! run, else from the waits that the services told. States that are the consequence of another one (a slot that a slow
//! transfer holds, the pause after a failure) count as a cause only where they are expected.

use std::collections::BTreeMap;

use weir_plan::{Expect, Finding};

use crate::deficit::DeficitPart;
use crate::report::{ErrorReport, Report, Verdict};

/// The least share of the asked bits that counts as a deficit.
const FELT: f64 = 0.05;
/// The expected rate is met within this share.
const HELD: f64 = 0.15;
/// States that follow from others.
const CONSEQUENCES: [&str; 6] = [
    "slots",
    "optimiser",
    "bandwidth-limit",
    "pause",
    "retry",
    "other-transfer",
];

/// The signs of an incident in one run.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Signs {
    /// Links that are judged.
    pub links: Vec<String>,
    /// Share of their asked bits that they missed in the time of the incident.
    pub missed_ratio: Option<f64>,
    /// The same before it.
    pub missed_before_ratio: Option<f64>,
    /// Their rate together in that time, bit/s.
    pub held_bps: Option<f64>,
    /// Causes of the deficit, the largest first: state and place, with the share of the asked bits.
    pub causes: Vec<(String, f64)>,
    /// Expected signs that are not there; empty if the run is as expected.
    pub wrong: Vec<String>,
}

/// Looks for the signs of an incident in the report of a run with it.
pub fn of_incident(expect: &Expect, report: &Report) -> Signs {
    let mut signs = measure(expect, report);
    if expect.is_silent {
        let missed = signs.missed_ratio.unwrap_or(0.0);
        if missed >= FELT {
            signs.wrong.push(format!(
                "{} of the asked bits are missing, though nothing is wrong",
                percent(missed)
            ));
        }
        if report.verdict != Verdict::Pass {
            signs.wrong.push(format!(
                "the verdict is {}, though nothing is wrong",
                report.verdict.as_str()
            ));
        }
        return signs;
    }
    if expect.wait.is_some() || expect.place.is_some() {
        check_deficit(expect, &mut signs);
    }
    if let Some(class) = &expect.error {
        let party = expect
            .place
            .as_deref()
            .filter(|_| expect.wait.is_none())
            .and_then(party_at);
        let is_meant = |error: &&ErrorReport| {
            error.class == *class && party.is_none_or(|party| error.party.as_deref() == Some(party))
        };
        if !report.errors.iter().any(|error| is_meant(&error)) {
            let by = party.map_or_else(String::new, |party| format!(" at the {party}"));
            signs.wrong.push(format!("no transfer failed with {class}{by}"));
        }
    }
    if let Some(finding) = expect.finding
        && !is_found(finding, report)
    {
        signs.wrong.push(format!("the report does not find it: {finding:?}"));
    }
    // A counter that is not there contradicts nothing: the report says so, and may pass.
    if report.verdict == Verdict::Pass && expect.finding != Some(Finding::Crosscheck) {
        signs.wrong.push("the challenge passes with the incident".to_owned());
    }
    signs
}

/// Looks for the signs of an incident in the report of a real run: its deficit in the expected time and not before it. The state of
/// whatever made each fault must be as it should. The causes are the simulator's to tell.
pub fn of_real(expect: &Expect, report: &Report) -> Signs {
    let deficit = Expect {
        wait: None,
        held: None,
        error: None,
        ..expect.clone()
    };
    let mut signs = if expect.wait.is_some() || expect.place.is_some() {
        let mut signs = measure(&deficit, report);
        check_deficit(&deficit, &mut signs);
        if report.verdict == Verdict::Pass {
            signs.wrong.push("the challenge passes with the incident".to_owned());
        }
        signs
    } else {
        of_incident(&deficit, report)
    };
    for fault in &report.faults {
        match &fault.acted {
            Some(acted) if acted.contains("did not") => signs.wrong.push(format!("{}: {acted}", fault.name)),
            _ => {}
        }
    }
    signs
}

/// The party that refuses transfers at a place.
fn party_at(place: &str) -> Option<&'static str> {
    match place.split_once(':')?.0 {
        "rse-in" => Some("destination"),
        "rse-out" => Some("source"),
        "path" => Some("network"),
        "issuer" => Some("issuer"),
        _ => None,
    }
}

/// Looks whether the same challenge passes with the remedy.
pub fn of_remedy(expect: &Expect, report: &Report) -> Signs {
    let mut signs = measure(expect, report);
    let missed = signs.missed_ratio.unwrap_or(0.0);
    if missed >= FELT {
        signs.wrong.push(format!(
            "with the remedy {} of the asked bits are missing",
            percent(missed)
        ));
    }
    if report.verdict != Verdict::Pass {
        let reason = report.verdict_reasons.first().map_or("", String::as_str);
        signs.wrong.push(format!(
            "with the remedy the verdict is {}: {reason}",
            report.verdict.as_str()
        ));
    }
    signs
}

fn check_deficit(expect: &Expect, signs: &mut Signs) {
    let missed = signs.missed_ratio.unwrap_or(0.0);
    if missed < FELT {
        signs
            .wrong
            .push(format!("only {} of the asked bits are missing", percent(missed)));
    }
    if let Some(before) = signs.missed_before_ratio.filter(|before| *before >= FELT) {
        signs
            .wrong
            .push(format!("{} are missing before it begins", percent(before)));
    }
    let Some(wait) = expect.wait.as_deref() else { return };
    let wanted = cause(wait, expect.place.as_deref());
    match signs.causes.first() {
        Some((first, _)) if *first == wanted => {}
        first => {
            let found = first.map_or("nothing", |(name, _)| name.as_str());
            signs.wrong.push(format!("the largest cause is {found}, not {wanted}"));
        }
    }
    if let Some((held, expected)) = signs.held_bps.zip(expect.held) {
        let expected = expected.as_f64();
        if (held / expected - 1.0).abs() > HELD {
            signs
                .wrong
                .push(format!("{:.3} Gb/s are left, not {:.3}", held / 1e9, expected / 1e9));
        }
    }
}

fn is_found(finding: Finding, report: &Report) -> bool {
    match finding {
        Finding::Crosscheck => report.crosschecks.iter().any(|check| check.pass != Some(true)),
        Finding::Audit => report.audit.as_ref().is_some_and(|audit| audit.failed > 0),
        Finding::Unstable => {
            report.verdict == Verdict::Unstable
                || report
                    .thresholds
                    .iter()
                    .any(|one| one.name.contains("variation") && !one.pass)
        }
    }
}

fn measure(expect: &Expect, report: &Report) -> Signs {
    let links = links(expect, report);
    let (from, until) = (expect.from.as_secs_f64(), expect.until.as_secs_f64());
    // Transfers that cross the edges blur them.
    let edge = ((until - from) * 0.1).min(30.0);
    let (asked, achieved, seconds) = sums(report, &links, (from + edge, until - edge));
    let before = (report.windows.hold.start_s, from.min(expect.begins.as_secs_f64()));
    let (asked_before, achieved_before, _) = sums(report, &links, before);
    Signs {
        missed_ratio: missed(asked, achieved),
        missed_before_ratio: missed(asked_before, achieved_before),
        held_bps: (seconds > 0.0).then(|| achieved / seconds),
        causes: causes(expect, report, &links, (from + edge, until - edge)),
        links,
        wrong: Vec::new(),
    }
}

fn missed(asked: f64, achieved: f64) -> Option<f64> {
    (asked > 0.0).then(|| (asked - achieved) / asked)
}

/// The links that are judged: those of the expectation, else those at its place.
fn links(expect: &Expect, report: &Report) -> Vec<String> {
    let all = report
        .links
        .iter()
        .map(|link| (format!("{}→{}", link.source, link.destination), link));
    if !expect.links.is_empty() {
        return all
            .map(|(name, _)| name)
            .filter(|name| expect.links.contains(name))
            .collect();
    }
    let place = expect.place.as_deref().and_then(|place| place.split_once(':'));
    let is_at = |source: &str, destination: &str, name: &str| match place {
        Some(("rse-in", rse)) => destination == rse,
        Some(("rse-out", rse)) => source == rse,
        Some(("server", server)) => [source, destination].contains(&server.split('#').next().unwrap_or(server)),
        Some(("path", path)) => name == path,
        _ => true,
    };
    all.filter(|(name, link)| is_at(&link.source, &link.destination, name))
        .map(|(name, _)| name)
        .collect()
}

/// Asked and achieved bits of links between two moments, and the seconds of the bins in between.
pub(crate) fn sums(report: &Report, links: &[String], (from, until): (f64, f64)) -> (f64, f64, f64) {
    let (bin, mut sums) = (report.series.bin_s, (0.0, 0.0, 0.0));
    let within = |at: usize| {
        let middle = (at as f64 + 0.5) * bin;
        from <= middle && middle < until
    };
    for series in links.iter().filter_map(|link| report.series.links.get(link)) {
        for (at, (asked, achieved)) in series.asked_bps.iter().zip(&series.achieved_bps).enumerate() {
            if within(at) {
                sums.0 += asked.map_or(0.0, weir_units::BitRate::as_f64) * bin;
                sums.1 += achieved.map_or(0.0, weir_units::BitRate::as_f64) * bin;
            }
        }
    }
    sums.2 = (0..report.series.n_bins as usize).filter(|at| within(*at)).count() as f64 * bin;
    sums
}

fn cause(wait: &str, place: Option<&str>) -> String {
    place.map_or_else(|| wait.to_owned(), |place| format!("{wait} {place}"))
}

/// The causes of what is missing, by their share of the asked bits; of waits, where no world has kept the deficits.
fn causes(expect: &Expect, report: &Report, links: &[String], (from, until): (f64, f64)) -> Vec<(String, f64)> {
    let mut parts: BTreeMap<String, f64> = BTreeMap::new();
    let mut whole = 0.0;
    let is_judged = |source: &str, destination: &str| links.contains(&format!("{source}→{destination}"));
    let bins = |bin: f64| (from / bin).ceil() as usize..(until / bin).floor() as usize;
    for link in report
        .deficits
        .iter()
        .filter(|link| is_judged(&link.source, &link.destination))
    {
        let bins = bins(link.bin_s);
        whole += link.asked_bits.iter().take(bins.end).skip(bins.start).sum::<u64>() as f64;
        for part in link.parts.iter().filter(|part| part.part != DeficitPart::Ahead) {
            let wait = match part.part {
                DeficitPart::NotInjected => "not-injected",
                DeficitPart::Failed => "failed",
                _ => part.wait.map_or("unexplained", weir_world::Wait::as_str),
            };
            let bits: i64 = part.bits.iter().take(bins.end).skip(bins.start).sum();
            add(
                &mut parts,
                expect,
                wait,
                part.place.as_ref().map(ToString::to_string),
                bits as f64,
            );
        }
    }
    if report.deficits.is_empty() {
        for link in report
            .signals
            .iter()
            .filter(|link| is_judged(&link.source, &link.destination))
        {
            let bins = bins(link.bin_s);
            for wait in &link.waits {
                let time: f64 = wait.seconds.iter().take(bins.end).skip(bins.start).sum();
                whole += time;
                add(
                    &mut parts,
                    expect,
                    wait.wait.as_str(),
                    wait.place.as_ref().map(ToString::to_string),
                    time,
                );
            }
        }
    }
    let mut parts: Vec<(String, f64)> = parts
        .into_iter()
        .map(|(name, part)| (name, part / whole.max(1.0)))
        .collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    parts.truncate(5);
    parts
}

fn add(parts: &mut BTreeMap<String, f64>, expect: &Expect, wait: &str, place: Option<String>, amount: f64) {
    let is_expected = expect.wait.as_deref() == Some(wait);
    if is_expected || !CONSEQUENCES.contains(&wait) {
        // Where no place is expected, any will do.
        let place = place.filter(|_| !is_expected || expect.place.is_some());
        *parts.entry(cause(wait, place.as_deref())).or_default() += amount;
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
